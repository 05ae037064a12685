"""The store in memory: what every read of every store comes from."""

from collections.abc import AsyncIterator

from shepherd.store.base import (
    Change,
    Changes,
    ConflictError,
    Delete,
    Item,
    Page,
    Span,
    Write,
)
from shepherd.store.feed import HISTORY_BYTES, HISTORY_COUNT, Feed, Step, Steps
from shepherd.store.state import State


class MemoryStore:
    """A `Store` that lives as long as its process."""

    def __init__(
        self, *, history_count: int = HISTORY_COUNT, history_bytes: int = HISTORY_BYTES
    ) -> None:
        self._state = State()
        self._feed = Feed(history_count=history_count, history_bytes=history_bytes)

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
        self._show(revision, [self._plan(write, revision) for write in _distinct(writes)])
        return revision

    def watch(self, span: Span, *, since: int) -> AsyncIterator[Changes]:
        return self._feed.watch(span, since)

    async def wait(self, revision: int) -> None:
        await self._feed.wait(revision)

    async def compact(self, keep_revisions: int) -> int:
        self._feed.forget(self.revision - keep_revisions)
        return self.oldest

    async def close(self) -> None:
        self._feed.close()

    def _latest(self, key: str) -> Item | None:
        """The item that the next commit finds."""
        return self._state.get(key)

    def _plan(self, write: Write, revision: int) -> Step:
        """What `write` will do as part of commit `revision`. Raises ConflictError."""
        before = self._latest(write.key)
        actual = before.revision if before else 0
        missing = before is None and isinstance(write, Delete)
        if missing or write.expected not in (None, actual):
            raise ConflictError(write.key, write.expected, actual)
        previous = before.value if before else None
        if isinstance(write, Delete):
            previous = previous if write.value is None else write.value
            return Step(Change(revision, write.key, None, previous), before)
        return Step(Change(revision, write.key, write.value, previous), before)

    def _show(self, revision: int, steps: Steps) -> None:
        """Make a commit visible."""
        for step in steps:
            if item := step.after:
                self._state.put(item)
            else:
                self._state.remove(step.change.key)
        self._feed.publish(revision, steps)


def _distinct(writes: tuple[Write, ...]) -> tuple[Write, ...]:
    """The writes of one commit, which must be to different keys. Raises ValueError."""
    if not writes or len({write.key for write in writes}) < len(writes):
        raise ValueError("a commit needs at least one write, each to a key of its own")
    return writes
