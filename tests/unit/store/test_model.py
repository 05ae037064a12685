"""Both stores against a model too simple to be wrong: a dictionary for each revision."""

import asyncio
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shepherd.lib.clock import SystemClock
from shepherd.store.base import ConflictError, Delete, Put, Span, Store, Write
from shepherd.store.feed import History
from shepherd.store.memory import MemoryStore
from shepherd.store.sqlite import SqliteStore
from shepherd.testing.store_suite import ALL, watching

T = TypeVar("T")
Snapshot = dict[str, tuple[bytes, int]]

KEYS = st.sampled_from(["a/1/x", "a/1/y", "a/2/x", "b//x", "b//é"])
SPANS = st.sampled_from([ALL, Span.prefix("a/"), Span.prefix("a/1/"), Span("a/1/y", "b//y")])


class StoreMachine(RuleBasedStateMachine):
    """Random commits, reads of any kept revision, compactions and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.snapshots: list[Snapshot] = [{}]
        self.store = self.wait(self.open())

    def wait(self, work: Awaitable[T]) -> T:
        async def finish() -> T:
            return await work

        return self.runner.run(finish())

    async def open(self) -> Store:
        return MemoryStore(history=History(changes=8))

    def teardown(self) -> None:
        self.wait(self.store.close())
        self.runner.close()
        self.directory.cleanup()

    @property
    def present(self) -> Snapshot:
        return self.snapshots[-1]

    @rule(
        puts=st.dictionaries(KEYS, st.binary(max_size=3), max_size=3),
        deletes=st.sets(KEYS, max_size=2),
        stale=st.booleans(),
    )
    def commit(self, puts: dict[str, bytes], deletes: set[str], stale: bool) -> None:
        writes: list[Write] = []
        for key, value in puts.items():
            expected = self.present[key][1] if key in self.present else 0
            writes.append(Put(key, value, expected=expected + stale))
        writes += [Delete(key) for key in sorted(deletes - puts.keys())]
        if not writes:
            return
        legal = deletes - puts.keys() <= self.present.keys() and not (stale and puts)
        revision = len(self.snapshots)
        try:
            assert self.wait(self.store.commit(*writes)) == revision
            assert legal
        except ConflictError:
            assert not legal
            return
        after = {key: kept for key, kept in self.present.items() if key not in deletes}
        self.snapshots.append(after | {key: (value, revision) for key, value in puts.items()})

    @rule(span=SPANS, data=st.data(), limit=st.integers(0, 3))
    def page_through(self, span: Span, data: st.DataObject, limit: int) -> None:
        at = data.draw(st.integers(self.store.oldest, self.store.revision))
        wanted = {key: kept for key, kept in self.snapshots[at].items() if key in span}
        found: list[str] = []
        while True:
            after = found[-1] if found else ""
            page = self.wait(self.store.list(span, limit=limit, after=after, at=at))
            assert all((item.value, item.revision) == wanted[item.key] for item in page.items)
            found += [item.key for item in page.items]
            assert len(found) + page.remaining == len(wanted)
            if not page.remaining:
                break
        assert found == sorted(wanted)

    @rule(data=st.data(), span=SPANS)
    def replay_a_watch(self, data: st.DataObject, span: Span) -> None:
        since = data.draw(st.integers(self.store.oldest, self.store.revision))
        state = {key: kept for key, kept in self.snapshots[since].items() if key in span}
        wanted = {key: kept for key, kept in self.present.items() if key in span}

        async def replay() -> None:
            async with watching(self.store, span, since) as reader:
                number = sum(
                    (self.snapshots[n].get(key) != self.snapshots[n - 1].get(key))
                    for n in range(since + 1, len(self.snapshots))
                    for key in self.snapshots[n] | self.snapshots[n - 1]
                    if key in span
                )
                for _ in range(number):
                    change = await reader.next()
                    assert (change.previous is None) == (change.key not in state)
                    if change.value is None:
                        del state[change.key]
                    else:
                        state[change.key] = (change.value, change.revision)

        self.wait(replay())
        assert state == wanted

    @rule(keep=st.integers(0, 5))
    def compact(self, keep: int) -> None:
        oldest = self.wait(self.store.compact(keep))
        assert oldest >= self.store.revision - keep

    @invariant()
    def the_present_is_as_committed(self) -> None:
        page = self.wait(self.store.list(ALL))
        assert {item.key: (item.value, item.revision) for item in page.items} == self.present
        assert page.revision == self.store.revision == len(self.snapshots) - 1


class SqliteMachine(StoreMachine):
    async def open(self) -> Store:
        path = Path(self.directory.name) / "s.db"
        return await SqliteStore.open(path, clock=SystemClock(), history=History(changes=8))

    @precondition(lambda self: len(self.snapshots) > 1)
    @rule()
    def restart(self) -> None:
        self.wait(self.store.close())
        self.store = self.wait(self.open())


TestMemoryModel = StoreMachine.TestCase
TestSqliteModel = SqliteMachine.TestCase
TestMemoryModel.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestSqliteModel.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
