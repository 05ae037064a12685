"""sheepctl's end of port-forward, against the agent's own."""

import asyncio
import json
import re
import threading
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from shepherd.agent.streams.forward import forward_spdy
from shepherd.agent.streams.links import SpdyLink
from shepherd.api.resource import Object
from shepherd.cli.main import run
from shepherd.cli.port_forward import Ports, parse_ports, pod_port
from shepherd.cli.session import Failure, Usage
from shepherd.lib.duplex import SocketDuplex
from shepherd.lib.http import Duplex, Request, Response
from shepherd.lib.tasks import cancel_and_wait

POD: Object = {
    "metadata": {"name": "web-1", "namespace": "default"},
    "spec": {"containers": [{"name": "a", "ports": [{"name": "http", "containerPort": 8000}]}]},
    "status": {"phase": "Running"},
}
SERVICE: Object = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "selector": {"app": "web"},
        "ports": [{"port": 80, "targetPort": "http", "name": "www"}, {"port": 443}],
    },
}


@pytest.mark.parametrize(
    ("text", "ports"),
    [("8080:80", Ports(8080, "80")), ("80", Ports(80, "80")), (":80", Ports(0, "80")),
     ("8080:http", Ports(8080, "http"))],
)  # fmt: skip
def test_ports_are_written_in_pairs(text: str, ports: Ports) -> None:
    assert parse_ports(text) == ports


@pytest.mark.parametrize("text", ["", ":", "a:80", "80:", "70000", "1:70000", "0", "-1:80"])
def test_other_ports_are_refused(text: str) -> None:
    with pytest.raises(Usage, match="no pair of ports"):
        parse_ports(text)


def test_a_port_is_found_by_number_or_name() -> None:
    assert pod_port(POD, None, "81") == 81
    assert pod_port(POD, None, "http") == 8000
    assert pod_port(POD, SERVICE, "80") == 8000
    assert pod_port(POD, SERVICE, "www") == 8000
    assert pod_port(POD, SERVICE, "443") == 443
    with pytest.raises(Failure, match="service/web has no port 81"):
        pod_port(POD, SERVICE, "81")
    with pytest.raises(Failure, match='pod/web-1 has no port named "https"'):
        pod_port(POD, None, "https")


class Node:
    """Answers as a server with one pod, whose program says hello on port 8000 and ends."""

    def __init__(self) -> None:
        self.left = threading.Event()

    def answer(self, request: Request) -> Response:
        if request.path.endswith("/portforward"):
            assert request.headers["x-stream-protocol-version"] == "portforward.k8s.io"
            return Response(101, takeover=self._forward)
        found: Object = SERVICE if "/services/" in request.path else POD
        if request.path.endswith("/pods"):
            assert request.param("labelSelector") == "app=web"
            found = {"metadata": {}, "items": [POD]}
        return Response(200, {}, json.dumps(found).encode())

    async def _forward(self, duplex: Duplex) -> None:
        forwarding = asyncio.create_task(forward_spdy(SpdyLink(duplex), self._dial, "web-1"))
        await asyncio.to_thread(self.left.wait)
        await cancel_and_wait(forwarding)

    async def _dial(self, port: int) -> SocketDuplex:
        if port != 8000:
            raise OSError("connection refused")
        return await self._program()

    async def _program(self) -> SocketDuplex:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.0 200 OK\r\n\r\nhello " + b"x" * 100_000)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        reader, writer = await asyncio.open_connection(host, port)
        return SocketDuplex(reader, writer)


def test_connections_reach_the_pod_and_their_failures_are_told(
    connected: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node()
    told: list[str] = []
    ready = threading.Event()

    def echo(line: str) -> None:
        told.append(line)
        if len(told) == 2:
            ready.set()

    monkeypatch.setattr("shepherd.cli.port_forward.echo", echo)
    codes: list[int] = []
    words = ["port-forward", "service/web", ":80", ":443"]
    running = threading.Thread(target=lambda: codes.append(run(words, connected(node.answer))))
    running.start()
    try:
        assert ready.wait(10)
        first, second = (re.findall(r":(\d+) -> (\d+)", line)[0] for line in told)
        assert (first[1], second[1]) == ("8000", "443")
        for _ in range(3):
            with urlopen(f"http://127.0.0.1:{first[0]}/", timeout=10) as answer:
                assert answer.read() == b"hello " + b"x" * 100_000
        with pytest.raises((URLError, OSError)):
            urlopen(f"http://127.0.0.1:{second[0]}/", timeout=10)
    finally:
        node.left.set()
        running.join(10)
    assert codes == [1]
    said = capsys.readouterr().err
    assert "error forwarding port 443 to pod web-1: connection refused" in said
    assert said.endswith("sheepctl: the connection to pod/web-1 was lost\n")
