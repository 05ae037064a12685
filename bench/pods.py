"""From a pod in the API to a process on the node, with real containers and the image present."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from bench.programs import (
    IMAGE,
    client,
    cpu_seconds,
    directory,
    percentile,
    program,
    resident_mb,
)
from bench.report import Row
from shepherd.api.kinds import DEPLOYMENT, NODE, POD
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.testing.program import Program

PORT = 19878
SINGLE = 30
MANY = 50
IDLE_PODS = 10
IDLE_SECONDS = 15.0
SETTLE_SECONDS = 10.0
"""After a change, until its last events are written."""
COMMAND = ["/bin/sleep", "1000000"]


def _pod(name: str, node: str = "") -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            # A node of its own choice: the time is the agent's, not the scheduler's.
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "image": IMAGE, "command": COMMAND}],
        },
    }


def _deployment(replicas: int) -> Object:
    labels = {"app": "many"}
    template = _pod("") | {"metadata": {"labels": labels}}
    return {
        "metadata": {"name": "many"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def _running(pod: Object) -> bool:
    return _phase(pod) == "Running"


def _ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


async def _until(api: Client, wanted: Callable[[Object], bool], count: int) -> float:
    """The monotonic time at which `count` pods had become as wanted, as a watch tells."""
    found: set[str] = set()
    async with aclosing(api.watch(POD, "default", initial_events=True)) as events:
        async for event in events:
            if event.type in ("ADDED", "MODIFIED") and wanted(event.object):
                found.add(event.object["metadata"]["name"])
                if len(found) == count:
                    return time.monotonic()
    raise ConnectionError("the watch ended early")


async def _single(api: Client, node: str) -> tuple[list[float], list[float]]:
    """Milliseconds from the write: to Running of bound pods, to Ready of those to be scheduled."""
    bound: list[float] = []
    ready: list[float] = []
    for number in range(SINGLE):
        for name, times, where, wanted in (
            (f"b-{number}", bound, node, _running),
            (f"s-{number}", ready, "", _ready),
        ):
            watching = asyncio.create_task(_one(api, name, wanted))
            await asyncio.sleep(0.02)
            started = time.monotonic()
            await api.create(POD, _pod(name, where), "default")
            times.append(1000 * (await watching - started))
            await api.delete(POD, name, "default", grace_seconds=0)
    return bound, ready


async def _one(api: Client, name: str, wanted: Callable[[Object], bool]) -> float:
    selector = f"metadata.name={name}"
    events = api.watch(POD, "default", initial_events=True, field_selector=selector)
    async with aclosing(events):
        async for event in events:
            if event.type == "MODIFIED" and wanted(event.object):
                return time.monotonic()
    raise ConnectionError("the watch ended early")


async def _many(api: Client) -> float:
    """Seconds from the apply of a Deployment to all its pods Ready."""
    watching = asyncio.create_task(_until(api, _ready, MANY))
    await asyncio.sleep(0.1)
    started = time.monotonic()
    await api.create(DEPLOYMENT, _deployment(MANY), "default")
    return await watching - started


async def _none_left(api: Client) -> None:
    while (await api.list(POD, "default")).items:
        await asyncio.sleep(0.05)


def _available_mb() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1000
    raise LookupError("MemAvailable")


async def _measure(found: Program) -> list[Row]:
    api = client(found)
    try:
        node = (await api.list(NODE)).items[0]["metadata"]["name"]
        await _single_warm_up(api, node)
        bound, ready = await _single(api, node)
        await _none_left(api)
        before = _available_mb()
        many = await _many(api)
        await asyncio.sleep(2)
        per_pod = (before - _available_mb()) / MANY
        scale = {"spec": {"replicas": IDLE_PODS}}
        await api.patch(DEPLOYMENT, "many", "default", scale)
        while len((await api.list(POD, "default")).items) > IDLE_PODS:
            await asyncio.sleep(0.1)
        idle, resident = await _idle(found)
        await api.delete(DEPLOYMENT, "many", "default", propagation="Background")
        await _none_left(api)
    finally:
        await api.transport.close()
    return [
        Row("bound -> Running in the API, p50", percentile(bound, 0.5), "ms", "<= 80"),
        Row("bound -> Running in the API, p99", percentile(bound, 0.99), "ms", "<= 200"),
        Row("created -> Ready in the API, p50", percentile(ready, 0.5), "ms"),
        Row("created -> Ready in the API, p99", percentile(ready, 0.99), "ms"),
        Row(f"{MANY} replicas, apply -> all Ready", many, "s", "<= 2.0", "docker swarm 8.8-9.7"),
        Row("memory per idle pod", per_pod, "MB", "<= 3", "MemAvailable, process included"),
        Row(f"CPU idle, standalone with {IDLE_PODS} pods", idle, "% of a core", "<= 1"),
        Row(f"RSS, standalone with {IDLE_PODS} pods", resident, "MB"),
    ]


async def _single_warm_up(api: Client, node: str) -> None:
    await api.create(POD, _pod("warm", node), "default")
    await _until(api, _running, 1)
    await api.delete(POD, "warm", "default", grace_seconds=0)
    await _none_left(api)


async def _idle(found: Program) -> tuple[float, float]:
    assert found.process is not None
    pid = found.process.pid
    await asyncio.sleep(SETTLE_SECONDS)
    before = cpu_seconds(pid)
    await asyncio.sleep(IDLE_SECONDS)
    return 100 * (cpu_seconds(pid) - before) / IDLE_SECONDS, resident_mb(pid)


def measure() -> list[Row]:
    address = f"127.0.0.1:{PORT}"
    with directory() as path, program(path, "--mode", "standalone", "--addr", address) as found:
        return asyncio.run(_measure(found))
