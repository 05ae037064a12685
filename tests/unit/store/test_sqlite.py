"""The store on disk passes the conformance suite, and keeps what it promises beyond that."""

import asyncio
import os
import resource
import sqlite3
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shepherd.lib.clock import SystemClock
from shepherd.store import log
from shepherd.store.base import (
    ConflictError,
    Delete,
    Put,
    Store,
    StoreFullError,
    StoreOpenError,
)
from shepherd.store.feed import DEFAULT_HISTORY, History
from shepherd.store.sqlite import SqliteStore
from shepherd.testing.store_suite import ALL, MakeStore, StoreSuite, watching


async def reopen(path: Path, history: History = DEFAULT_HISTORY) -> SqliteStore:
    return await SqliteStore.open(path, clock=SystemClock(), history=history)


def size(path: Path) -> int:
    """Of the database and what SQLite keeps beside it."""
    return sum(file.stat().st_size for file in path.parent.glob(path.name + "*"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shepherd.db"


class TestSqliteStore(StoreSuite):
    @pytest.fixture
    async def make(self, path: Path) -> AsyncIterator[MakeStore]:
        opened: list[Store] = []

        async def make(history: History) -> Store:
            opened.append(await reopen(path, history))
            return opened[-1]

        yield make
        for store in opened:
            await store.close()


# What survives a restart


async def test_state_revision_and_history_survive_a_restart(path: Path) -> None:
    store = await reopen(path)
    await store.commit(Put("pods/a/x", b"1"), Put("pods/a/y", b"1"))
    await store.commit(Put("pods/a/x", b"2"))
    await store.commit(Delete("pods/a/y", value=b"last"))
    await store.close()
    store = await reopen(path)
    assert store.revision == 3
    assert [(i.key, i.value, i.revision) for i in (await store.list(ALL)).items] == [
        ("pods/a/x", b"2", 2)
    ]
    async with watching(store, ALL, 1) as reader:
        changed, deleted = await reader.next(), await reader.next()
    assert (changed.value, changed.previous) == (b"2", b"1")
    assert (deleted.value, deleted.previous) == (None, b"last")
    assert len((await store.list(ALL, at=1)).items) == 2
    await store.close()


async def test_compacted_stays_compacted_and_revisions_never_repeat(path: Path) -> None:
    store = await reopen(path)
    await store.commit(Put("pods/a/x", b"1"))
    await store.commit(Put("pods/a/keep", b"1"))
    await store.commit(Delete("pods/a/x"))
    assert await store.compact(0) == 3
    await store.close()
    store = await reopen(path)
    assert (store.revision, store.oldest) == (3, 3)
    assert [item.key for item in (await store.list(ALL)).items] == ["pods/a/keep"]
    assert await store.commit(Put("pods/a/x", b"2", expected=0)) == 4
    await store.close()


async def test_a_compacted_file_holds_the_present_alone_and_shrinks(path: Path) -> None:
    """k3s-io/k3s#3660: the file grew to gigabytes."""
    store = await reopen(path)
    for n in range(30):
        await store.commit(*(Put(f"pods/a/{k}", bytes(4000) + b"%d" % n) for k in range(100)))
    await store.commit(*(Delete(f"pods/a/{k}") for k in range(50)))
    before = size(path)
    await store.compact(0)
    await store.close()
    assert before > 12_000_000
    assert size(path) < 5_500_000  # the present, and 4 MB of slack
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM log").fetchone() == (50,)


async def test_the_file_follows_the_limits_of_the_history(path: Path) -> None:
    store = await reopen(path, History(changes=100))
    for _ in range(20):
        await asyncio.gather(*(store.commit(Put(f"n/{k}", bytes(4000))) for k in range(50)))
    await store.compact(1_000_000)  # no age asks for it, the limits do
    assert (store.revision, store.oldest) == (1000, 900)
    await store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM log").fetchone() == (150,)


async def test_writes_go_on_while_history_is_compacted(path: Path) -> None:
    """k3s-io/k3s#3660, #10305, #12898; k3s-io/kine#607: compaction slower than its time limit."""
    store = await reopen(path)
    for _ in range(40):
        await asyncio.gather(*(store.commit(Put(f"n/{k}", b"")) for k in range(50)))
    compaction = asyncio.create_task(store.compact(0))
    during = 0
    while not compaction.done():
        await store.commit(Put("n/0", b"during"))
        during += 1
    assert during > 1
    await store.close()


async def test_a_store_can_close_in_the_middle_of_a_compaction(path: Path) -> None:
    store = await reopen(path)
    for _ in range(20):
        await asyncio.gather(*(store.commit(Put(f"n/{k}", b"")) for k in range(100)))
    compaction = asyncio.create_task(store.compact(0))
    await asyncio.sleep(0)
    await store.close()
    await compaction
    store = await reopen(path)
    assert await store.count(ALL) == 100
    await store.close()


# Group commit


async def test_a_write_is_invisible_until_it_is_durable(path: Path) -> None:
    store = await reopen(path)
    writing = asyncio.create_task(store.commit(Put("pods/a/x", b"1", expected=0)))
    await asyncio.sleep(0)
    assert await store.get("pods/a/x") is None
    assert store.revision == 0
    with pytest.raises(ConflictError):
        await store.commit(Put("pods/a/x", b"2", expected=0))
    # Whoever is told of a conflict can see what it conflicts with.
    item = await store.get("pods/a/x")
    assert item is not None
    assert item.value == b"1"
    assert await writing == 1
    await store.close()


async def test_a_cancelled_writer_disturbs_nobody(path: Path) -> None:
    store = await reopen(path)
    one = asyncio.create_task(store.commit(Put("pods/a/x", b"1")))
    other = asyncio.create_task(store.commit(Put("pods/a/y", b"1")))
    await asyncio.sleep(0)
    one.cancel()
    assert await other == 2
    assert await store.commit(Put("pods/a/z", b"1")) == 3
    await store.close()


async def test_close_finishes_the_waiting_commits(path: Path) -> None:
    store = await reopen(path)
    writing = [asyncio.create_task(store.commit(Put(f"n/{k}", b""))) for k in range(10)]
    await asyncio.sleep(0)
    await store.close()
    assert sorted(await asyncio.gather(*writing)) == list(range(1, 11))
    store = await reopen(path)
    assert await store.count(ALL) == 10
    await store.close()


# A disk that refuses


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """No file of this process may grow beyond `limit` bytes (as a full disk, for one process)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_refuses_writes_changes_nothing_and_recovers(path: Path) -> None:
    """k3s-io/k3s#3047, #2623; canonical/microk8s#3485: a malformed store and a restart loop."""
    store = await reopen(path)
    await store.commit(Put("pods/a/x", b"1"))
    with full_disk(path.with_name("shepherd.db-wal").stat().st_size + 4096):
        first = asyncio.create_task(store.commit(Put("pods/a/x", bytes(100_000), expected=1)))
        await asyncio.sleep(0)
        behind = asyncio.create_task(store.commit(Put("pods/a/x", b"3", expected=2)))
        for refused in (first, behind):
            with pytest.raises(StoreFullError, match=r"shepherd\.db"):
                await refused
        item = await store.get("pods/a/x")
        assert item is not None
        assert (item.value, item.revision, store.revision) == (b"1", 1, 1)
    assert await store.commit(Put("pods/a/x", b"2", expected=1)) == 2
    await store.close()
    store = await reopen(path)
    assert store.revision == 2
    await store.close()


# Opening


async def test_a_second_server_is_told_who_holds_the_directory(path: Path) -> None:
    store = await reopen(path)
    with pytest.raises(StoreOpenError, match=rf"{path.parent}.*process {os.getpid()}"):
        await reopen(path)
    await store.close()
    await (await reopen(path)).close()


async def test_the_file_is_for_its_owner_only(path: Path) -> None:
    store = await reopen(path.parent / "new" / path.name)
    for file in path.parent.glob("new/*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    await store.close()


def test_what_is_no_database_is_left_alone_and_said_so(path: Path) -> None:
    content = b"not a database, but long enough to look at " * 100
    path.write_bytes(content)
    with pytest.raises(StoreOpenError, match=r"damaged.*move it away"):
        asyncio.run(reopen(path))
    assert path.read_bytes() == content


async def test_a_foreign_or_newer_database_is_refused(path: Path) -> None:
    await (await reopen(path)).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(StoreOpenError, match="newer Shepherd"):
        await reopen(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA application_id=7")
    with pytest.raises(StoreOpenError, match="another program"):
        await reopen(path)


async def test_the_database_of_another_program_is_not_touched(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    with pytest.raises(StoreOpenError, match="another program"):
        await reopen(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    db.close()


async def test_an_older_schema_is_brought_up_to_date(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await reopen(path)
    await store.commit(Put("pods/a/x", b"1"))
    await store.close()
    later = (*log._MIGRATIONS, "ALTER TABLE meta ADD COLUMN note TEXT;")
    monkeypatch.setattr(log, "_MIGRATIONS", later)
    store = await reopen(path)
    assert store.revision == 1
    await store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert db.execute("SELECT compacted, note FROM meta").fetchone() == (0, None)


async def test_a_lost_version_is_found_at_start(path: Path) -> None:
    store = await reopen(path)
    for n in range(3):
        await store.commit(Put("pods/a/x", b"%d" % n))
    await store.close()
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM log WHERE revision = 2")
    with pytest.raises(StoreOpenError, match=r"damaged.*pods/a/x.*backup"):
        await reopen(path)


async def test_a_torn_page_is_found_at_start(path: Path) -> None:
    """k3s-io/k3s#2623; canonical/microk8s#3485: told at the start, with what to do."""
    store = await reopen(path)
    for n in range(50):
        await store.commit(Put(f"pods/a/{n}", os.urandom(4000)))
    await store.close()
    with sqlite3.connect(path) as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
    overwrite(path, offset=pages // 2 * 4096)
    with pytest.raises(StoreOpenError, match=r"damaged.*backup"):
        await reopen(path)


def overwrite(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(os.urandom(4096))


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreOpenError, match="file"):
        asyncio.run(reopen(tmp_path / "file" / "shepherd.db"))
