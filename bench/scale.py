"""How many pods a second are bound through the API: server, store on disk, scheduler, one process.

Nodes are API objects without agents. 10,000 pods of 20 workloads wait; the clock runs from the
start of the scheduler, which has to list them first, until every pod is bound. Scheduled events are
written beside, as many as the recorder gets to.
"""

import asyncio
import random
import tempfile
import time
from pathlib import Path

import uvloop

from bench.report import Row
from shepherd.api.kinds import NODE, POD
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.transport import InProcessTransport
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import User
from shepherd.scheduler.scheduler import Scheduler
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.sqlite import SqliteStore

PODS = 10_000
WORKLOADS = 20
WRITERS = 64


def measure() -> list[Row]:
    rows = []
    for nodes in (1_000, 5_000):
        rate, created = uvloop.run(_run(nodes))
        target = ">= 400" if nodes == 5_000 else ""
        note = f"{PODS:,} pods, durable; created before at {created:,.0f} pods/s"
        rows.append(Row(f"bound through the API, {nodes} nodes", rate, "pods/s", target, note))
    return rows


async def _run(nodes: int) -> tuple[float, float]:
    """Pods a second bound, and created before."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.open(Path(folder) / "bench.db", clock=clock)
        api = ApiServer(
            store,
            config=ServerConfig(),
            clock=clock,
            random=random.Random(1),
            authenticator=InsecureAuthenticator(),
        )
        await api.start()
        user = User("system:kube-scheduler", ("system:masters",))
        client = Client(InProcessTransport(api.handle, user))
        await _create(client, [_node(index) for index in range(nodes)])
        began = time.perf_counter()
        await _create(client, [_pod(index) for index in range(PODS)])
        created = PODS / (time.perf_counter() - began)
        rate = PODS / await _bind_all(client, clock)
        await store.close()
    return rate, created


async def _create(client: Client, objects: list[Object]) -> None:
    """Create all, with some writers at a time."""
    waiting = iter(objects)

    async def writer() -> None:
        for obj in waiting:
            await client.create(NODE if obj["kind"] == "Node" else POD, obj)

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(writer())


async def _bind_all(client: Client, clock: SystemClock) -> float:
    """The seconds that the scheduler takes for all."""
    began = time.perf_counter()
    scheduler = asyncio.create_task(Scheduler(client, clock=clock, random=random.Random(1)).run())
    bound: set[str] = set()
    start = (await client.list(POD, limit=1)).resource_version
    async for event in client.watch(POD, resource_version=start, field_selector="spec.nodeName!="):
        bound.add(event.object["metadata"].get("name", ""))
        if len(bound) == PODS or scheduler.done():
            break
    seconds = time.perf_counter() - began
    scheduler.cancel()
    await asyncio.gather(scheduler, return_exceptions=True)
    return seconds


def _node(index: int) -> Object:
    name = f"node-{index}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": f"zone-{index % 3}",
            },
        },
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(index: int) -> Object:
    workload = index % WORKLOADS
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"rs-{workload}",
        "uid": f"rs-{workload}",
        "controller": True,
    }
    request = {"cpu": f"{100 + 10 * workload}m", "memory": "128Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{index}",
            "namespace": "default",
            "labels": {"app": f"app-{workload}"},
            "ownerReferences": [owner],
        },
        "spec": {
            "containers": [{"name": "main", "image": "demo:1", "resources": {"requests": request}}]
        },
    }
