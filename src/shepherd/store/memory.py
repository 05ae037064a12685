"""The store in memory: what every read of every store comes from."""

import logging
from collections import deque
from collections.abc import AsyncIterator

from shepherd.lib.clock import Clock, SystemClock
from shepherd.store.base import (
    Change,
    Changes,
    ConflictError,
    Delete,
    Item,
    Page,
    Span,
    StoreFullError,
    Write,
)
from shepherd.store.feed import DEFAULT_HISTORY, Feed, History, Step, Steps
from shepherd.store.state import State

_COMPACTION_PERIOD_SECONDS = 30.0

log = logging.getLogger("shepherd.store")


class MemoryStore:
    """A `Store` that lives as long as its process."""

    def __init__(self, *, clock: Clock | None = None, history: History = DEFAULT_HISTORY) -> None:
        self._clock = clock or SystemClock()
        self._age_seconds = history.age_seconds
        self._state = State()
        self._feed = Feed(0, history)

    @property
    def revision(self) -> int:
        return self._feed.revision

    @property
    def oldest(self) -> int:
        return self._feed.oldest

    async def get(self, key: str) -> Item | None:
        return self._state.get(key)

    async def list(
        self, span: Span, *, limit: int = 0, after: str = "", at: int | None = None
    ) -> Page:
        revision = self.revision if at is None else at
        undo = {} if revision == self.revision else self._feed.undo(revision)
        return self._state.page(span, limit, after, revision, undo)

    async def count(self, span: Span) -> int:
        return self._state.count(span)

    async def commit(self, *writes: Write) -> int:
        revision = self.revision + 1
        self._show(revision, self._plan(writes, revision))
        return revision

    def watch(self, span: Span, *, since: int) -> AsyncIterator[Changes]:
        return self._feed.watch(span, since)

    async def wait(self, revision: int) -> None:
        await self._feed.wait(revision)

    async def compact(self, keep_revisions: int) -> int:
        self._feed.forget(self.revision - keep_revisions)
        return self.oldest

    async def run(self) -> None:
        seen = deque([(self._clock.monotonic(), self.revision)])
        while True:
            await self._clock.sleep(_COMPACTION_PERIOD_SECONDS)
            now = self._clock.monotonic()
            seen.append((now, self.revision))
            old = 0
            while seen[0][0] <= now - self._age_seconds:
                old = seen.popleft()[1]
            try:
                await self.compact(self.revision - old)
            except StoreFullError as error:
                log.warning("compaction failed, will try again: %s", error)

    async def close(self) -> None:
        self._feed.close()

    def _latest(self, key: str) -> Item | None:
        """The item that the next commit finds."""
        return self._state.get(key)

    def _plan(self, writes: tuple[Write, ...], revision: int) -> Steps:
        """What commit `revision` will do. Raises ConflictError; ValueError for a senseless one."""
        if not writes or len({write.key for write in writes}) < len(writes):
            raise ValueError("a commit needs at least one write, each to a key of its own")
        for write in writes:
            write.key.encode()  # raises here, where it fails nobody else's commit
        return [_step(write, self._latest(write.key), revision) for write in writes]

    def _show(self, revision: int, steps: Steps) -> None:
        """Make a commit visible."""
        for step in steps:
            if step.after:
                self._state.put(step.after)
            else:
                self._state.remove(step.change.key)
        self._feed.publish(revision, steps)


def _step(write: Write, before: Item | None, revision: int) -> Step:
    actual = before.revision if before else 0
    missing = before is None and isinstance(write, Delete)
    if missing or write.expected not in (None, actual):
        raise ConflictError(write.key, write.expected, actual)
    previous = before.value if before else None
    if isinstance(write, Delete):
        last = previous if write.value is None else write.value
        return Step(Change(revision, write.key, None, last), before, None)
    change = Change(revision, write.key, write.value, previous)
    return Step(change, before, Item(write.key, write.value, revision))
