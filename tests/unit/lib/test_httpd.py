"""A handler behind a real socket: bodies, streams, limits, and how it ends."""

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from shepherd.lib import httpd
from shepherd.lib.http import Handler, Request, Response
from shepherd.lib.httpd import HttpServer, certificate_user, serve

Serve = Callable[..., Any]


@asynccontextmanager
async def serving(handler: Handler, **options: Any) -> AsyncIterator[tuple[str, HttpServer]]:
    server = await serve(handler, "127.0.0.1", 0, **options)
    try:
        yield f"http://127.0.0.1:{server.port}", server
    finally:
        await server.close(1.0)


async def echo(request: Request) -> Response:
    seen = {
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "body": request.body.decode(),
        "type": request.headers.get("content-type"),
        "remote": request.remote,
    }
    return Response(200, {"content-type": "application/json"}, json.dumps(seen).encode())


async def test_a_request_arrives_as_it_was_sent() -> None:
    async with (
        serving(echo) as (url, _),
        aiohttp.ClientSession() as session,
        session.put(
            f"{url}/a%20b/c?x=1&x=2&empty", data=b"hello", headers={"Content-Type": "text/x"}
        ) as answer,
    ):
        assert answer.headers["content-type"] == "application/json"
        seen = await answer.json()
    assert seen == {
        "method": "PUT",
        "path": "/a b/c",
        "query": [["x", "1"], ["x", "2"], ["empty", ""]],
        "body": "hello",
        "type": "text/x",
        "remote": "127.0.0.1",
    }


async def test_a_body_beyond_the_limit_is_refused_and_the_server_lives_on() -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        for _ in range(20):
            yield b"x" * 100

    async with (
        serving(echo, body_limit=1000) as (url, _),
        aiohttp.ClientSession() as session,
    ):
        for body in (b"x" * 1001, chunks()):
            async with session.post(url, data=body) as answer:
                assert answer.status == 413
                assert (await answer.json())["reason"] == "RequestEntityTooLarge"
        async with session.post(url, data=b"x" * 1000) as answer:
            assert answer.status == 200


async def test_a_body_that_does_not_arrive_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(httpd, "STALL_SECONDS", 0.01)
    async with serving(echo) as (_, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab")
        assert b"408" in await reader.readline()
        writer.close()


async def test_a_peer_that_reads_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "STALL_SECONDS", 0.05)
    closed = asyncio.Event()

    async def flood() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x" * 1_000_000
        finally:
            closed.set()

    async def handle(request: Request) -> Response:
        return Response(200, {}, flood())

    async with serving(handle) as (_, server):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(closed.wait(), 10)
        writer.close()


async def test_chosen_paths_take_bodies_of_any_size_as_a_stream() -> None:
    async def count(request: Request) -> Response:
        assert request.stream is not None
        size = 0
        async for chunk in request.stream:
            size += len(chunk)
        return Response(200, {}, str(size).encode())

    def streamed(method: str, path: str) -> bool:
        return path == "/load"

    async with (
        serving(count, body_limit=10, streamed=streamed) as (url, _),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/load", data=b"x" * 1_000_000) as answer,
    ):
        assert await answer.text() == "1000000"


