"""What people and operators wait for: a manifest applied by kubectl, custom objects in bulk.

Over TLS, every write durable.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

from bench.programs import client, cpu_seconds, directory, program
from bench.report import Row
from shepherd.api.errors import ApiError
from shepherd.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from shepherd.api.resource import Object, Resource
from shepherd.client.base import Client
from shepherd.testing.program import Program

PORT = 19879
KUBECTL = str(Path(sys.executable).parent / "kubectl")
EACH = 20
"""Objects of each of five kinds in the manifest."""
CUSTOM = 1000
WRITERS = 16
THING = Resource("bench.shepherd.dev", "v1", "Thing", "things")


def _objects() -> Iterator[Object]:
    """What a chart holds: configuration, accounts, services and workloads that start nothing."""
    for number in range(EACH):
        name, labels = {"name": f"a-{number}"}, {"app": f"a-{number}"}
        container = {
            "name": "main",
            "image": "demo:1",
            "ports": [{"containerPort": 80, "name": "http"}],
            "env": [{"name": f"V{n}", "value": str(n)} for n in range(10)],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        }
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        port = {"name": "http", "port": 80, "targetPort": "http"}
        text = {f"key-{n}": "value " * 20 for n in range(10)}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": text}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": name, "stringData": text}
        spec: Object = {"selector": labels, "ports": [port]}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": name, "spec": spec}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": name, "spec": spec}


def _apply(found: Program, path: Path) -> list[Row]:
    """kubectl twice, each into a namespace of its own; the first has its caches to fill."""
    assert found.process is not None
    manifest, pid, count = path / "manifest.json", found.process.pid, 5 * EACH
    listed = {"apiVersion": "v1", "kind": "List", "items": list(_objects())}
    manifest.write_text(json.dumps(listed))
    environment = os.environ | {"KUBECONFIG": str(found.kubeconfig), "HOME": str(path)}
    rows = []
    for namespace, how in (("cold", "kubectl's first call"), ("warm", "")):
        command = [KUBECTL, "apply", "--server-side", "-n", namespace, "-f", str(manifest)]
        started, used = time.perf_counter(), cpu_seconds(pid)
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
        seconds = time.perf_counter() - started
        rows.append(
            Row(f"{count} objects applied server-side, {namespace}", seconds, "s", "<= 1.0", how)
        )
        used = cpu_seconds(pid) - used
    rows.append(Row(f"{count} objects applied, the server's part", used, "s of CPU", note="warm"))
    return rows


def _definition() -> Object:
    text, number = {"type": "string"}, {"type": "integer", "minimum": 0}
    spec = {"type": "object", "properties": {"colour": text, "size": number}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": THING.version, "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": f"{THING.plural}.{THING.group}"},
        "spec": {
            "group": THING.group,
            "scope": "Namespaced",
            "names": {"kind": THING.kind, "plural": THING.plural},
            "versions": [version | {"subresources": {"status": {}}}],
        },
    }


async def _served(api: Client) -> str:
    """Where to watch from, once the kind is served."""
    while True:
        try:
            return (await api.list(THING, "default")).resource_version
        except ApiError as error:
            if error.code != 404:
                raise
        await asyncio.sleep(0.005)


async def _custom(found: Program) -> float:
    """Seconds from the first create to the last event of a watch."""
    api = client(found)
    await api.create(CUSTOM_RESOURCE_DEFINITION, _definition())
    since = await _served(api)
    started = time.perf_counter()

    async def write(waiting: Iterator[int]) -> None:
        for number in waiting:
            obj: Object = {
                "metadata": {"name": f"t-{number}"},
                "spec": {"colour": "red", "size": 1},
            }
            await api.create(THING, obj, "default")

    async with (
        asyncio.TaskGroup() as group,
        aclosing(api.watch(THING, "default", resource_version=since)) as events,
    ):
        waiting = iter(range(CUSTOM))
        for _ in range(WRITERS):
            group.create_task(write(waiting))
        seen = 0
        async for event in events:
            seen += event.type == "ADDED"
            if seen == CUSTOM:
                break
    seconds = time.perf_counter() - started
    await api.transport.close()
    return seconds


async def _namespaces(found: Program) -> None:
    api = client(found)
    for name in ("cold", "warm"):
        await api.create(NAMESPACE, {"metadata": {"name": name}})
    await api.transport.close()


def measure() -> list[Row]:
    address = f"127.0.0.1:{PORT}"
    with directory() as path, program(path, "--mode", "server", "--addr", address) as found:
        asyncio.run(_namespaces(found))
        rows = _apply(found, path)
        seconds = asyncio.run(_custom(found))
    return [*rows, Row(f"{CUSTOM:,} custom objects created and watched", seconds, "s", "<= 1.5")]
