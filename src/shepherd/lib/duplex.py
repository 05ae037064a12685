"""Two-way byte streams over sockets, and joining two of them."""

import asyncio
import contextlib
import socket

from shepherd.lib.http import Duplex

READ_BYTES = 64 * 1024
CLOSE_SECONDS = 5.0


class SocketDuplex:
    """A `Duplex` over asyncio's streams; either side can end its half alone.

    `read` takes a cut for an end; `write` raises ConnectionError.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, sock: socket.socket) -> "SocketDuplex":
        """Over a connected socket."""
        return cls(*await asyncio.open_connection(sock=sock))

    async def read(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError:
            raise
        except OSError as error:  # TLS has errors of its own
            raise ConnectionResetError(str(error)) from error

    async def end(self) -> None:
        """Tell the peer that nothing more follows; TLS can only say so by closing."""
        if self._writer.can_write_eof():
            with contextlib.suppress(OSError):
                self._writer.write_eof()

    def close(self) -> None:
        """Send what was written, then close. A peer that does not read loses the rest."""
        self._writer.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.abort)

    def abort(self) -> None:
        """Close without sending what is left."""
        # Once it has closed, asyncio's TLS transport (CPython 3.11) lacks what it would abort.
        with contextlib.suppress(AttributeError):
            self._writer.transport.abort()


async def join(one: Duplex, other: Duplex) -> None:
    """Relay both ways, until either side has ended: what it had sent has been passed on then."""
    tasks = [asyncio.create_task(_copy(one, other)), asyncio.create_task(_copy(other, one))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(source: Duplex, target: Duplex) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read():
            await target.write(data)