async def test_a_large_body_is_compressed_for_those_who_accept_it() -> None:
    body = b"kubernetes " * 20_000

    async def large(request: Request) -> Response:
        return Response(200, {"content-type": "text/plain"}, body)

    async with serving(large) as (url, _), aiohttp.ClientSession(auto_decompress=False) as session:
        async with session.get(url, headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["content-encoding"] == "gzip"
            assert gzip.decompress(await answer.read()) == body
        async with session.get(url, headers={"Accept-Encoding": "identity"}) as answer:
            assert await answer.read() == body


async def test_a_bug_of_the_handler_is_logged_and_answered_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(request: Request) -> Response:
        raise ZeroDivisionError("secret")

    with caplog.at_level(logging.ERROR):
        async with (
            serving(broken) as (url, _),
            aiohttp.ClientSession() as session,
            session.get(url) as answer,
        ):
            assert answer.status == 500
            text = await answer.text()
    assert "secret" not in text
    assert json.loads(text)["reason"] == "InternalError"
    assert "ZeroDivisionError" in caplog.text


class Ticks:
    """A streamed body that never ends by itself and knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def body(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"tick\n"
            await asyncio.Event().wait()
        finally:
            self.closed.set()

    async def handle(self, request: Request) -> Response:
        return Response(200, {}, self.body())


async def test_a_stream_is_closed_when_its_reader_goes_away() -> None:
    ticks = Ticks()
    async with serving(ticks.handle) as (url, _):
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert await answer.content.readline() == b"tick\n"
        await asyncio.wait_for(ticks.closed.wait(), 5)


@pytest.mark.parametrize("error", [ConnectionError("lost"), ZeroDivisionError()])
async def test_a_stream_that_breaks_off_does_not_look_whole(error: Exception) -> None:
    async def half() -> AsyncGenerator[bytes, None]:
        yield b"tick\n"
        raise error

    async def handle(request: Request) -> Response:
        return Response(200, {}, half())

    async with (
        serving(handle) as (url, _),
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises(aiohttp.ClientError):
            async with session.get(url) as answer:
                await answer.read()


async def test_closing_ends_streams_cleanly_and_lets_requests_finish() -> None:
    ticks, entered, release = Ticks(), asyncio.Event(), asyncio.Event()

    async def handle(request: Request) -> Response:
        if request.path == "/watch":
            return await ticks.handle(request)
        entered.set()
        await release.wait()
        return Response(200, {}, b"done")

    server = await serve(handler=handle, host="127.0.0.1")
    url = f"http://127.0.0.1:{server.port}"
    async with aiohttp.ClientSession() as session, session.get(f"{url}/watch") as stream:
        assert await stream.content.readline() == b"tick\n"
        request = asyncio.ensure_future(session.get(f"{url}/slow"))
        await entered.wait()
        closing = asyncio.ensure_future(server.close(5.0))
        assert await stream.content.read() == b""
        release.set()
        assert await (await request).text() == "done"
        await closing
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)


async def test_closing_does_not_wait_for_ever() -> None:
    entered = asyncio.Event()

    async def stuck(request: Request) -> Response:
        entered.set()
        await asyncio.Event().wait()
        return Response()

    server = await serve(stuck, "127.0.0.1")
    async with aiohttp.ClientSession() as session:
        request = asyncio.ensure_future(session.get(f"http://127.0.0.1:{server.port}"))
        await entered.wait()
        await asyncio.wait_for(server.close(0.05), 5)
        with pytest.raises(aiohttp.ClientError):
            await request


async def test_what_is_not_http_gets_a_400() -> None:
    async with serving(echo) as (_, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert b"400" in await reader.readline()
        writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: a\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 100_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: 1\r\n" * 1000,
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\ncontent-length: -1\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/9.9\r\n",
        b"GET  / HTTP/1.1\r\nx y: z\r\n",
        b"GET /\x00\xff HTTP/1.1\r\n",
    ],
)
async def test_a_head_that_is_too_long_or_malformed_gets_a_4xx(
    head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo) as (url, server), aiohttp.ClientSession() as session:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + b"\r\n")
        assert (await reader.readline()).split()[1][:1] == b"4"
        writer.close()
        async with session.get(url) as answer:
            assert answer.status == 200
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_a_connection_that_asks_for_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(httpd, "STALL_SECONDS", 0.05)
    async with serving(echo) as (_, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n")
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


async def test_a_header_that_is_no_utf8_arrives_as_text_that_can_be_written() -> None:
    async def agent(request: Request) -> Response:
        return Response(200, body=request.headers["user-agent"].encode())

    async with serving(agent) as (_, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = b"GET / HTTP/1.1\r\nhost: a\r\nuser-agent: a\xff\r\nconnection: close\r\n\r\n"
        writer.write(head)
        assert (await reader.read()).endswith("\r\n\r\na\N{REPLACEMENT CHARACTER}".encode())
        writer.close()


async def test_a_packed_body_is_not_unpacked() -> None:
    async def size(request: Request) -> Response:
        return Response(200, body=str(len(request.body)).encode())

    bomb = gzip.compress(bytes(10_000_000))
    async with serving(size) as (url, _), aiohttp.ClientSession() as session:
        headers = {"Content-Encoding": "gzip"}
        async with session.post(url, data=bomb, headers=headers) as answer:
            assert int(await answer.text()) == len(bomb)


def test_a_certificate_names_its_user_and_groups() -> None:
    subject = ((("organizationName", "system:nodes"),), (("commonName", "system:node:n1"),))
    user = certificate_user({"subject": subject})
    assert user is not None
    assert user.name == "system:node:n1"
    assert user.groups == ("system:nodes",)
    assert certificate_user({}) is None
    assert certificate_user(None) is None
