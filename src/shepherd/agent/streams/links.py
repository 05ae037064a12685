"""A conversation's streams on a connection, whichever protocol numbers them."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from shepherd.agent.streams import channels, websocket
from shepherd.lib import spdy
from shepherd.lib.http import Duplex

PING_SECONDS = 5.0
"""How often an idle peer is asked whether it is there: a cut connection is noticed also while we
do not read, because whoever is behind it has to take what it was sent before."""
LINGER_SECONDS = 5.0
"""How long a peer may take to leave after the end. To close on what it still sends would be a
reset, which can cost it the end of what it was sent."""
STREAMS = 1000
"""Open at once on one connection."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What a peer sent: bytes of a stream, its beginning (`headers`), its `end`."""

    stream: int
    data: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    end: bool = False
    broken: bool = False
    """The stream was given up: nothing that is sent on it is wanted any more."""


class Link(Protocol):
    """Numbered streams. `send` and `end` raise ConnectionError when the peer is gone."""

    async def receive(self) -> Piece | None:
        """The next piece; None when the peer has left."""
        ...

    async def send(self, stream: int, data: bytes) -> None: ...

    async def end(self, stream: int) -> None:
        """Nothing more follows on this stream."""
        ...

    async def ping(self) -> None: ...

    async def close(self) -> None:
        """Say goodbye."""
        ...


class WebSocket:
    """Messages on a bare connection. Pings are answered, CLOSE and protocol errors end it.

    As a `Duplex` it is a byte stream in binary messages (the tunnel of SPDY).
    """

    def __init__(self, duplex: Duplex) -> None:
        self._duplex = duplex
        self._parser = websocket.Parser()
        self._waiting: deque[websocket.Message] = deque()
        self._said_goodbye = self._ended = False

    async def read(self) -> bytes:
        """The next message that is not empty; empty at the end."""
        while (message := await self.receive()) is not None:
            if message:
                return message
        return b""

    async def receive(self) -> bytes | None:
        while not self._ended:
            if not self._waiting and not await self._fill():
                return None
            message = self._waiting.popleft()
            if message.opcode in (websocket.TEXT, websocket.BINARY):
                return message.payload
            if message.opcode == websocket.PING:
                await self._duplex.write(websocket.frame(websocket.PONG, message.payload))
            elif message.opcode == websocket.CLOSE:
                await self.close()
                self._ended = True
        return None

    async def _fill(self) -> bool:
        """Read until there is a message; False at the end."""
        while not self._waiting:
            if not (data := await self._duplex.read()):
                return False
            try:
                self._waiting += self._parser.feed(data)
            except websocket.WebSocketError as error:
                await self.close(error.code)
                return False
        return True

    async def write(self, data: bytes) -> None:
        """Send a binary message."""
        await self._duplex.write(websocket.frame(websocket.BINARY, data))

    async def ping(self) -> None:
        await self._duplex.write(websocket.frame(websocket.PING, b""))

    async def close(self, code: int = websocket.NORMAL) -> None:
        """Say that nothing follows; the peer says so in turn."""
        if not self._said_goodbye:
            self._said_goodbye = True
            await self._duplex.write(websocket.close_frame(code))


class ChannelLink:
    """The first byte of a message is its stream's number (channel.k8s.io)."""

    def __init__(self, socket: WebSocket, protocol: str) -> None:
        self._socket = socket
        self._halves = protocol == channels.V5

    async def receive(self) -> Piece | None:
        while (message := await self._socket.receive()) is not None:
            if self._halves and message[:1] == bytes((channels.CLOSE_SIGNAL,)):
                if len(message) == 2:
                    return Piece(message[1], end=True)
            elif message:
                return Piece(message[0], message[1:])
        return None

    async def send(self, stream: int, data: bytes) -> None:
        await self._socket.write(bytes((stream,)) + data)

    async def end(self, stream: int) -> None:
        """Only the client's streams can end alone."""

    async def ping(self) -> None:
        await self._socket.ping()

    async def close(self) -> None:
        await self._socket.close()


class SpdyLink:
    """Streams of SPDY, over a bare connection or inside a WebSocket."""

    def __init__(self, duplex: Duplex) -> None:
        self._duplex = duplex
        self._decoder, self._encoder = spdy.Decoder(), spdy.Encoder()
        self._waiting: deque[spdy.Frame] = deque()
        self._open: set[int] = set()
        """Streams on which we may still send."""
        self._last = 0
        self._pings = 0

    async def receive(self) -> Piece | None:
        while True:
            if not self._waiting and not await self._fill():
                return None
            frame = self._waiting.popleft()
            if frame.type == spdy.GOAWAY:
                return None
            if frame.type == spdy.PING and frame.stream % 2:
                await self._duplex.write(spdy.ping(frame.stream))
            elif frame.type == spdy.SYN_STREAM:
                if await self._accept(frame.stream):
                    return Piece(frame.stream, headers=frame.headers, end=frame.fin)
            elif frame.type == spdy.RST_STREAM:
                self._open.discard(frame.stream)
                return Piece(frame.stream, end=True, broken=True)
            elif frame.type == 0 and (frame.data or frame.fin):
                return Piece(frame.stream, frame.data, end=frame.fin)

    async def _accept(self, stream: int) -> bool:
        if stream % 2 == 0 or stream <= self._last:
            await self._duplex.write(spdy.reset(stream, spdy.PROTOCOL_ERROR))
            return False
        if len(self._open) >= STREAMS:
            await self._duplex.write(spdy.reset(stream, spdy.REFUSED_STREAM))
            return False
        self._last = stream
        self._open.add(stream)
        await self._duplex.write(self._encoder.reply(stream))
        return True

    async def _fill(self) -> bool:
        while not self._waiting:
            if not (data := await self._duplex.read()):
                return False
            try:
                self._waiting += self._decoder.feed(data)
            except spdy.SpdyError:
                return False
        return True

    async def send(self, stream: int, data: bytes) -> None:
        if stream in self._open and data:
            await self._duplex.write(spdy.data(stream, data))

    async def end(self, stream: int) -> None:
        if stream in self._open:
            self._open.discard(stream)
            await self._duplex.write(spdy.data(stream, b"", fin=True))

    async def ping(self) -> None:
        self._pings += 2
        await self._duplex.write(spdy.ping(self._pings))

    async def close(self) -> None:
        await self._duplex.write(spdy.goaway(self._last))
        if isinstance(self._duplex, WebSocket):
            await self._duplex.close()


async def keep_asking(link: Link) -> None:
    """Ping the peer again and again. Returns when it is gone."""
    try:
        while True:
            await asyncio.sleep(PING_SECONDS)
            await link.ping()
    except ConnectionError:
        return


async def part(link: Link) -> None:
    """Say goodbye and let the peer leave first."""
    await link.close()
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while await link.receive() is not None:
                pass
    except TimeoutError:
        return
