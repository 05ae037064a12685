"""The feed: a bounded history of changes, and their fan-out to watchers.

A writer never waits for a reader. Each watcher has a list of the changes it has yet to read; the
changes themselves are shared by all. A watcher whose next change has already been pushed out of
the history by its limits has fallen too far behind and gets `ExpiredError`, so watchers can never
hold more than the history may.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from shepherd.store.base import Change, Changes, ExpiredError, Item, Span

_OVERHEAD_BYTES = 300
"""What a change costs in memory beside its values."""


@dataclass(frozen=True, slots=True)
class History:
    """How much history a store keeps; the first limit reached counts."""

    changes: int = 20_000
    bytes: int = 32 << 20
    """Of values that only the history still holds."""
    age_seconds: float = 300.0
    """As etcd under Kubernetes (kube-apiserver --etcd-compaction-interval)."""


DEFAULT_HISTORY = History()


@dataclass(slots=True)
class Step:
    """What a commit does to one key: the change, and the item before and after it (None = none)."""

    change: Change
    before: Item | None
    after: Item | None

    @property
    def cost(self) -> int:
        """Bytes that only the history keeps alive: what was there before."""
        return len(self.change.previous or b"") + _OVERHEAD_BYTES


Steps = list[Step]


class _Watcher:
    """What one reader has yet to see."""

    def __init__(self, span: Span, pending: Changes, closed: bool) -> None:
        self.span = span
        self.pending = pending
        self.expired = False
        self.closed = closed
        self.ready = asyncio.Event()
        if pending or closed:
            self.ready.set()

    def push(self, change: Change, dropped: int) -> None:
        """Add a change. `dropped` is the last revision that the history has pushed out."""
        if self.expired:
            return
        if self.pending and self.pending[0].revision <= dropped:
            self.pending = []
            self.expired = True
        else:
            self.pending.append(change)
        self.ready.set()

    async def next(self) -> Changes:
        """The changes since the last call; empty = the feed has closed."""
        await self.ready.wait()
        if self.expired:
            raise ExpiredError("the watcher was too slow: the history has moved on without it")
        batch, self.pending = self.pending, []
        if not self.closed:
            self.ready.clear()
        return batch


class Feed:
    """History and watchers of a store. `revision` is the latest change that is visible."""

    def __init__(self, revision: int, limits: History) -> None:
        self.revision = revision
        self.oldest = revision
        self._limits = limits
        self._history: deque[Step] = deque()
        self._bytes = 0
        self._dropped = 0
        self._watchers: dict[str, set[_Watcher]] = {}
        self._waiting: set[tuple[int, asyncio.Event]] = set()
        self._closed = False

    def publish(self, revision: int, steps: Steps) -> None:
        """Make a commit visible to watchers and to those who wait for its revision."""
        self.revision = revision
        for step in steps:
            self._history.append(step)
            self._bytes += step.cost
            for watcher in self._interested(step.change.key):
                watcher.push(step.change, self._dropped)
        limits = self._limits
        while len(self._history) > limits.changes or self._bytes > limits.bytes:
            self._drop(self._history[0].change.revision)
            self._dropped = self.oldest
        for wanted, reached in self._waiting:
            if wanted <= revision:
                reached.set()

    def undo(self, revision: int) -> dict[str, Item | None]:
        """For each key changed behind `revision`, its item then. Raises ExpiredError."""
        if not self.oldest <= revision <= self.revision:
            raise ExpiredError(f"revision {revision} is not in {self.oldest}..{self.revision}")
        return {step.change.key: step.before for step in self._newest(revision)}

    def forget(self, revision: int) -> None:
        """Drop the history up to `revision`."""
        self._drop(min(revision, self.revision))

    async def wait(self, revision: int) -> None:
        """Return once `revision` is visible."""
        if revision <= self.revision:
            return
        entry = (revision, asyncio.Event())
        self._waiting.add(entry)
        try:
            await entry[1].wait()
        finally:
            self._waiting.remove(entry)

    async def watch(self, span: Span, since: int) -> AsyncIterator[Changes]:
        """See `Store.watch`."""
        await self.wait(since)
        if since < self.oldest:
            raise ExpiredError(f"revision {since} is older than {self.oldest}, the oldest kept")
        missed = [step.change for step in self._newest(since) if step.change.key in span]
        watcher = _Watcher(span, missed[::-1], self._closed)
        home = _home(span)
        self._watchers.setdefault(home, set()).add(watcher)
        try:
            while batch := await watcher.next():
                yield batch
        finally:
            self._watchers[home].remove(watcher)
            if not self._watchers[home]:
                del self._watchers[home]

    def close(self) -> None:
        """End all watches, once they have been read to the end."""
        self._closed = True
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.closed = True
                watcher.ready.set()

    def _newest(self, revision: int) -> Iterator[Step]:
        """The steps behind `revision`, newest first."""
        for step in reversed(self._history):
            if step.change.revision <= revision:
                return
            yield step

    def _drop(self, revision: int) -> None:
        while self._history and self._history[0].change.revision <= revision:
            self._bytes -= self._history.popleft().cost
        self.oldest = max(self.oldest, revision)

    def _interested(self, key: str) -> Iterator[_Watcher]:
        """The watchers of a key: one look-up for each part of the key's path."""
        for home in _path(key):
            for watcher in self._watchers.get(home, ()):
                if key in watcher.span:
                    yield watcher


def _path(key: str) -> Iterator[str]:
    """The homes that may hold watchers of a key: "", "pods/", "pods/default/", and the key."""
    yield ""
    at = key.find("/")
    while at >= 0:
        yield key[: at + 1]
        at = key.find("/", at + 1)
    yield key


def _home(span: Span) -> str:
    """The longest path that every key of the span lies under: where its watcher is filed."""
    if span.end == span.start + "\0":
        return span.start
    home = ""
    for path in _path(span.start):
        if path.endswith("/") and span.end <= Span.prefix(path).end:
            home = path
    return home
