"""What every `Store` must do. A test class inherits `StoreSuite` and gives the `make` fixture."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

from shepherd.store.base import (
    Change,
    Changes,
    ConflictError,
    Delete,
    ExpiredError,
    Put,
    Span,
    Store,
)
from shepherd.store.feed import History

MakeStore = Callable[[History], Awaitable[Store]]
"""Opens an empty store with a history of that size."""

ALL = Span("", "\U0010ffff")
PODS = Span.prefix("pods/")


@asynccontextmanager
async def watching(store: Store, span: Span, since: int) -> AsyncGenerator["Reader", None]:
    """A reader of a watch, closed at the end."""
    stream = cast(AsyncGenerator[Changes, None], store.watch(span, since=since))
    try:
        yield Reader(stream)
    finally:
        await stream.aclose()


class Reader:
    """Takes changes one by one from a watch that delivers them in batches."""

    def __init__(self, stream: AsyncGenerator[Changes, None]) -> None:
        self._stream = stream
        self._read: Changes = []

    async def next(self) -> Change:
        async with asyncio.timeout(5):
            while not self._read:
                self._read = list(await anext(self._stream))
        return self._read.pop(0)

    async def take(self, number: int) -> list[tuple[int, str, bytes | None]]:
        changes = [await self.next() for _ in range(number)]
        return [(change.revision, change.key, change.value) for change in changes]


async def raises(kind: type[Exception], work: Awaitable[object]) -> bool:
    try:
        await work
    except kind:
        return True
    return False


async def conflict(store: Store, *writes: Put | Delete) -> ConflictError:
    try:
        await store.commit(*writes)
    except ConflictError as error:
        return error
    raise AssertionError("the commit went through")


class StoreSuite:
    """Conformance of a store to `shepherd.store.base`."""

    # Reads and writes

    async def test_an_empty_store_is_at_revision_zero(self, make: MakeStore) -> None:
        store = await make(History())
        assert (store.revision, store.oldest) == (0, 0)
        assert await store.get("pods/a/x") is None
        page = await store.list(ALL)
        assert (page.items, page.revision, page.remaining) == ([], 0, 0)

    async def test_each_commit_is_one_revision_for_all_its_keys(self, make: MakeStore) -> None:
        store = await make(History())
        assert await store.commit(Put("pods/a/x", b"1"), Put("pods/a/y", b"2")) == 1
        assert await store.commit(Put("pods/a/x", b"3")) == 2
        x, y = await store.get("pods/a/x"), await store.get("pods/a/y")
        assert x is not None
        assert y is not None
        assert (x.value, x.revision, y.value, y.revision) == (b"3", 2, b"2", 1)
        assert store.revision == 2

    async def test_delete_removes_and_the_key_can_come_back(self, make: MakeStore) -> None:
        store = await make(History())
        await store.commit(Put("pods/a/x", b"1"))
        await store.commit(Delete("pods/a/x", expected=1))
        assert await store.get("pods/a/x") is None
        assert await store.count(PODS) == 0
        assert await store.commit(Put("pods/a/x", b"2", expected=0)) == 3

    # Compare and swap

    async def test_a_stale_write_is_refused_and_names_the_present(self, make: MakeStore) -> None:
        store = await make(History())
        await store.commit(Put("pods/a/x", b"1", expected=0))
        await store.commit(Put("pods/a/x", b"2", expected=1))
        error = await conflict(store, Put("pods/a/x", b"3", expected=1))
        assert (error.key, error.expected, error.actual) == ("pods/a/x", 1, 2)
        error = await conflict(store, Put("pods/a/x", b"3", expected=0))
        assert (error.expected, error.actual) == (0, 2)
        error = await conflict(store, Delete("pods/a/x", expected=1))
        assert (error.expected, error.actual) == (1, 2)
        assert store.revision == 2

    async def test_what_does_not_exist_cannot_be_deleted(self, make: MakeStore) -> None:
        store = await make(History())
        assert (await conflict(store, Delete("pods/a/x"))).actual == 0
        assert (await conflict(store, Put("pods/a/x", b"", expected=7))).actual == 0

    async def test_one_conflict_stops_the_whole_commit(self, make: MakeStore) -> None:
        store = await make(History())
        await store.commit(Put("pods/a/x", b"1"))
        await conflict(store, Put("pods/a/y", b"2"), Put("pods/a/x", b"2", expected=0))
        assert await store.get("pods/a/y") is None
        assert store.revision == 1

    async def test_of_racing_creates_exactly_one_wins(self, make: MakeStore) -> None:
        store = await make(History())
        racers = (store.commit(Put("pods/a/x", b"%d" % n, expected=0)) for n in range(20))
        results = await asyncio.gather(*racers, return_exceptions=True)
        winners = [index for index, result in enumerate(results) if isinstance(result, int)]
        assert len(winners) == 1
        item = await store.get("pods/a/x")
        assert item is not None
        assert item.value == b"%d" % winners[0]
        assert store.revision == 1

    async def test_concurrent_counters_lose_nothing(self, make: MakeStore) -> None:
        store = await make(History())
        await store.commit(Put("n", b"0"))

        async def increment() -> None:
            while True:
                item = await store.get("n")
                assert item is not None
                try:
                    value = b"%d" % (int(item.value) + 1)
                    await store.commit(Put("n", value, expected=item.revision))
                except ConflictError:
                    continue
                return

        await asyncio.gather(*(increment() for _ in range(12)))
        item = await store.get("n")
        assert item is not None
        assert item.value == b"12"

    async def test_a_senseless_commit_harms_nobody(self, make: MakeStore) -> None:
        store = await make(History())
        good = asyncio.create_task(store.commit(Put("pods/a/good", b"")))
        await asyncio.sleep(0)
        twice = (Put("pods/a/x", b"1"), Put("pods/a/x", b"2"))
        for writes in ((), twice, (Put("pods/a/\udc80", b""),)):
            assert await raises(ValueError, store.commit(*writes))
        assert await good == 1
        assert await store.commit(Put("pods/a/x", b"")) == 2

    # Lists

    async def test_a_list_is_in_byte_order_and_ends_with_its_span(self, make: MakeStore) -> None:
        store = await make(History())
        for key in ("pods/b/é", "pods/b/z", "nodes//n", "pods/a/x", "pods.x/a/y", "podsy"):
            await store.commit(Put(key, b""))
        page = await store.list(PODS)
        assert [item.key for item in page.items] == ["pods/a/x", "pods/b/z", "pods/b/é"]
        assert await store.count(Span.prefix("pods/b/")) == 2

    async def test_pages_continue_and_count_what_remains(self, make: MakeStore) -> None:
        store = await make(History())
        await store.commit(*(Put(f"pods/a/{n}", b"") for n in range(5)))
        first = await store.list(PODS, limit=2)
        assert ([item.key[-1] for item in first.items], first.remaining) == (["0", "1"], 3)
        rest = await store.list(PODS, limit=3, after=first.items[-1].key)
        assert ([item.key[-1] for item in rest.items], rest.remaining) == (["2", "3", "4"], 0)

    async def test_a_list_at_an_old_revision_shows_that_snapshot(self, make: MakeStore) -> None:
        store = await make(History())
        await store.commit(Put("pods/a/1", b"a"), Put("pods/a/2", b"a"), Put("pods/a/3", b"a"))
        at = store.revision
        await store.commit(Put("pods/a/2", b"b"))
        await store.commit(Put("pods/a/2", b"c"))
        await store.commit(Delete("pods/a/3", value=b"last"))
        await store.commit(Put("pods/a/4", b"a"))
        page = await store.list(PODS, at=at, after="pods/a/1", limit=1)
        item = page.items[0]
        assert (item.key, item.value, item.revision) == ("pods/a/2", b"a", 1)
        assert (page.revision, page.remaining) == (1, 1)
        page = await store.list(PODS, at=at, after="pods/a/2")
        assert [(item.key, item.value) for item in page.items] == [("pods/a/3", b"a")]

    # Watches

    async def test_a_watch_gets_every_later_change_of_its_span(self, make: MakeStore) -> None:
        store = await make(History())
        await store.commit(Put("pods/a/x", b"1"))
        async with watching(store, PODS, 1) as reader:
            await store.commit(Put("pods/a/x", b"2"), Put("nodes//n", b""))
            await store.commit(Put("pods/a/y", b"3"))
            await store.commit(Delete("pods/a/x"))
            changes = [await reader.next() for _ in range(3)]
        assert [(c.revision, c.key, c.value, c.previous) for c in changes] == [
            (2, "pods/a/x", b"2", b"1"),
            (3, "pods/a/y", b"3", None),
            (4, "pods/a/x", None, b"2"),
        ]
        assert changes[2].deleted

    async def test_a_watch_catches_up_from_history(self, make: MakeStore) -> None:
        store = await make(History())
        for n in range(1, 5):
            await store.commit(Put("pods/a/x", b"%d" % n))
        async with watching(store, PODS, 2) as reader:
            await store.commit(Put("pods/a/x", b"5"))
            assert await reader.take(3) == [
                (3, "pods/a/x", b"3"),
                (4, "pods/a/x", b"4"),
                (5, "pods/a/x", b"5"),
            ]

    async def test_spans_of_every_width_see_their_own(self, make: MakeStore) -> None:
        store = await make(History())
        spans = (
            ALL,
            PODS,
            Span.prefix("pods/a/"),
            Span("pods/a/x", "pods/a/x\0"),
            Span.prefix("pods/a/x"),
            Span("pods/a/y", "pods/c/"),
        )
        keys = ("nodes//n", "pods/a/x", "pods/a/xy", "pods/a/z", "pods/b/x", "pods/c/x")
        for span in spans:
            wanted = [key for key in keys if key in span]
            since = store.revision
            async with watching(store, span, since) as early, watching(store, span, since) as late:
                reading = asyncio.create_task(early.take(len(wanted)))
                await asyncio.sleep(0)  # the early reader waits before anything happens
                for key in keys:
                    await store.commit(Put(key, b""))
                assert [key for _, key, _ in await reading] == wanted
                assert [key for _, key, _ in await late.take(len(wanted))] == wanted

    async def test_a_deletion_shows_the_last_state_it_was_given(self, make: MakeStore) -> None:
        store = await make(History())
        await store.commit(Put("pods/a/x", b"1"))
        await store.commit(Delete("pods/a/x", value=b"last"))
        async with watching(store, PODS, 1) as reader:
            assert (await reader.next()).previous == b"last"

    async def test_watchers_share_one_instance_of_a_change(self, make: MakeStore) -> None:
        store = await make(History())
        async with watching(store, PODS, 0) as one, watching(store, ALL, 0) as other:
            await store.commit(Put("pods/a/x", b"1"))
            assert await one.next() is await other.next()

    async def test_a_slow_watcher_expires_and_blocks_nobody(self, make: MakeStore) -> None:
        store = await make(History(changes=10))
        async with watching(store, PODS, 0) as slow, watching(store, PODS, 0) as fast:
            await store.commit(Put("pods/a/x", b"0"))
            assert await slow.take(1) == await fast.take(1)
            for n in range(2, 40):
                await store.commit(Put("pods/a/x", b"%d" % n))
                assert (await fast.next()).revision == n
            assert await raises(ExpiredError, slow.next())

    async def test_a_slow_watcher_of_big_values_expires_by_bytes(self, make: MakeStore) -> None:
        store = await make(History(bytes=50_000))
        async with watching(store, PODS, 0) as slow:
            await store.commit(Put("pods/a/x", b""))
            await slow.next()
            for _ in range(20):
                await store.commit(Put("pods/a/x", bytes(10_000)))
            assert await raises(ExpiredError, slow.next())
        assert store.oldest > 10

    async def test_history_that_is_gone_is_expired(self, make: MakeStore) -> None:
        store = await make(History(changes=5))
        for n in range(20):
            await store.commit(Put("pods/a/x", b"%d" % n))
        assert store.oldest == 15
        async with watching(store, PODS, 14) as reader:
            assert await raises(ExpiredError, reader.next())
        async with watching(store, PODS, 15) as reader:
            assert len(await reader.take(5)) == 5
        assert await raises(ExpiredError, store.list(PODS, at=14))
        assert (await store.list(PODS, at=15)).items[0].value == b"14"

    async def test_closing_ends_the_watches_after_their_last_change(self, make: MakeStore) -> None:
        store = await make(History())
        seen: list[int] = []

        async def read() -> None:
            async for changes in store.watch(PODS, since=0):
                seen.extend(change.revision for change in changes)

        task = asyncio.create_task(read())
        await store.commit(Put("pods/a/x", b"1"))
        await store.commit(Put("pods/a/y", b"2"))
        await store.close()
        async with asyncio.timeout(5):
            await task
        assert seen == [1, 2]

    # Waiting and compaction

    async def test_wait_returns_when_its_revision_is_visible(self, make: MakeStore) -> None:
        store = await make(History())
        waiting = asyncio.create_task(store.wait(2))
        await store.commit(Put("n", b"1"))
        assert not waiting.done()
        await store.commit(Put("n", b"2"))
        async with asyncio.timeout(5):
            await waiting
        await store.wait(1)

    async def test_compaction_forgets_history_and_keeps_the_present(self, make: MakeStore) -> None:
        store = await make(History())
        for n in range(10):
            await store.commit(Put("pods/a/x", b"%d" % n), Put(f"pods/b/{n}", b""))
        await store.commit(Delete("pods/b/0"))
        assert await store.compact(3) == 8
        assert store.oldest == 8
        assert await raises(ExpiredError, store.list(PODS, at=7))
        assert len((await store.list(PODS, at=8)).items) == 9
        async with watching(store, PODS, 8) as reader:
            assert len(await reader.take(5)) == 5
        assert await store.compact(0) == 11
        assert await store.count(PODS) == 10

    async def test_compaction_does_not_disturb_a_running_watch(self, make: MakeStore) -> None:
        store = await make(History())
        async with watching(store, PODS, 0) as reader:
            await store.commit(Put("pods/a/x", b"1"))
            await reader.next()
            await store.commit(Put("pods/a/x", b"2"))
            await store.compact(0)
            await store.commit(Put("pods/a/x", b"3"))
            assert [change[0] for change in await reader.take(2)] == [2, 3]
