"""exec and attach: a process inside a container, and a peer that holds its streams."""

import asyncio
from contextlib import AbstractAsyncContextManager

from shepherd.agent.streams import channels
from shepherd.agent.streams.channels import ERROR, NAMES, RESIZE, STDERR, STDIN, STDOUT
from shepherd.agent.streams.links import Link, Piece, SpdyLink, keep_asking, part
from shepherd.api.resource import Object
from shepherd.runtime.base import Process, SheepError, Stdio

OPEN_SECONDS = 30.0
"""In which a SPDY client must have opened its streams (kubelet streamCreationTimeout)."""
_OUTPUTS = {"stdout": STDOUT, "stderr": STDERR}


class NamedLink:
    """SPDY's streams under the numbers of the channels that they are by name."""

    def __init__(self, link: SpdyLink, numbers: dict[int, int]) -> None:
        self._link = link
        self._channels = numbers
        self._streams = {channel: stream for stream, channel in numbers.items()}

    @classmethod
    async def opened(cls, link: SpdyLink, stdio: Stdio) -> "NamedLink | None":
        """Once the client has opened all streams; None if it does not."""
        wanted = {ERROR} | ({RESIZE} if stdio.tty else set())
        flags = (stdio.stdin, stdio.stdout, stdio.stderr)
        wanted |= {channel for channel, on in enumerate(flags) if on}
        numbers: dict[int, int] = {}
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                while wanted - set(numbers.values()):
                    piece = await link.receive()
                    if piece is None:
                        return None
                    if (name := piece.headers.get("streamtype")) in NAMES:
                        numbers[piece.stream] = NAMES.index(name)
        except TimeoutError:
            return None
        return cls(link, numbers)

    async def receive(self) -> Piece | None:
        while (piece := await self._link.receive()) is not None:
            if (channel := self._channels.get(piece.stream)) is not None:
                return Piece(channel, piece.data, end=piece.end)
        return None

    async def send(self, stream: int, data: bytes) -> None:
        if stream in self._streams:
            await self._link.send(self._streams[stream], data)

    async def end(self, stream: int) -> None:
        if stream in self._streams:
            await self._link.end(self._streams[stream])

    async def ping(self) -> None:
        await self._link.ping()

    async def close(self) -> None:
        await self._link.close()


async def converse(
    link: Link, running: AbstractAsyncContextManager[Process], protocol: str
) -> None:
    """Run a process for its peer, to the end of either; then say how it ended."""
    try:
        try:
            async with running as process:
                status = await _attend(link, process)
        except SheepError as error:
            status = channels.failed(f"error executing command in container: {error.message}")
        if status is not None:
            await _finish(link, protocol, status)
    except ConnectionError:
        return


async def _attend(link: Link, process: Process) -> Object | None:
    """Pass everything on until the process has ended: how; None if the peer left before."""
    telling = asyncio.create_task(_tell(link, process))
    others = [asyncio.create_task(_hear(link, process)), asyncio.create_task(keep_asking(link))]
    try:
        ended, _ = await asyncio.wait([telling, *others], return_when=asyncio.FIRST_COMPLETED)
        for task in ended - {telling}:
            task.result()
        return telling.result() if telling in ended else None
    finally:
        for task in (telling, *others):
            task.cancel()
        await asyncio.gather(telling, *others, return_exceptions=True)


async def _tell(link: Link, process: Process) -> Object:
    while (output := await process.receive()) is not None:
        name, data = output
        await link.send(_OUTPUTS[name], data)
    return channels.exited(await process.wait())


async def _hear(link: Link, process: Process) -> None:
    """Returns when the peer has left."""
    listening = True
    while (piece := await link.receive()) is not None:
        if piece.stream == RESIZE:
            for size in channels.sizes(piece.data):
                process.resize(size.width, size.height)
        elif piece.stream == STDIN and listening:
            try:
                await process.write(piece.data)
                if piece.end:
                    await process.end_input()
            except BrokenPipeError:
                listening = False  # what nobody reads is thrown away


async def _finish(link: Link, protocol: str, status: Object) -> None:
    await link.send(ERROR, channels.outcome(protocol, status))
    for channel in (STDOUT, STDERR, RESIZE, STDIN, ERROR):
        await link.end(channel)
    await part(link)


def greeting(stdio: Stdio) -> int:
    """The channel on which a WebSocket client is told, by an empty message, that all is ready."""
    return STDOUT if stdio.stdout else STDERR if stdio.stderr else ERROR
