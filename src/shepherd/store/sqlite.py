"""The store on disk: a `MemoryStore` whose commits become durable before they become visible.

Commits are decided on the event loop, at once and in order, against the state that they will find:
the visible one plus the commits still on their way to the disk. They collect in a batch while the
thread writes the one before; so all that wait at the same time share one fsync.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from shepherd.lib.clock import Clock
from shepherd.store.base import ConflictError, Item, StoreFullError, StoreOpenError, Write
from shepherd.store.feed import DEFAULT_HISTORY, Feed, History, Step
from shepherd.store.lock import FileLock
from shepherd.store.log import Commit, Content, Log
from shepherd.store.memory import MemoryStore
from shepherd.store.state import State

T = TypeVar("T")


class _Batch:
    """Commits that share one transaction, and its outcome."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.done = asyncio.Event()
        self.failure: Exception | None = None

    def finish(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.done.set()

    async def outcome(self) -> None:
        await self.done.wait()
        if self.failure:
            raise StoreFullError(str(self.failure)) from self.failure


class SqliteStore(MemoryStore):
    """A `Store` in one file; `open` makes it."""

    def __init__(
        self, disk: "_Disk", content: Content, *, clock: Clock, history: History = DEFAULT_HISTORY
    ) -> None:
        super().__init__(clock=clock, history=history)
        self._disk = disk
        items, commits = content
        self._state = State(items)
        self._feed = Feed(disk.log.compacted, history)
        for revision, steps in commits:
            self._show(revision, steps)
        self._planned = self.revision
        self._ahead: dict[str, Step] = {}
        """For each key that a commit on its way will change, the last such step."""
        self._batch = self._latest_batch = _Batch()
        self._filled = asyncio.Event()
        self._closing = False
        self._compacting = asyncio.Lock()
        self._committer = asyncio.create_task(self._write_batches(), name="store committer")

    @classmethod
    async def open(
        cls, path: Path, *, clock: Clock, history: History = DEFAULT_HISTORY
    ) -> "SqliteStore":
        """Open the store in the file `path`; make it if there is none. Raises StoreOpenError."""
        thread = ThreadPoolExecutor(1, "store")
        try:
            loop = asyncio.get_running_loop()
            disk, content = await loop.run_in_executor(thread, _Disk.open, thread, path)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(disk, content, clock=clock, history=history)

    async def commit(self, *writes: Write) -> int:
        assert not self._closing, "the store is closed"
        while True:
            revision = self._planned + 1
            try:
                steps = self._plan(writes, revision)
                break
            except ConflictError as error:
                if error.key not in self._ahead:
                    raise
                # The writer cannot have seen what it conflicts with: once it can, tell it.
                batch = self._latest_batch
                await batch.done.wait()
                if not batch.failure:
                    raise
        self._planned = revision
        self._ahead |= {step.change.key: step for step in steps}
        batch = self._latest_batch = self._batch
        batch.commits.append((revision, steps))
        self._filled.set()
        await batch.outcome()
        return revision

    async def compact(self, keep_revisions: int) -> int:
        await super().compact(keep_revisions)
        async with self._compacting:
            log = self._disk.log
            while log.compacted < self.oldest and not self._closing:
                await self._disk.run(log.compact, self.oldest)
            while not self._closing and await self._disk.run(log.shrink):
                pass
        return self.oldest

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._filled.set()
        await self._committer
        await super().close()
        async with self._compacting:
            await self._disk.close()

    def _latest(self, key: str) -> Item | None:
        step = self._ahead.get(key)
        return step.after if step else super()._latest(key)

    async def _write_batches(self) -> None:
        while self._batch.commits or not self._closing:
            await self._filled.wait()
            self._filled.clear()
            batch, self._batch = self._batch, _Batch()
            if not batch.commits:
                continue
            try:
                await self._disk.run(self._disk.log.append, batch.commits)
            except Exception as error:  # whatever it was, nobody may wait for ever
                self._fail(batch, error)
            else:
                self._finish(batch)

    def _finish(self, batch: _Batch) -> None:
        for revision, steps in batch.commits:
            self._show(revision, steps)
            for step in steps:
                if self._ahead[step.change.key] is step:
                    del self._ahead[step.change.key]
        batch.finish()

    def _fail(self, batch: _Batch, error: Exception) -> None:
        """Fail the batch, and the next one too: its commits were decided in view of these."""
        behind, self._batch = self._batch, _Batch()
        self._ahead.clear()
        self._planned = self.revision
        batch.finish(error)
        behind.finish(error)


class _Disk:
    """What the store holds of the operating system. Everything here happens in one thread."""

    def __init__(self, thread: ThreadPoolExecutor, lock: FileLock, log: Log) -> None:
        self._thread = thread
        self._lock = lock
        self.log = log

    @classmethod
    def open(cls, thread: ThreadPoolExecutor, path: Path) -> tuple["_Disk", Content]:
        """Take over the file, and what it holds. Raises StoreOpenError."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(0o600)
            lock = FileLock(path.with_name(path.name + ".lock"))
        except OSError as error:
            raise StoreOpenError(f"cannot open the store {path}: {error.strerror}") from error
        try:
            log = Log(path)
            return cls(thread, lock, log), log.load()
        except BaseException:
            lock.release()
            raise

    async def run(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    async def close(self) -> None:
        await self.run(self.log.close)
        self._thread.shutdown()
        self._lock.release()
