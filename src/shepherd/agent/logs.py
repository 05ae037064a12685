"""Container logs in CRI format: read, follow and rotate.

A line is `<time> <stdout|stderr> <F|P> <text>`; P marks a part of a line that goes on in the next
entry. The live file is `<attempt>.log`; rotation renames it to `<attempt>.log.<n>` (the higher, the
newer) and the runtime begins a new one. A reader holds the open file, which a rename does not
touch, reads it to its end and goes on with the next: nothing is lost or told twice.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from shepherd.api.meta import parse_time
from shepherd.lib.clock import Clock

_log = logging.getLogger("shepherd.agent.logs")

ROTATE_BYTES = 10 * 1024 * 1024
KEEP_FILES = 5
"""Files of a container together, the live one included (kubelet containerLogMaxFiles)."""
_CHUNK = 64 * 1024
_END_BYTES, _END_LINES = 2048, 80
"""Of a log, what stands in for a termination message."""
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class LogOptions:
    """As core/v1 PodLogOptions."""

    follow: bool = False
    tail_lines: int | None = None
    since: float | None = None
    """Epoch seconds; entries before are left out."""
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: bytes | None = None
    """stdout or stderr; None = both."""


def log_files(live: Path) -> list[Path]:
    """The files of one attempt, oldest first, the live one last."""
    found = []
    for path in live.parent.glob(f"{live.name}.*"):
        number = path.name.rpartition(".")[2]
        if number.isdecimal():
            found.append((int(number), path))
    return [path for _, path in sorted(found)] + ([live] if live.exists() else [])


def attempts(directory: Path) -> list[int]:
    """The attempts of a container that have a log, oldest first."""
    if not directory.is_dir():
        return []
    numbers = {path.name.partition(".")[0] for path in directory.iterdir()}
    return sorted(int(number) for number in numbers if number.isdecimal())


async def read(
    live: Path, options: LogOptions, *, clock: Clock, running: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """The log of one attempt as its users see it, in chunks.

    Following ends when the container does not run any more and all it wrote has been told.
    """
    left = options.limit_bytes
    async for chunk in _render(live, options, clock, running):
        if left is not None:
            chunk = chunk[:left]
            left -= len(chunk)
        if chunk:
            yield chunk
        if left == 0:
            return


async def _render(
    live: Path, options: LogOptions, clock: Clock, running: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    formatter = _Formatter(options)
    opened = await asyncio.to_thread(_open_all, live)
    try:
        if options.tail_lines is not None:
            await asyncio.to_thread(_seek_tail, opened, options.tail_lines)
        for file in opened:
            async for entries in _entries(file):
                yield formatter.render(entries)
        if options.follow:
            async for entries in _follow(live, opened, clock, running):
                yield formatter.render(entries)
    finally:
        for file in opened:
            file.close()


def _open_all(live: Path) -> list[BinaryIO]:
    """All files of the log, opened; as they were at one moment, though they may be rotated."""
    while True:
        opened: list[BinaryIO] = []
        try:
            opened = [path.open("rb") for path in log_files(live)]
            now = [path.stat().st_ino for path in log_files(live)]
        except FileNotFoundError:
            now = None
        if now == [os.fstat(file.fileno()).st_ino for file in opened]:
            return opened
        for file in opened:
            file.close()


async def _entries(file: BinaryIO) -> AsyncIterator[list[bytes]]:
    """Whole entries from the file's position to its end, which is left before a torn one."""
    rest = b""
    while data := await asyncio.to_thread(file.read, _CHUNK):
        *lines, rest = (rest + data).split(b"\n")
        yield lines
    file.seek(-len(rest), os.SEEK_CUR)


async def _follow(
    live: Path, opened: list[BinaryIO], clock: Clock, running: Callable[[], bool]
) -> AsyncIterator[list[bytes]]:
    """What is written from now on, into `live` or the files that take its place.

    `opened` holds the file that is being read as its last.
    """
    while True:
        alive = running()
        current = opened[-1] if opened else None
        if current:
            async for entries in _entries(current):
                yield entries
        following = _successor(live, current)
        if following is not None:
            if current:
                async for entries in _entries(current):  # what came before the rename
                    yield entries
                current.close()
                opened.pop()
            opened.append(following)
        elif not alive:
            return
        else:
            await clock.sleep(_POLL_SECONDS)


def _successor(live: Path, current: BinaryIO | None) -> BinaryIO | None:
    """The file after `current`, if `current` is no longer the live one."""
    inode = os.fstat(current.fileno()).st_ino if current else None
    files = log_files(live)
    numbers = [path.stat().st_ino for path in files]
    if inode in numbers:
        files = files[numbers.index(inode) + 1 :]
    return files[0].open("rb") if files else None


