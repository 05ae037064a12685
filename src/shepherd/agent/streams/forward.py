"""port-forward: connections to ports of a pod, each with a stream of data and one for errors.

Source: kubernetes pkg/kubelet port forwarding (cri/streaming/portforward), client-go
tools/portforward.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from shepherd.agent.streams.links import ChannelLink, Link, SpdyLink, keep_asking, part
from shepherd.lib.duplex import SocketDuplex
from shepherd.lib.tasks import cancel_and_wait
from shepherd.runtime.base import SheepError

PROTOCOL = "portforward.k8s.io"
TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
QUEUE_PIECES = 8
"""What waits for a port that does not read; then the whole link waits, as there are no windows."""

Dial = Callable[[int], Awaitable[SocketDuplex]]


@dataclass(slots=True)
class _Forwarded:
    """One connection, and the numbers of its streams."""

    data: int
    error: int
    port: int
    queue: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(QUEUE_PIECES))
    """What the stream of data has brought; empty bytes = its end."""


class Forwarding:
    """The connections of one link."""

    def __init__(self, link: Link, dial: Dial, pod: str) -> None:
        self._link = link
        self._dial = dial
        self._pod = pod
        self._all: dict[int, tuple[_Forwarded, asyncio.Task[None]]] = {}
        """By the number of the stream of data."""

    def begin(self, data: int, error: int, port: int) -> None:
        one = _Forwarded(data, error, port)
        self._all[data] = one, asyncio.create_task(self._serve(one))

    async def run(self, listen: Callable[["Forwarding"], Awaitable[None]]) -> None:
        """Until `listen` has returned or the peer has gone; all connections end with it."""
        tasks = [asyncio.ensure_future(listen(self)), asyncio.create_task(keep_asking(self._link))]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            with contextlib.suppress(ConnectionError):
                for task in ended:
                    task.result()
        finally:
            for task in (*tasks, *(task for _, task in self._all.values())):
                await cancel_and_wait(task)

    async def idle(self) -> None:
        """Wait until all connections that were begun have ended."""
        while self._all:
            await asyncio.wait([task for _, task in self._all.values()])

    async def take(self, stream: int, data: bytes, *, end: bool, broken: bool = False) -> None:
        """What the peer sent for a connection."""
        if stream not in self._all:
            return
        one, task = self._all[stream]
        if broken:
            await cancel_and_wait(task)
            await self._forget(one)  # a task that had not begun yet does not do so
            return
        if data:
            await one.queue.put(data)
        if end:
            await one.queue.put(b"")

    async def _serve(self, one: _Forwarded) -> None:
        try:
            await self._connect(one)
        except ConnectionError:
            pass  # the peer is gone: `run` hears of it as well
        finally:
            await self._forget(one)

    async def _forget(self, one: _Forwarded) -> None:
        self._all.pop(one.data, None)
        while not one.queue.empty():  # whoever waits to put more goes on
            one.queue.get_nowait()
        with contextlib.suppress(ConnectionError):
            await self._link.end(one.data)
            await self._link.end(one.error)

    async def _connect(self, one: _Forwarded) -> None:
        try:
            connection = await self._dial(one.port)
        except (SheepError, OSError) as failure:
            text = f"error forwarding port {one.port} to pod {self._pod}: {failure}"
            await self._link.send(one.error, text.encode())
            return
        sending = asyncio.create_task(self._send(one.queue, connection))
        try:
            while received := await connection.read():
                await self._link.send(one.data, received)
        finally:
            connection.close()
            await cancel_and_wait(sending)

    async def _send(self, queue: asyncio.Queue[bytes], connection: SocketDuplex) -> None:
        try:
            while data := await queue.get():
                await connection.write(data)
            await connection.end()
        except ConnectionError:
            while await queue.get():  # the port reads no more; what it says is still wanted
                pass


async def forward_spdy(link: SpdyLink, dial: Dial, pod: str) -> None:
    """Connections as the client opens them: two streams each, with the same request id."""

    async def listen(forwarding: Forwarding) -> None:
        halves: dict[str, tuple[str, int]] = {}
        while (piece := await link.receive()) is not None:
            kind, request = piece.headers.get("streamtype"), piece.headers.get("requestid", "")
            if kind in ("data", "error"):
                other = halves.pop(request, None)
                port = _port(piece.headers.get("port", ""))
                if other is None:
                    halves[request] = (kind, piece.stream)
                elif other[0] == kind or port is None:
                    await link.end(piece.stream)
                    await link.end(other[1])
                else:
                    pair = {kind: piece.stream, other[0]: other[1]}
                    forwarding.begin(pair["data"], pair["error"], port)
            if piece.data or piece.end:
                await forwarding.take(piece.stream, piece.data, end=piece.end, broken=piece.broken)

    await Forwarding(link, dial, pod).run(listen)


async def forward_channels(link: ChannelLink, ports: list[int], dial: Dial, pod: str) -> None:
    """One connection for each port of `?ports=`: channels 2n for data and 2n + 1 for errors, each
    of which first names the port."""

    async def listen(forwarding: Forwarding) -> None:
        for index, port in enumerate(ports):
            for channel in (2 * index, 2 * index + 1):
                await link.send(channel, port.to_bytes(2, "little"))
            forwarding.begin(2 * index, 2 * index + 1, port)
        hearing = asyncio.create_task(_hear(forwarding))
        idle = asyncio.create_task(forwarding.idle())
        try:
            await asyncio.wait([hearing, idle], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(idle)
            await cancel_and_wait(hearing)
        await part(link)

    async def _hear(forwarding: Forwarding) -> None:
        while (piece := await link.receive()) is not None:
            await forwarding.take(piece.stream, piece.data, end=piece.end)

    await Forwarding(link, dial, pod).run(listen)


def _port(text: str) -> int | None:
    return int(text) if text.isdecimal() and 0 < int(text) < 1 << 16 else None
