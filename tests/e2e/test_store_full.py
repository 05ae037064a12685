"""A file system that is really full: writes are refused, reads go on, space brings writes back."""

import subprocess
import sys
from pathlib import Path

import pytest

# In a mount namespace of its own, so that the small file system is nobody else's.
MOUNT = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'

PROGRAM = """
import asyncio, sys
from pathlib import Path
from shepherd.lib.clock import SystemClock
from shepherd.store.base import Put, Span, StoreFullError
from shepherd.store.sqlite import SqliteStore

async def main(directory):
    filler = directory / "filler"
    filler.write_bytes(bytes(2 << 20))
    store = await SqliteStore.open(directory / "shepherd.db", clock=SystemClock())
    try:
        while True:
            await store.commit(Put(f"n/{store.revision}", bytes(20_000)))
    except StoreFullError as error:
        print("refused:", error)
    kept = store.revision
    assert kept > 10
    assert await store.count(Span.prefix("n/")) == kept
    filler.unlink()
    assert await store.commit(Put("n/after", b"")) == kept + 1
    await store.close()
    store = await SqliteStore.open(directory / "shepherd.db", clock=SystemClock())
    assert await store.count(Span.prefix("n/")) == store.revision == kept + 1
    await store.close()

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.e2e
def test_a_full_file_system_refuses_writes_and_recovers(tmp_path: Path) -> None:
    program = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", MOUNT, str(tmp_path), *program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "database or disk is full" in result.stdout