def _seek_tail(files: list[BinaryIO], lines: int) -> None:
    """Position all files so that what follows is the last `lines` lines; one without an end, such
    as a prompt, is a line too."""
    unfinished = lines > 0 and bool(files) and _ends_unfinished(files[-1])
    wanted = lines - unfinished
    for file in reversed(files):
        if wanted > 0 or (unfinished and file is files[-1]):
            wanted = _seek_from_end(file, wanted)
        else:
            _skip(file)


def _ends_unfinished(file: BinaryIO) -> bool:
    """The last entry is a part of a line."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _CHUNK))
    last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    return _tag(last) == b"P"


def _skip(file: BinaryIO) -> None:
    file.seek(0, os.SEEK_END)


def _seek_from_end(file: BinaryIO, lines: int) -> int:
    """Position `file` before its last `lines` lines; how many it lacks."""
    position = file.seek(0, os.SEEK_END)
    found = 0
    tail = b""
    while position > 0:
        step = min(_CHUNK, position)
        position -= step
        file.seek(position)
        block = file.read(step) + tail
        ends = _full_line_ends(block, whole=position == 0)
        if len(ends) > lines:
            file.seek(position + ends[-lines - 1])
            return 0
        found, tail = len(ends), block
    file.seek(0)
    return lines - found


def _full_line_ends(block: bytes, *, whole: bool) -> list[int]:
    """Offsets just after entries that end a line (tag F) in `block`.

    Unless the block is the `whole` file, its first entry is cut and does not count.
    """
    offsets, start = [], 0
    for index, line in enumerate(block.split(b"\n")[:-1]):
        start += len(line) + 1
        if (whole or index > 0) and _tag(line) == b"F":
            offsets.append(start)
    return offsets


def _tag(entry: bytes) -> bytes:
    parts = entry.split(b" ", 3)
    return parts[2] if len(parts) > 2 else b"F"


class _Formatter:
    """Entries as users see them."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._inside = {b"stdout": False, b"stderr": False}
        """Whether the last entry of a stream was a part, so that the next goes on with it."""
        self._past = options.since is None

    def render(self, entries: list[bytes]) -> bytes:
        return b"".join(self._pieces(entries))

    def _pieces(self, entries: list[bytes]) -> Iterator[bytes]:
        for entry in entries:
            parts = entry.split(b" ", 3)
            if len(parts) < 3:
                continue
            stamp, stream, tag = parts[:3]
            if self._options.stream not in (None, stream):
                continue
            text = parts[3] if len(parts) > 3 else b""
            if not self._past and not self._reached(stamp):
                continue
            if self._options.timestamps and not self._inside.get(stream):
                # conmon says +00:00 where Go, and so the kubelet, says Z.
                yield stamp.replace(b"+00:00", b"Z") + b" "
            self._inside[stream] = tag == b"P"
            yield text if tag == b"P" else text + b"\n"

    def _reached(self, stamp: bytes) -> bool:
        assert self._options.since is not None
        try:
            self._past = _seconds(stamp.decode()) >= self._options.since
        except ValueError:
            return False
        return self._past


def _seconds(stamp: str) -> float:
    """Epoch seconds; nanoseconds are more than Python reads."""
    if "." in stamp:
        head, _, tail = stamp.partition(".")
        digits = tail.rstrip("Z").partition("+")[0].partition("-")[0]
        zone = tail[len(digits) :]
        stamp = f"{head}.{digits[:6]:0<6}{zone}"
    return parse_time(stamp)


def forget(live: Path) -> None:
    """Remove the files of one attempt."""
    for path in log_files(live):
        path.unlink(missing_ok=True)


async def rotate(live: Path, reopen: Callable[[], Awaitable[None]]) -> None:
    """Begin a new file where the live one has grown beyond the limit, and forget the oldest."""
    try:
        renamed = await asyncio.to_thread(_rename, live)
    except OSError as error:
        _log.warning("cannot rotate %s: %s", live, error)
        return
    if renamed:
        await reopen()


def _rename(live: Path) -> bool:
    try:
        if live.stat().st_size < ROTATE_BYTES:
            return False
    except FileNotFoundError:
        return False
    older = log_files(live)[:-1]
    number = int(older[-1].name.rpartition(".")[2]) + 1 if older else 1
    live.rename(live.with_name(f"{live.name}.{number}"))
    for path in older[: max(0, len(older) + 2 - KEEP_FILES)]:
        path.unlink()
    return True


def log_end(path: Path) -> str:
    """The last lines of a log in CRI format, without their tags."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 2 * _END_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    texts = [line.split(" ", 3)[3] for line in lines if line.count(" ") >= 3]
    return "\n".join(texts[-_END_LINES:])[-_END_BYTES:]
