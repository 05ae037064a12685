"""An agent runs real containers for an API in the same process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shepherd.agent.agent import Agent
from shepherd.agent.node import AgentConfig
from shepherd.api.errors import ApiError
from shepherd.api.kinds import CONFIG_MAP, NODE, POD
from shepherd.client.base import Client
from shepherd.client.transport import InProcessTransport
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import User
from shepherd.lib.tasks import cancel_and_wait
from shepherd.runtime.oci import NetworkConfig, NftDataplane, OciRuntime
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.memory import MemoryStore
from shepherd.testing.virtual import eventually

ADMIN = User("admin", ("system:masters",))
IMAGE = "shepherd.local/demo:1"


class Cluster:
    def __init__(self, server: ApiServer, directory: Path, instance: str) -> None:
        self.client = Client(InProcessTransport(server.handle, ADMIN))
        self._server = server
        self._directory = directory
        self._instance = instance
        self.agent: Agent
        self._task: asyncio.Task[None]

    async def start_agent(self) -> None:
        clock = SystemClock()
        self.runtime = OciRuntime(
            self._directory / "agent",
            network=NetworkConfig(bridge=self._instance),
            clock=clock,
            instance=self._instance,
        )
        self.agent = Agent(
            Client(InProcessTransport(self._server.handle, User("system:node:n1"))),
            self.runtime,
            NftDataplane(self._instance),
            config=AgentConfig("n1", self._directory, endpoint_host="127.0.0.1"),
            clock=clock,
            random=Random(1),
        )
        self._task = asyncio.create_task(self.agent.run())
        async with asyncio.timeout(20):
            await self.agent.ready()

    async def stop_agent(self) -> None:
        await cancel_and_wait(self._task)

    async def create(self, name: str, **spec: Any) -> None:
        spec = {"nodeName": "n1", "terminationGracePeriodSeconds": 5} | spec
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        await self.client.create(POD, pod, "default")

    async def status(self, name: str) -> Any:
        return (await self.client.get(POD, name, "default"))["status"]

    async def until(self, name: str, condition: Any) -> Any:
        async def holds() -> bool:
            return bool(condition(await self.status(name)))

        await eventually(holds, within_seconds=20, every_seconds=0.01)
        return await self.status(name)

    async def ready(self, name: str) -> Any:
        return await self.until(
            name,
            lambda s: any(
                c["type"] == "Ready" and c["status"] == "True" for c in s.get("conditions", [])
            ),
        )

    async def remove(self, name: str) -> None:
        await self.client.delete(POD, name, "default")

        async def gone() -> bool:
            try:
                await self.client.get(POD, name, "default")
            except ApiError:
                return True
            return False

        await eventually(gone, within_seconds=20, every_seconds=0.01)


@pytest.fixture
async def cluster(tmp_path: Path, instance: str, demo_image: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path, instance, demo_image) as cluster:
        yield cluster


@asynccontextmanager
async def running(directory: Path, instance: str, image: Path) -> AsyncIterator[Cluster]:
    store = MemoryStore()
    server = ApiServer(
        store,
        config=ServerConfig(),
        clock=SystemClock(),
        random=Random(1),
        authenticator=InsecureAuthenticator(),
    )
    await server.start()
    (directory / "images").mkdir()
    (directory / "images" / "demo.tar").symlink_to(image)
    cluster = Cluster(server, directory, instance)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    await cluster.client.create(NODE, node | {"spec": {"podCIDR": "10.99.0.0/24"}})
    await cluster.start_agent()
    try:
        yield cluster
    finally:
        for sandbox in await cluster.runtime.sandboxes():
            await cluster.runtime.remove_sandbox(sandbox.id)
        await cluster.stop_agent()
        await store.close()


def web(**more: Any) -> dict[str, Any]:
    return {
        "name": "web",
        "image": IMAGE,
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        **more,
    }


def sh(script: str, **more: Any) -> dict[str, Any]:
    return {"name": "web", "image": IMAGE, "command": ["sh", "-c", script], **more}


async def test_a_web_server(cluster: Cluster) -> None:
    await cluster.create("web", containers=[web()])
    status = await cluster.ready("web")
    reader, writer = await asyncio.open_connection(status["podIP"], 8080)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await reader.read()).decode().splitlines()[-1] == "web"
    writer.close()
    await cluster.remove("web")
    assert await cluster.runtime.sandboxes() == []


async def test_files_environment_and_the_last_words(cluster: Cluster) -> None:
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    await cluster.client.create(CONFIG_MAP, data | {"data": {"a": "from a file"}}, "default")
    script = (
        'echo $(cat /c/a); echo "$WHO at $(hostname)"; grep -c localhost /etc/hosts; '
        "mount | grep -c 'tmpfs on /m'; echo last words >/dev/termination-log; exit 3"
    )
    await cluster.create(
        "job",
        restartPolicy="Never",
        volumes=[
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "m", "emptyDir": {"medium": "Memory"}},
        ],
        containers=[
            sh(
                script,
                env=[{"name": "WHO", "value": "me"}],
                volumeMounts=[{"name": "c", "mountPath": "/c"}, {"name": "m", "mountPath": "/m"}],
            )
        ],
    )
    status = await cluster.until("job", lambda s: s.get("phase") == "Failed")
    end = status["containerStatuses"][0]["state"]["terminated"]
    assert (end["exitCode"], end["message"]) == (3, "last words\n")
    pod = await cluster.client.get(POD, "job", "default")
    logs = cluster.runtime.root / "pods" / pod["metadata"]["uid"] / "logs" / "web" / "0.log"
    lines = [line.split(" ", 3)[3] for line in logs.read_text().splitlines()]
    assert lines == ["from a file", "me at job", "2", "1"]


async def test_kill_and_adoption(cluster: Cluster) -> None:
    """hashicorp/nomad#5883, #5945, #6354; k3s-io/k3s#1469: nothing runs twice."""
    await cluster.create("web", containers=[web()])
    before = (await cluster.ready("web"))["containerStatuses"]
    await cluster.create("crash", containers=[sh("exit 1")])
    await cluster.until(
        "crash", lambda s: any(c["restartCount"] for c in s.get("containerStatuses", []))
    )
    await cluster.stop_agent()
    await cluster.start_agent()
    await asyncio.sleep(0.5)
    assert (await cluster.status("web"))["containerStatuses"] == before
    assert len(await cluster.runtime.sandboxes()) == 2


