"""The socket transport: what is sent, what comes back, and how an absent server reads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from shepherd.client.http import HttpTransport
from shepherd.lib.http import Request

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(talk: Talk) -> AsyncIterator[str]:
    """A server on loopback that holds one conversation a connection; its URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()


async def test_a_request_and_its_answer() -> None:
    heads: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            heads.append(head + await reader.readexactly(2 if b"POST" in head else 0))
            writer.write(b"HTTP/1.1 201 Created\r\nWarning: a\r\nWarning: b\r\n")
            writer.write(b"Content-Length: 2\r\n\r\nok")

    async with server(talk) as url:
        transport = HttpTransport(url, token="secret")
        request = Request("POST", "/a b/ö", [("x", "1&2")], {"content-type": "text/x"}, b"hi")
        response = await transport.send(request)
        await transport.send(Request("GET", "/second"))
        await transport.close()
    assert (response.status, response.body, response.headers["warning"]) == (201, b"ok", "a, b")
    head = heads[0].decode()
    assert head.startswith("POST /a%20b/%C3%B6?x=1%262 HTTP/1.1\r\n")
    assert "authorization: Bearer secret\r\n" in head
    assert "content-type: text/x\r\n" in head
    assert head.endswith("\r\n\r\nhi")
    assert heads[1].startswith(b"GET /second"), "the connection was used again"


async def test_a_stream_arrives_as_it_is_sent_and_closing_it_ends_the_connection() -> None:
    more, ended = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await more.wait()
        writer.write(b"3\r\ntwo\r\n")
        assert await reader.read() == b""
        ended.set()

    async with server(talk) as url:
        transport = HttpTransport(url)
        response = await transport.send(Request("GET", "/watch"))
        body = response.body
        assert not isinstance(body, bytes)
        assert await anext(body) == b"one"
        more.set()
        assert await anext(body) == b"two"
        await body.aclose()
        await ended.wait()
        await transport.close()


async def test_a_stream_that_breaks_off_is_a_lost_connection() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")

    async with server(talk) as url:
        transport = HttpTransport(url)
        body = (await transport.send(Request("GET", "/watch"))).body
        assert not isinstance(body, bytes)
        await anext(body)
        with pytest.raises(ConnectionError, match=f"lost {url}"):
            await anext(body)
        await transport.close()


async def test_a_streamed_upload() -> None:
    received = bytearray()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        while size := int(await reader.readline(), 16):
            received.extend(await reader.readexactly(size))
            await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    async with server(talk) as url:
        transport = HttpTransport(url, first_byte_seconds=5)
        response = await transport.send(Request("POST", "/images/load", stream=parts()))
        await transport.close()
    assert (response.status, response.body, len(received)) == (200, b"", 100_000)


async def test_no_server_and_no_answer_are_one_clear_line() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with server(silent) as url:
        transport = HttpTransport(url, first_byte_seconds=0.05)
        with pytest.raises(ConnectionError, match=f"{url} did not answer in time"):
            await transport.send(Request("GET", "/"))
        await transport.close()
    transport = HttpTransport(url)
    with pytest.raises(ConnectionError, match=r"cannot reach .*: .*[Cc]onnect") as caught:
        await transport.send(Request("GET", "/"))
    assert "\n" not in str(caught.value)
    await transport.close()
