"""The protocol of a store: MVCC key-value with one integer revision for everything.

Modelled on etcd's v3 API (etcd documentation, "etcd API guarantees"): every commit gets the next
revision; reads see one snapshot; watches deliver every change once and in order.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Item:
    """A key's present value."""

    key: str
    value: bytes
    revision: int
    """The commit that last changed it."""


@dataclass(frozen=True, slots=True)
class Span:
    """The keys from `start` (included) to `end` (excluded), in byte order."""

    start: str
    end: str

    @classmethod
    def prefix(cls, prefix: str) -> "Span":
        """Every key that begins with `prefix`, which ends in an ASCII character."""
        return cls(prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))

    def __contains__(self, key: str) -> bool:
        return self.start <= key < self.end


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, all of one snapshot."""

    items: list[Item]
    revision: int
    """The snapshot's revision: watch since this to miss nothing."""
    remaining: int = 0
    """How many more keys the span holds behind the last item."""


@dataclass(frozen=True, slots=True)
class Put:
    """Write a value."""

    key: str
    value: bytes
    expected: int | None = None
    """The key's revision that must still hold; 0 = must not exist; None = whatever it is."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a key, which must exist."""

    key: str
    expected: int | None = None
    value: bytes | None = None
    """The last state that watchers get to see; None = the value that was there."""


Write = Put | Delete


@dataclass(slots=True)
class Change:
    """What a commit did to one key. One instance is shared by all watchers."""

    revision: int
    key: str
    value: bytes | None
    """None = deleted."""
    previous: bytes | None
    """The value before (for a delete, the last state to show); None = created."""

    @property
    def deleted(self) -> bool:
        return self.value is None


Changes = list[Change]


class ConflictError(Exception):
    """A compare-and-swap did not hold; nothing was written."""

    def __init__(self, key: str, expected: int | None, actual: int) -> None:
        wanted = "some revision" if expected is None else f"revision {expected}"
        super().__init__(f"{key}: expected {wanted}, found {actual}")
        self.key = key
        self.expected = expected
        """None for a key that should exist (a delete) and does not."""
        self.actual = actual
        """The key's present revision; 0 = it does not exist."""


class ExpiredError(Exception):
    """The asked revision is compacted away, or a watcher was too slow."""


class StoreFullError(Exception):
    """The disk refused the write; nothing changed and reads go on."""


class StoreOpenError(Exception):
    """The store cannot be opened; the message says why and what to do."""


class Store(Protocol):
    """A store. Reads never wait for writes."""

    @property
    def revision(self) -> int:
        """The latest visible commit."""
        ...

    @property
    def oldest(self) -> int:
        """The oldest revision at which `list` and `watch` still answer."""
        ...

    async def get(self, key: str) -> Item | None:
        """The present value of a key."""
        ...

    async def list(
        self, span: Span, *, limit: int = 0, after: str = "", at: int | None = None
    ) -> Page:
        """The keys of `span` behind `after`, at most `limit` (0 = all), at revision `at`.

        Raises ExpiredError if `at` is compacted. `at` None is the present.
        """
        ...

    async def count(self, span: Span) -> int:
        """How many keys the span holds now."""
        ...

    async def commit(self, *writes: Write) -> int:
        """Apply all writes or none, as one revision, and return it.

        On return the writes are durable, and only then visible to readers and watchers. Commits
        that wait at the same time share one fsync. Raises ConflictError, StoreFullError.
        """
        ...

    def watch(self, span: Span, *, since: int) -> AsyncIterator[Changes]:
        """Every change of the span behind revision `since`, once and in order, in batches.

        Raises ExpiredError, at the first step if history no longer reaches back, later if the
        reader falls too far behind. Close it (`aclose`) to end it.
        """
        ...

    async def wait(self, revision: int) -> None:
        """Return once `revision` is visible (for reads "not older than")."""
        ...

    async def compact(self, keep_revisions: int) -> int:
        """Forget history older than the last `keep_revisions`, in small batches; the new oldest."""
        ...

    async def run(self) -> None:
        """Background work: compact what is older than the history shall be. Never returns."""
        ...

    async def close(self) -> None:
        """Finish the waiting commits, end the watches and release what was held."""
        ...
