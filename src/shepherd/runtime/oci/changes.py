"""Telling listeners whose state changed: each key at most once until it is taken."""

import asyncio
from collections.abc import AsyncGenerator


class Changes:
    """Any number of listeners; what each holds is bounded by the number of keys there are."""

    def __init__(self) -> None:
        self._listeners: set[_Listener] = set()

    def notify(self, key: str) -> None:
        for listener in self._listeners:
            listener.add(key)

    def listen(self) -> AsyncGenerator[str, None]:
        """Hears from now on, not from the first `anext` on."""
        listener = _Listener()
        self._listeners.add(listener)
        return self._deliver(listener)

    async def _deliver(self, listener: "_Listener") -> AsyncGenerator[str, None]:
        try:
            while True:
                yield await listener.take()
        finally:
            self._listeners.discard(listener)


class _Listener:
    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._filled = asyncio.Event()

    def add(self, key: str) -> None:
        self._keys[key] = None
        self._filled.set()

    async def take(self) -> str:
        await self._filled.wait()
        key = next(iter(self._keys))
        del self._keys[key]
        if not self._keys:
            self._filled.clear()
        return key
