"""Logs as users read them, also while files rotate."""

import asyncio
from pathlib import Path

import pytest

from shepherd.agent import logs
from shepherd.agent.logs import LogOptions, attempts, log_files, read, rotate
from shepherd.lib.clock import SystemClock


def entry(number: int, text: str, *, stream: str = "stdout", tag: str = "F") -> str:
    return f"2026-01-01T00:00:{number:02}.123456789Z {stream} {tag} {text}\n"


def write(path: Path, *entries: str) -> None:
    with path.open("a") as file:
        file.writelines(entries)


async def text(live: Path, **options: object) -> str:
    chunks = read(
        live,
        LogOptions(**options),  # type: ignore[arg-type]
        clock=SystemClock(),
        running=lambda: False,
    )
    return b"".join([chunk async for chunk in chunks]).decode()


@pytest.fixture
def live(tmp_path: Path) -> Path:
    path = tmp_path / "web" / "0.log"
    path.parent.mkdir()
    return path


async def test_both_streams_and_parts(live: Path) -> None:
    write(
        live, entry(1, "a"), entry(2, "lo", tag="P"), entry(2, "ng"), entry(3, "e", stream="stderr")
    )
    assert await text(live) == "a\nlong\ne\n"
    lines = (await text(live, timestamps=True)).splitlines()
    assert lines[1] == "2026-01-01T00:00:02.123456789Z long"
    write(live, "2026-01-01T00:00:04.5+00:00 stdout F as conmon writes\n")
    assert (await text(live, timestamps=True)).endswith("4.5Z as conmon writes\n")


async def test_a_torn_last_entry_waits(live: Path) -> None:
    write(live, entry(1, "a"), "2026-01-01T00:00:02Z stdout F ha")
    assert await text(live) == "a\n"


@pytest.mark.parametrize(
    ("lines", "expected"), [(0, ""), (1, "d\n"), (2, "b c\nd\n"), (9, "a\nb c\nd\n")]
)
async def test_tail(live: Path, lines: int, expected: str) -> None:
    write(live.with_name("0.log.1"), entry(1, "a"))
    write(live, entry(2, "b ", tag="P"), entry(2, "c"), entry(3, "d"))
    assert await text(live, tail_lines=lines) == expected


@pytest.mark.parametrize(
    ("lines", "expected"), [(0, ""), (1, "pass"), (2, "b\npass"), (3, "a\nb\npass")]
)
async def test_a_line_without_an_end_counts(live: Path, lines: int, expected: str) -> None:
    write(live.with_name("0.log.1"), entry(1, "a"))
    write(live, entry(2, "b"), entry(3, "pa", tag="P"), entry(3, "ss", tag="P"))
    assert await text(live, tail_lines=lines) == expected


async def test_tail_of_a_long_log(live: Path) -> None:
    write(live, *(entry(n % 60, f"{n} {'x' * 100}") for n in range(5000)))
    found = (await text(live, tail_lines=2500)).splitlines()
    assert [line.split()[0] for line in (found[0], found[-1])] == ["2500", "4999"]
    assert len(found) == 2500


async def test_since_and_limit(live: Path) -> None:
    write(live, entry(1, "a"), entry(2, "b"), entry(3, "c"))
    since = 1767225602.0  # 2026-01-01T00:00:02Z
    assert await text(live, since=since) == "b\nc\n"
    assert await text(live, since=since, limit_bytes=3) == "b\nc"


async def test_66_following_over_rotations_loses_and_repeats_nothing(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubernetes/kubernetes#28369, #59902, #115701, #126564; k3s-io/k3s#9060; stern/stern#311."""
    monkeypatch.setattr(logs, "ROTATE_BYTES", 1)
    running = True
    seen: list[bytes] = []
    write(live, entry(0, "0"))

    async def follow() -> None:
        options = LogOptions(follow=True)
        chunks = read(live, options, clock=SystemClock(), running=lambda: running)
        seen.extend([chunk async for chunk in chunks])

    async def reopen() -> None:
        await asyncio.sleep(0.01)  # the writer goes on with the renamed file for a moment
        write(live.with_name(f"{live.name}.{number}"), entry(number, f"late {number}"))
        write(live)

    reader = asyncio.create_task(follow())
    expected = ["0"]
    for number in range(1, 4):
        await rotate(live, reopen)
        write(live, entry(number, f"{number}"))
        expected += [f"late {number}", f"{number}"]
    running = False
    await reader
    assert b"".join(seen).decode().splitlines() == expected


async def test_only_so_many_files_are_kept(live: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "ROTATE_BYTES", 1)

    async def reopen() -> None:
        write(live)

    for number in range(9):
        write(live, entry(number, str(number)))
        await rotate(live, reopen)
    assert len(log_files(live)) == logs.KEEP_FILES
    assert await text(live) == "5\n6\n7\n8\n"
    assert attempts(live.parent) == [0]


async def test_a_small_log_is_left_alone(live: Path) -> None:
    write(live, entry(1, "a"))

    async def reopen() -> None:
        raise AssertionError("nothing was renamed")

    await rotate(live, reopen)
    assert log_files(live) == [live]
