"""A client's end of a connection, in memory, and a process that the test directs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shepherd.agent.streams.websocket import BINARY, CLOSE, PING, unmask
from shepherd.runtime.base import OutputName

MASK = b"\x0a\x0b\x0c\x0d"


class Pipe:
    """A `Duplex` whose other end the test holds."""

    def __init__(self) -> None:
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent = bytearray()
        self.changed = asyncio.Event()

    async def read(self) -> bytes:
        return await self._incoming.get()

    async def write(self, data: bytes) -> None:
        self.sent += data
        self.changed.set()

    def feed(self, data: bytes) -> None:
        """What the client sends; empty = it leaves."""
        self._incoming.put_nowait(data)

    async def until(self, text: bytes) -> None:
        """Wait until the client has been sent `text`."""
        while text not in self.sent:
            self.changed.clear()
            await self.changed.wait()


def message(payload: bytes, opcode: int = BINARY) -> bytes:
    """A client's frame (short ones only)."""
    assert len(payload) < 126
    return bytes((0x80 | opcode, 0x80 | len(payload))) + MASK + unmask(payload, MASK)


def goodbye() -> bytes:
    return message(b"\x03\xe8", CLOSE)


def question() -> bytes:
    return message(b"?", PING)


class FakeProcess:
    """Gives back its input, ends with it; remembers its sizes."""

    def __init__(self, exit_code: int = 0) -> None:
        self._output: asyncio.Queue[bytes] = asyncio.Queue()
        self._exit_code = exit_code
        self.sizes: list[tuple[int, int]] = []
        self.ended_by = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["FakeProcess"]:
        try:
            yield self
        finally:
            self.ended_by = self.ended_by or "killed"

    async def receive(self) -> tuple[OutputName, bytes] | None:
        data = await self._output.get()
        return ("stdout", data) if data else None

    async def write(self, data: bytes) -> None:
        if data:
            await self._output.put(data)

    async def end_input(self) -> None:
        await self._output.put(b"")

    def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))

    async def wait(self) -> int:
        self.ended_by = "itself"
        return self._exit_code
