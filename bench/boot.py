"""How long a start takes, and what the program holds when nothing happens."""

import asyncio
import statistics
import time
from pathlib import Path

from bench.programs import client, cpu_seconds, directory, program, resident_mb
from bench.report import Row
from shepherd.api.kinds import NODE
from shepherd.testing.program import Program, eventually

STARTS = 3
IDLE_SECONDS = 8.0
PORT = 19876
STANDALONE = ("--mode", "standalone", "--addr", f"127.0.0.1:{PORT}")


async def _node_ready(found: Program, started: float) -> float:
    """Seconds from `started` until a node is Ready, as a client sees it."""
    await asyncio.to_thread(eventually, found.kubeconfig.exists)
    api = client(found)
    try:
        while True:
            try:
                async for event in api.watch(NODE, initial_events=True, timeout_seconds=60):
                    conditions = event.object.get("status", {}).get("conditions", [])
                    if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                        return time.monotonic() - started
            except ConnectionError:
                await asyncio.sleep(0.005)
    finally:
        await api.transport.close()


def _start(path: Path) -> float:
    started = time.monotonic()
    found = Program(path, [*STANDALONE, "--log-level", "warning"]).start()
    try:
        return asyncio.run(asyncio.wait_for(_node_ready(found, started), 60))
    finally:
        found.stop()


def _resident() -> list[Row]:
    address = f"127.0.0.1:{PORT}"
    with directory() as one, directory() as two:
        with program(one, *STANDALONE) as found:
            standalone, cpu = _idle(found)
        with program(two / "server", "--mode", "server", "--addr", address) as server:
            token = str(two / "server" / "join-token")
            agent_flags = ["--mode", "agent", "--api-addr", address, "--token-file", token]
            agent = Program(two / "agent", [*agent_flags, "--log-level", "warning"]).start()
            try:
                asyncio.run(asyncio.wait_for(_node_ready(server, time.monotonic()), 60))
                rest, _ = _idle(server)
                assert agent.process is not None
                alone = resident_mb(agent.process.pid)
            finally:
                agent.stop()
    return [
        Row("RSS idle, standalone", standalone, "MB", "<= 75", "K3s 500-1,600 MB"),
        Row("RSS idle, server", rest, "MB", "<= 55"),
        Row("RSS idle, agent", alone, "MB", "<= 55"),
        Row("CPU idle, standalone", cpu, "% of a core", note="no pods"),
    ]


def _idle(found: Program) -> tuple[float, float]:
    """MB resident and per cent of a core used, when nothing happens."""
    assert found.process is not None
    pid = found.process.pid
    time.sleep(2)
    before = cpu_seconds(pid)
    time.sleep(IDLE_SECONDS)
    return resident_mb(pid), 100 * (cpu_seconds(pid) - before) / IDLE_SECONDS


def measure() -> list[Row]:
    with directory() as path:
        first = _start(path)
        later = [_start(path) for _ in range(STARTS)]
    return [
        Row("first start to node Ready", first, "s", "<= 1.5", "keys are made"),
        Row(
            "second start to node Ready",
            statistics.median(later),
            "s",
            "<= 1.0",
            "k3d 19.9, kind 33, minikube 51",
        ),
        *_resident(),
    ]