async def test_probes_and_hooks_act_on_real_containers(cluster: Cluster) -> None:
    await cluster.create(
        "web",
        containers=[
            web(
                livenessProbe={"exec": {"command": ["test", "!", "-e", "/tmp/sick"]},
                               "periodSeconds": 1, "failureThreshold": 1},
                lifecycle={"postStart": {"exec": {"command": ["touch", "/tmp/hooked"]}},
                           "preStop": {"exec": {"command": ["touch", "/tmp/stopping"]}}},
            )
        ],
    )  # fmt: skip
    await cluster.ready("web")
    (sandbox,) = await cluster.runtime.sandboxes()
    (container,) = sandbox.containers
    result = await cluster.runtime.exec(
        container.id, ["sh", "-c", "test -e /tmp/hooked && touch /tmp/sick"], timeout_seconds=5
    )
    assert result.exit_code == 0
    await cluster.until("web", lambda s: s["containerStatuses"][0]["restartCount"] == 1)
    await cluster.ready("web")


async def test_other_resources_without_a_restart_and_with_one(cluster: Cluster) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]

    def resources(cpu: str, memory: str) -> dict[str, Any]:
        amounts = {"cpu": cpu, "memory": memory}
        return {"requests": amounts, "limits": amounts}

    async def resize(cpu: str, memory: str, restarts: int) -> Any:
        """Ask for it and wait until the container itself reads that of its cgroup."""
        wanted = resources(cpu, memory)
        change = {"name": "web", "resources": wanted}
        await cluster.client.patch(
            POD, "web", "default", {"spec": {"containers": [change]}},
            type="strategic", sub="resize",
        )  # fmt: skip
        status = await cluster.until(
            "web",
            lambda s: (
                s["containerStatuses"][0]["resources"] == wanted
                and s["containerStatuses"][0]["restartCount"] == restarts
                and not any(c["type"].startswith("PodResize") for c in s["conditions"])
            ),
        )
        return status["containerStatuses"][0]

    script = "trap 'exit 0' TERM; while true; do sleep 0.1; done"
    await cluster.create(
        "web",
        restartPolicy="OnFailure",
        containers=[sh(script, resources=resources("100m", "32Mi"), resizePolicy=policy)],
    )
    first = (await cluster.ready("web"))["containerStatuses"][0]
    assert await limit(cluster, first) == (10_000, 32 << 20)
    same = await resize("200m", "32Mi", 0)
    assert same["containerID"] == first["containerID"]
    assert same["state"] == first["state"]
    assert await limit(cluster, same) == (20_000, 32 << 20)
    other = await resize("200m", "64Mi", 1)
    assert other["containerID"] != first["containerID"]
    assert await limit(cluster, other) == (20_000, 64 << 20)
    await cluster.stop_agent()
    await cluster.start_agent()
    last = await resize("300m", "64Mi", 1)
    assert last["containerID"] == other["containerID"]
    assert await limit(cluster, last) == (30_000, 64 << 20)


async def limit(cluster: Cluster, container: Any) -> tuple[int, int]:
    """The container's CPU quota and memory limit, as it reads them itself."""
    script = (
        "cd /sys/fs/cgroup; if [ -e cpu.max ]; then cut -d' ' -f1 cpu.max; cat memory.max; "
        "else P=$(grep :memory: /proc/self/cgroup | cut -d: -f3); "
        "cat cpu$P/cpu.cfs_quota_us cpu/cpu.cfs_quota_us 2>/dev/null | head -1; "
        "cat memory$P/memory.limit_in_bytes memory/memory.limit_in_bytes 2>/dev/null | head -1; fi"
    )
    name = container["containerID"].partition("://")[2]
    done = await cluster.runtime.exec(name, ["sh", "-c", script], timeout_seconds=10)
    quota, memory = done.output.split()
    return int(quota), int(memory)
