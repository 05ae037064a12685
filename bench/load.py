"""A load generator that costs little, so that the server is what is measured.

    python -m bench.load '{"url": ..., "kind": "get", ...}'

runs in a process of its own, speaks HTTP/1.1 over TLS on bare asyncio protocols (an HTTP client
library would use more CPU than the server) and prints what it saw as JSON.
"""

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

_WATCH_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Target:
    """The server and the files that prove who asks."""

    url: str
    ca: str
    certificate: str
    key: str

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(slots=True)
class Seen:
    """What the load saw: the latency of each request in seconds, and answers that failed."""

    latencies: list[float] = field(default_factory=list)
    failures: int = 0
    seconds: float = 0.0
    events: int = 0
    began: float = 0.0
    """When the first event came."""


class _Requester(asyncio.Protocol):
    """Sends one request after the other on one connection."""

    def __init__(self, request: Callable[[], bytes | None], seen: Seen) -> None:
        self._request = request
        self._seen = seen
        self._buffer = bytearray()
        self._need = -1
        self._sent = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def _next(self) -> None:
        request = self._request()
        if request is None:
            self._transport.close()
            return
        self._need = -1
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._need < 0:
            head = self._buffer.find(b"\r\n\r\n")
            if head < 0:
                return
            fields = bytes(self._buffer[:head]).lower()
            length = fields.index(b"content-length:") + 15
            self._need = head + 4 + int(fields[length:].split(b"\r\n", 1)[0])
        if len(self._buffer) < self._need:
            return
        self._seen.latencies.append(time.perf_counter() - self._sent)
        if self._buffer[9:10] != b"2":
            self._seen.failures += 1
        self._buffer.clear()
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


class _Watcher(asyncio.Protocol):
    """Reads a watch until it has had `wanted` events; `opened` when its answer begins."""

    def __init__(self, request: bytes, wanted: int, seen: Seen) -> None:
        loop = asyncio.get_running_loop()
        self._request = request
        self._missing = wanted
        self._seen = seen
        self.opened: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self.opened.set_result(None)
        count = data.count(b'{"type":')
        if count and not self._seen.events:
            self._seen.began = time.perf_counter()
        self._seen.events += count
        self._missing -= count
        if self._missing <= 0 and not self.done.done():
            self.done.set_result(None)


def _head(method: str, path: str, host: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Accept: application/json"]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def requests(
    target: Target, make: Callable[[int], tuple[str, str, bytes]], *, count: int, clients: int
) -> Seen:
    """`count` requests over `clients` connections; `make(n)` gives method, path and body."""
    where = urlsplit(target.url)
    assert where.hostname
    assert where.port
    seen = Seen()
    numbers = iter(range(count))

    def following() -> bytes | None:
        number = next(numbers, None)
        return None if number is None else _head(*_split(make(number), where.netloc))

    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    connections = [
        await loop.create_connection(
            lambda: _Requester(following, seen), where.hostname, where.port, ssl=target.context()
        )
        for _ in range(clients)
    ]
    await asyncio.gather(*(protocol.done for _, protocol in connections))
    seen.seconds = time.perf_counter() - started
    return seen


def _split(request: tuple[str, str, bytes], host: str) -> tuple[str, str, str, bytes]:
    method, path, body = request
    return method, path, host, body


async def watches(target: Target, path: str, *, streams: int, events: int) -> Seen:
    """Open `streams` watches, say so on standard output, and read `events` from each."""
    where = urlsplit(target.url)
    assert where.hostname
    assert where.port
    seen = Seen()
    loop = asyncio.get_running_loop()
    request = _head("GET", path, where.netloc)
    context = target.context()
    watchers = [
        await loop.create_connection(
            lambda: _Watcher(request, events, seen), where.hostname, where.port, ssl=context
        )
        for _ in range(streams)
    ]
    await asyncio.gather(*(watcher.opened for _, watcher in watchers))
    print("open", flush=True)
    async with asyncio.timeout(_WATCH_SECONDS):
        await asyncio.gather(*(watcher.done for _, watcher in watchers))
    seen.seconds = time.perf_counter() - seen.began
    return seen


def _pod(name: str) -> dict[str, Any]:
    """A pod of the usual size (some 3 KB once defaulted)."""
    container = {
        "name": "main",
        "image": "registry.example/team/app:1.2.3",
        "env": [{"name": f"SETTING_{n}", "value": f"value-{n}" * 4} for n in range(12)],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
        "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}},
    }
    labels = {f"example.org/label-{n}": f"value-{n}" for n in range(6)} | {"app": "load"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        # Not for any scheduler here: what is measured is the API.
        "spec": {"schedulerName": "none", "containers": [container]},
    }


PODS = "/api/v1/namespaces/default/pods"


async def _serve(order: dict[str, Any]) -> Seen:
    target = Target(**order["target"])
    count, clients = order["count"], order["clients"]
    match order["kind"]:
        case "create":
            prefix = order["prefix"]

            def create(n: int) -> tuple[str, str, bytes]:
                return "POST", PODS, json.dumps(_pod(f"{prefix}-{n}")).encode()

            return await requests(target, create, count=count, clients=clients)
        case "watch":
            return await watches(target, order["path"], streams=clients, events=count)
        case _:
            path = order["path"]
            return await requests(
                target, lambda n: ("GET", path, b""), count=count, clients=clients
            )


def run(order: dict[str, Any]) -> subprocess.Popen[str]:
    """Start a load process for `order`."""
    return subprocess.Popen(
        [sys.executable, "-m", "bench.load", json.dumps(order)], stdout=subprocess.PIPE, text=True
    )


def result(process: "subprocess.Popen[str]") -> Seen:
    """What a load process saw. Raises RuntimeError if it failed."""
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the load generator ended with {process.returncode}")
    return Seen(**json.loads(output.splitlines()[-1]))


if __name__ == "__main__":
    import dataclasses

    import uvloop

    print(json.dumps(dataclasses.asdict(uvloop.run(_serve(json.loads(sys.argv[1]))))))
