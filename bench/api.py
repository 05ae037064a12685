"""What the API does in a second, over TLS, authenticated, every write durable."""

import asyncio
from dataclasses import asdict
from pathlib import Path

from bench import load
from bench.programs import client, directory, kubeconfig, percentile, program
from bench.report import Row
from shepherd.api.kinds import POD
from shepherd.testing.program import Program

PORT = 19877
CLIENTS = 64
WATCHES = 500
EVENTS = 200
ONE = f"{load.PODS}/made-0"


def _target(found: Program, path: Path) -> dict[str, str]:
    """The kubeconfig's certificates as files, which is how `ssl` takes them."""
    config = kubeconfig(found)
    files = {"ca": config.ca, "certificate": config.certificate, "key": config.key}
    for name, text in files.items():
        (path / f"{name}.pem").write_text(text)
    target = load.Target(config.server, *(str(path / f"{name}.pem") for name in files))
    return asdict(target)


def _rate(name: str, seen: load.Seen, target: str, note: str = "") -> Row:
    rate = len(seen.latencies) / seen.seconds
    assert not seen.failures, f"{name}: {seen.failures} of {len(seen.latencies)} failed"
    return Row(name, rate, "/s", target, note)


def _latencies(name: str, seen: load.Seen, p99: str = "") -> list[Row]:
    return [
        Row(f"{name}, p50", 1000 * percentile(seen.latencies, 0.50), "ms"),
        Row(f"{name}, p99", 1000 * percentile(seen.latencies, 0.99), "ms", p99),
    ]


def _fan_out(found: Program, target: dict[str, str]) -> Row:
    async def version() -> str:
        api = client(found)
        try:
            return (await api.list(POD, "default", limit=1)).resource_version
        finally:
            await api.transport.close()

    path = f"{load.PODS}?watch=true&resourceVersion={asyncio.run(version())}"
    order = {"target": target, "kind": "watch", "path": path, "clients": WATCHES, "count": EVENTS}
    watching = load.run(order)
    assert watching.stdout is not None
    assert watching.stdout.readline().strip() == "open"
    writing = load.run(
        {"target": target, "kind": "create", "prefix": "seen", "clients": 16, "count": EVENTS}
    )
    load.result(writing)
    seen = load.result(watching)
    return Row(
        f"watch events delivered to {WATCHES} streams", seen.events / seen.seconds, "/s", ">= 25000"
    )


def measure() -> list[Row]:
    address = f"127.0.0.1:{PORT}"
    with directory() as path, program(path, "--mode", "server", "--addr", address) as found:
        target = _target(found, path)

        def seen(kind: str, count: int, **more: object) -> load.Seen:
            order = {"target": target, "kind": kind, "count": count, "clients": CLIENTS} | more
            return load.result(load.run(order))

        created = seen("create", 6000, prefix="made")
        got = seen("get", 30_000, path=ONE)
        single = seen("get", 2000, path=ONE, clients=1)
        listed = seen("get", 300, path=f"{load.PODS}?limit=500", clients=4)
        fan_out = _fan_out(found, target)
    return [
        _rate("GET one object, 64 clients", got, ">= 6000"),
        *_latencies("GET one object, 1 client", single),
        _rate("durable creates, 64 clients", created, ">= 1500", "3 KB pods"),
        *_latencies("durable creates, 64 clients", created, "<= 150"),
        _rate("LIST of 500 pods, 4 clients", listed, ""),
        fan_out,
    ]
