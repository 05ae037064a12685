"""SIGKILL in the middle of a write load loses no acknowledged write and halves no commit."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

from shepherd.lib.clock import SystemClock
from shepherd.store.base import Span
from shepherd.store.sqlite import SqliteStore

ROUNDS = 15
PAIRS = Span.prefix("pair/")

# Each of several writers moves two keys in step, and says so once the store has.
LOAD = """
import asyncio, sys
from pathlib import Path
from shepherd.lib.clock import SystemClock
from shepherd.store.base import Put
from shepherd.store.sqlite import SqliteStore

async def write(store, round, writer):
    for n in range(1_000_000):
        value = b"%d %d" % (round, n) + b"x" * 2000
        revision = await store.commit(*(Put(f"pair/{writer}/{half}", value) for half in "ab"))
        sys.stdout.write(f"{writer} {round} {n} {revision}\\n")
        if n % 20 == 0:
            await store.compact(50)

async def main(path, round):
    store = await SqliteStore.open(Path(path), clock=SystemClock())
    sys.stdout.reconfigure(line_buffering=True)
    await asyncio.gather(*(write(store, round, writer) for writer in range(8)))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def kill_under_load(path: Path, epoch: int, lines: int) -> list[list[int]]:
    """Start the load, kill it after `lines` acknowledgements, and return all it gave."""
    command = [sys.executable, "-c", LOAD, str(path), str(epoch)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        said = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        said += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    return [[int(word) for word in line.split()] for line in said if line.endswith("\n")]


def parse(value: bytes) -> tuple[int, int]:
    epoch, n = value.rstrip(b"x").split()
    return int(epoch), int(n)


async def test_every_acknowledged_write_survives_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "shepherd.db"
    random = Random(1)
    acknowledged: dict[int, tuple[int, int]] = {}
    newest = 0
    for epoch in range(ROUNDS):
        for writer, *written, revision in await asyncio.to_thread(
            kill_under_load, path, epoch, random.randint(1, 150)
        ):
            acknowledged[writer] = (written[0], written[1])
            newest = max(newest, revision)
        store = await SqliteStore.open(path, clock=SystemClock())
        items = {item.key: item for item in (await store.list(PAIRS)).items}
        await store.close()
        assert store.revision >= newest
        for writer, last in acknowledged.items():
            a, b = items[f"pair/{writer}/a"], items[f"pair/{writer}/b"]
            assert (a.value, a.revision) == (b.value, b.revision)
            assert parse(a.value) >= last
