"""Indexes over what is stored, current at every decision.

An index is brought up to date when it is asked, not when the store changes: whoever got an answer
to a write, or saw a change in a watch, finds the next decision made with it. While nobody asks (a
cluster where everyone is an administrator) nothing is read and nothing held.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Protocol

from shepherd.store.base import Change, Changes, ExpiredError, Span, Store

_EVERYTHING = Span("", chr(0x10FFFF))
_TURN = 200
"""Objects that are read before others get their turn."""


class Index(Protocol):
    """What is known of the objects of some kinds."""

    @property
    def storages(self) -> tuple[str, ...]:
        """Of which kinds, by `Resource.storage`."""
        ...

    def put(self, key: str, value: bytes | None) -> None:
        """An object as it is from now on; None = it is gone (or never was)."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...


class Tracker:
    """Shows indexes what the store holds."""

    def __init__(self, store: Store, *indexes: Index) -> None:
        self._store = store
        self._indexes = indexes
        self._by_storage = {storage: index for index in indexes for storage in index.storages}
        self._revision = -1
        """Up to here the indexes know everything."""
        self._changes: AsyncIterator[Changes] | None = None
        self._one = asyncio.Lock()

    async def catch_up(self) -> None:
        """Return once the indexes know all that is visible now."""
        if self._revision == self._store.revision:
            return
        async with self._one:
            wanted = self._store.revision
            while self._revision < wanted:
                if self._changes:
                    await self._advance(self._changes)
                else:
                    await self._load()

    async def _load(self) -> None:
        """Begin anew. What changes while it reads is shown twice, the last state last."""
        since = self._store.revision
        changes = self._store.watch(_EVERYTHING, since=since)
        count = 0
        for index in self._indexes:
            index.clear()
            for storage in index.storages:
                for item in (await self._store.list(Span.prefix(f"{storage}/"))).items:
                    index.put(item.key, item.value)
                    count += 1
                    if not count % _TURN:
                        await asyncio.sleep(0)
        self._changes, self._revision = changes, since

    async def _advance(self, source: AsyncIterator[Changes]) -> None:
        """Show the next changes. If they are not to be had any more, it begins anew."""
        changes: Changes = []
        with suppress(ExpiredError):
            changes = await anext(source, [])
        for change in changes:
            self._show(change)
        if changes:
            self._revision = changes[-1].revision
        else:
            self._changes = None

    def _show(self, change: Change) -> None:
        index = self._by_storage.get(change.key.partition("/")[0])
        if index:
            index.put(change.key, change.value)
