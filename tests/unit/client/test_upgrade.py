"""A request that leaves HTTP: over a server that relays to another one, as exec does."""

import asyncio

import pytest

from shepherd.client.http import HttpTransport
from shepherd.lib.duplex import SocketDuplex
from shepherd.lib.http import Duplex, Request, Response
from shepherd.lib.httpd import HttpServer, serve

UPGRADE = {"connection": "Upgrade", "upgrade": "test/1"}


async def shout(duplex: Duplex) -> None:
    """Gives back what comes in capitals, until `bye`."""
    while (data := await duplex.read()) and data != b"bye":
        await duplex.write(data.upper())
    await duplex.write(b"END")


async def origin(request: Request) -> Response:
    if request.path == "/refused":
        return Response(403, {"content-type": "text/plain"}, b"not you")
    headers = UPGRADE | {"x-heard": request.headers.get("x-said", "")}
    return Response(101, headers, takeover=shout)


class Relay:
    """A server whose handler passes everything on to `origin`."""

    async def __aenter__(self) -> "Relay":
        self.far = await serve(origin, "127.0.0.1")
        self._transport = HttpTransport(f"http://127.0.0.1:{self.far.port}")
        self.near: HttpServer = await serve(self._transport.send, "127.0.0.1")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.near.close(1.0)
        await self._transport.close()
        await self.far.close(1.0)

    async def ask(self, path: str) -> tuple[bytes, SocketDuplex]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.near.port)
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: test/1\r\n"
        writer.write(f"{head}X-Said: one\r\nX-Said: two\r\n\r\n".encode())
        return await reader.readuntil(b"\r\n\r\n"), SocketDuplex(reader, writer)


async def test_bytes_go_both_ways_until_the_far_end_leaves() -> None:
    async with Relay() as relay:
        head, connection = await relay.ask("/talk")
        assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert b"x-heard: one, two\r\n" in head
        await connection.write(b"hello")
        assert await connection.read() == b"HELLO"
        await connection.write(b"bye")
        assert await connection.read() == b"END"
        assert await connection.read() == b""
        connection.close()


async def test_a_refusal_is_passed_on_whole() -> None:
    async with Relay() as relay:
        head, connection = await relay.ask("/refused")
        assert head.startswith(b"HTTP/1.1 403")
        assert await connection.read() == b"not you"
        connection.close()


async def test_much_goes_through_though_both_are_slow() -> None:
    async with Relay() as relay:
        _, connection = await relay.ask("/talk")
        size = 8 * 1024 * 1024

        async def send() -> None:
            for _ in range(size // 65536):
                await connection.write(b"x" * 65536)

        sending = asyncio.create_task(send())
        received = 0
        while received < size:
            data = await connection.read()
            assert data.strip(b"X") == b""
            received += len(data)
        await sending
        connection.close()


async def test_a_server_that_closes_ends_what_it_relays() -> None:
    relay = Relay()
    await relay.__aenter__()
    _, connection = await relay.ask("/talk")
    await relay.__aexit__()
    assert await connection.read() == b""
    connection.close()


async def test_who_speaks_no_http_is_told_of() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ftp ready\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = HttpTransport(f"http://127.0.0.1:{port}")
    async with server:
        with pytest.raises(ConnectionError, match="not HTTP"):
            await transport.send(Request("GET", "/", headers=dict(UPGRADE)))
    await transport.close()
