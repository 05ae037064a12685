"""What keeps the store small: its own compaction, and that Events live for an hour.

Source: kube-apiserver's --event-ttl.
"""

import asyncio

from shepherd.api.kinds import EVENT
from shepherd.api.meta import key_prefix, parse_time
from shepherd.api.resource import Object
from shepherd.lib.clock import Clock
from shepherd.server.codec import decode
from shepherd.store.base import (
    ConflictError,
    Delete,
    ExpiredError,
    Item,
    Span,
    Store,
    StoreFullError,
)

EVENT_TTL_SECONDS = 3600.0
_SWEEP_SECONDS = 60.0
_BATCH = 100
_EVENTS = Span.prefix(key_prefix(EVENT))


async def upkeep(store: Store, clock: Clock) -> None:
    """Run for ever."""
    ages = EventAges()
    async with asyncio.TaskGroup() as group:
        group.create_task(store.run())
        group.create_task(_follow_events(store, clock, ages))
        group.create_task(_delete_old_events(store, clock, ages))


async def _follow_events(store: Store, clock: Clock, ages: "EventAges") -> None:
    """Note when each event changed last, until the store closes."""
    while True:
        page = await store.list(_EVENTS)
        ages.load(page.items, clock.now())
        try:
            async for changes in store.watch(_EVENTS, since=page.revision):
                for change in changes:
                    ages.changed(change.key, change.value, change.revision, clock.now())
        except ExpiredError:
            continue
        return


async def _delete_old_events(store: Store, clock: Clock, ages: "EventAges") -> None:
    while True:
        await clock.sleep(_SWEEP_SECONDS)
        while batch := ages.expired(clock.now(), _BATCH):
            for key, revision in batch:
                try:
                    await store.commit(Delete(key, revision))
                except ConflictError:
                    pass  # it changed meanwhile: young again, and back on the list
                except StoreFullError:
                    ages.changed(key, b"", revision, clock.now())  # try again in an hour


class EventAges:
    """When each event changed last, oldest first."""

    def __init__(self) -> None:
        self._changed: dict[str, tuple[float, int]] = {}

    def load(self, items: list[Item], now: float) -> None:
        """Begin with the events that are there: their own stamps tell their ages."""
        found = [(min(_stamp(decode(item.value), now), now), item) for item in items]
        found.sort(key=lambda pair: pair[0])
        self._changed = {item.key: (changed, item.revision) for changed, item in found}

    def changed(self, key: str, value: bytes | None, revision: int, now: float) -> None:
        self._changed.pop(key, None)
        if value is not None:
            self._changed[key] = (now, revision)

    def expired(self, now: float, limit: int) -> list[tuple[str, int]]:
        """Take up to `limit` keys whose time is over, with their revisions."""
        found: list[tuple[str, int]] = []
        for key, (changed, revision) in self._changed.items():
            if changed + EVENT_TTL_SECONDS > now or len(found) == limit:
                break
            found.append((key, revision))
        for key, _ in found:
            del self._changed[key]
        return found


def _stamp(event: Object, now: float) -> float:
    series = event.get("series") or {}
    text = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event["metadata"].get("creationTimestamp")
    )
    try:
        return parse_time(text or "")
    except ValueError:
        return now
