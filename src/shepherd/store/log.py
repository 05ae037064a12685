"""The log: commits in an SQLite file. Synchronous; the store calls it from its one thread.

One table holds every version of every key that is still needed: the current ones, and those that
the history needs. Each row names the revision of the version it replaced, so that compaction finds
what has become garbage by walking the new rows once, and replaying the rows in order both rebuilds
the state and proves that nothing is missing. See docs/adr/0003-store.md.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shepherd.store.base import Change, Item, StoreFullError, StoreOpenError
from shepherd.store.feed import Step, Steps

_APPLICATION_ID = 0x53686570
"""Marks the file as Shepherd's ("Shep")."""

_MIGRATIONS = (
    """
    CREATE TABLE log (
        revision INTEGER NOT NULL,
        key      TEXT    NOT NULL,
        value    BLOB    NOT NULL,  -- of a deletion: the last state that watchers get to see
        deleted  INTEGER NOT NULL,
        replaced INTEGER NOT NULL,  -- the revision of the version before; 0 = there was none
        PRIMARY KEY (revision, key)
    );
    CREATE TABLE meta (
        compacted INTEGER NOT NULL  -- history up to this revision is gone
    );
    INSERT INTO meta VALUES (0);
    """,
)
"""Each brings the schema one version further (PRAGMA user_version counts them)."""

_COMPACT_REVISIONS = 500
"""How many revisions one compaction step walks: a few milliseconds, so that writers fit between."""
_VACUUM_PAGES = 500
_SLACK_PAGES = 1_000
"""Free pages that stay in the file (4 MB), so that a steady load does not shrink and grow it."""

_WAL_BYTES = 16 << 20
"""To what the write-ahead log shrinks back after a burst."""

Commit = tuple[int, Steps]
"""A revision and what it does."""
Content = tuple[dict[str, Item], list[Commit]]
"""A state, and the commits behind it."""


class Log:
    """The file. Raises StoreOpenError if it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._prepare()
            self.compacted: int = self._value("SELECT compacted FROM meta")
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error

    def load(self) -> Content:
        """The state at revision `compacted`, and the commits since.

        Raises StoreOpenError if a version that the log should hold is missing.
        """
        base: dict[str, Item] = {}
        latest: dict[str, Item | None] = {}
        commits: list[Commit] = []
        try:
            for revision, key, value, deleted, replaced in self._db.execute(
                "SELECT revision, key, value, deleted, replaced FROM log ORDER BY rowid"
            ):
                item = None if deleted else Item(key, value, revision)
                before = latest[key] if key in latest else base.get(key)
                if revision <= self.compacted:
                    replaced = 0  # what it replaced is compacted away
                if (before.revision if before else 0) != replaced:
                    raise sqlite3.DatabaseError(f"{key} has lost its revision {replaced}")
                if revision <= self.compacted:
                    if item:
                        base[key] = item
                    continue
                if not commits or commits[-1][0] != revision:
                    commits.append((revision, []))
                previous = value if deleted else before.value if before else None
                change = Change(revision, key, None if deleted else value, previous)
                commits[-1][1].append(Step(change, before, item))
                latest[key] = item
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error
        return base, commits

    def append(self, commits: list[Commit]) -> None:
        """Write the commits as one transaction, durably. Raises StoreFullError: none is written."""
        rows = [_row(step) for _, steps in commits for step in steps]
        with self._transaction() as db:
            db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)

    def compact(self, revision: int) -> None:
        """Take one step towards forgetting the history up to `revision`. Raises StoreFullError."""
        start, end = self.compacted, min(self.compacted + _COMPACT_REVISIONS, revision)
        with self._transaction() as db:
            db.execute(
                "DELETE FROM log WHERE rowid IN (SELECT old.rowid FROM log new JOIN log old"
                " ON old.revision = new.replaced AND old.key = new.key"
                " WHERE new.revision > ? AND new.revision <= ?)",
                (start, end),
            )
            db.execute(
                "DELETE FROM log WHERE revision > ? AND revision <= ? AND deleted", (start, end)
            )
            db.execute("UPDATE meta SET compacted = ?", (end,))
        self.compacted = end

    def shrink(self) -> bool:
        """Give some free pages back to the file system; False = there are no more to give."""
        excess: int = self._value("PRAGMA freelist_count") - _SLACK_PAGES
        if excess <= 0:
            return False
        last = excess <= _VACUUM_PAGES
        # As a script, because `execute` takes only the first step of this pragma: one page.
        script = f"PRAGMA incremental_vacuum({min(excess, _VACUUM_PAGES)});"
        if last:
            script += "PRAGMA wal_checkpoint(TRUNCATE);"
        try:
            self._db.executescript(script)
        except sqlite3.Error as error:
            raise self._refused(error) from error
        return not last

    def close(self) -> None:
        self._db.close()

    def _prepare(self) -> None:
        db = self._db
        version = self._version()
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute(f"PRAGMA journal_size_limit={_WAL_BYTES}")
        self._migrate(version)
        problem = self._value("PRAGMA quick_check(1)")
        if problem != "ok":
            raise sqlite3.DatabaseError(problem.splitlines()[-1])

    def _version(self) -> int:
        """The schema's version; 0 = an empty file. Raises StoreOpenError if it is not for us."""
        version: int = self._value("PRAGMA user_version")
        used = self._value("SELECT count(*) FROM sqlite_schema")
        if used and self._value("PRAGMA application_id") != _APPLICATION_ID:
            raise StoreOpenError(f"{self.path} is another program's database; move it away")
        if version > len(_MIGRATIONS):
            raise StoreOpenError(
                f"{self.path} was written by a newer Shepherd (schema {version}, this one knows "
                f"{len(_MIGRATIONS)}); install that version again"
            )
        return version

    def _migrate(self, version: int) -> None:
        for number, script in enumerate(_MIGRATIONS[version:], version + 1):
            self._db.executescript(
                f"BEGIN IMMEDIATE; {script} PRAGMA application_id={_APPLICATION_ID};"
                f"PRAGMA user_version={number}; COMMIT;"
            )

    def _value(self, query: str) -> Any:
        return self._db.execute(query).fetchone()[0]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._refused(error) from error
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _refused(self, error: sqlite3.Error) -> StoreFullError:
        return StoreFullError(f"{self.path} cannot be written: {error}")

    def _unusable(self, error: sqlite3.DatabaseError) -> StoreOpenError:
        if isinstance(error, sqlite3.OperationalError):
            return StoreOpenError(f"cannot open the store {self.path}: {error}")
        return StoreOpenError(
            f"the store {self.path} is damaged ({error}); "
            "restore it from a backup, or move it away to start empty"
        )


def _row(step: Step) -> tuple[int, str, bytes, bool, int]:
    change = step.change
    value = change.previous if change.value is None else change.value
    assert value is not None
    replaced = step.before.revision if step.before else 0
    return change.revision, change.key, value, change.deleted, replaced
