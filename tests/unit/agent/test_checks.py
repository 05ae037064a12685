"""Probes over a real loopback network."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from shepherd.agent import grpc_health
from shepherd.agent.checks import CheckError, Checks, Target, port_number
from shepherd.api.objects import Container
from shepherd.api.objects.pod import Probe
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response
from shepherd.lib.httpd import serve
from shepherd.runtime.base import RuntimeInfo
from shepherd.runtime.hollow import HollowRuntime


class RealNetwork(HollowRuntime):
    def describe(self) -> RuntimeInfo:
        return RuntimeInfo("fake", "1", "")


@asynccontextmanager
async def listening(handler: Any) -> AsyncIterator[int]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def look(port: int, **probe: Any) -> Any:
    checks = Checks(RealNetwork(clock=SystemClock(), random=Random(1)))
    container = msgspec.convert({"ports": [{"name": "http", "containerPort": port}]}, Container)
    target = Target("c", container, "127.0.0.1")
    return await checks.probe(target, msgspec.convert(probe, Probe))


async def answer(request: Request) -> Response:
    if request.path == "/moved":
        return Response(302, {"location": "/ok"})
    if request.path == "/nonsense":
        return Response(302, {"location": dict(request.query)["to"]})
    if request.path == "/away":
        return Response(302, {"location": "http://elsewhere.invalid/"})
    wanted = (
        request.headers.get("x-who") == "me" and request.headers["user-agent"] == "kube-probe/1.37"
    )
    return Response(200 if wanted else 503)


@pytest.mark.parametrize("path", ["/ok", "/moved", "/away"])
async def test_http(path: str) -> None:
    listener = await serve(answer, "127.0.0.1")
    port = listener.port
    action = {"path": path, "port": "http", "httpHeaders": [{"name": "X-Who", "value": "me"}]}
    assert (await look(port, httpGet=action)).ok
    refused = await look(port, httpGet={"path": path, "port": "http"})
    if path == "/ok":
        assert refused.output == "HTTP probe failed with statuscode: 503"
    await listener.close(0)
    gone = await look(port, httpGet={"port": "http"})
    assert not gone.ok
    assert "http://127.0.0.1" in gone.output


@pytest.mark.parametrize("to", ["http://127.0.0.1:99999/", "http://[x/", "//127.0.0.1:x"])
async def test_a_redirect_to_nonsense_fails_the_probe_and_no_more(to: str) -> None:
    listener = await serve(answer, "127.0.0.1")
    result = await look(listener.port, httpGet={"path": f"/nonsense?to={to}", "port": "http"})
    assert not result.ok
    assert "cannot be" in result.output
    await listener.close(0)


@pytest.mark.parametrize("action", ["httpGet", "tcpSocket"])
@pytest.mark.parametrize("host", ["a..b", "x" * 70, "["])
async def test_a_host_that_cannot_be_fails_the_probe_and_no_more(action: str, host: str) -> None:
    assert not (await look(80, **{action: {"host": host, "port": 80}})).ok


async def test_http_of_nonsense() -> None:
    async def nonsense(reader: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\r\n")
        writer.close()

    async with listening(nonsense) as port:
        assert not (await look(port, httpGet={"port": port})).ok


async def test_http_that_never_answers() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with listening(silent) as port:
        result = await look(port, httpGet={"port": port}, timeoutSeconds=1)
    assert result.output == "context deadline exceeded"


async def test_tcp() -> None:
    async def accept(reader: Any, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(accept) as port:
        assert (await look(port, tcpSocket={"port": port})).ok
    assert not (await look(port, tcpSocket={"port": port})).ok


def test_a_port_that_has_no_such_name() -> None:
    with pytest.raises(CheckError, match="couldn't find port 'none'"):
        port_number("none", Container(name="web"))


@pytest.mark.parametrize(("status", "serving"), [(1, True), (2, False)])
async def test_grpc(status: int, serving: bool) -> None:
    called: list[bytes] = []

    async def health(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.append(await reader.readuntil(b"\x0a\x03abc"))
        writer.write(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")  # SETTINGS
        message = bytes((0, 0, 0, 0, 2, 8, status))
        writer.write(b"\x00\x00\x01\x01\x04\x00\x00\x00\x01\x88")  # HEADERS, :status 200
        writer.write(b"\x00\x00\x07\x00\x00\x00\x00\x00\x01" + message)
        writer.write(b"\x00\x00\x01\x01\x05\x00\x00\x00\x01\x88")  # trailers, the end
        await reader.read()
        writer.close()

    async with listening(health) as port:
        assert await grpc_health.check("127.0.0.1", port, "abc") is serving
    assert b"/grpc.health.v1.Health/Check" in called[0]
