"""A node in virtual time: the real API over a store in memory, and hollow containers."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from shepherd.agent.agent import Agent
from shepherd.agent.node import AgentConfig
from shepherd.api.errors import ApiError
from shepherd.api.kinds import EVENT, NODE, POD
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.transport import InProcessTransport
from shepherd.lib.http import Request, Response, User
from shepherd.lib.tasks import cancel_and_wait
from shepherd.runtime.hollow import HollowRuntime, NullDataplane
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.memory import MemoryStore
from shepherd.testing.virtual import VirtualClock, eventually, run_virtual

T = TypeVar("T")
ADMIN = User("admin", ("system:masters",))


class NodeScene:
    """One node, its API, and what a user does with them."""

    def __init__(self, directory: Path, server: ApiServer) -> None:
        self.server = server
        self.clock = VirtualClock()
        self.client = Client(InProcessTransport(server.handle, ADMIN))
        self.runtime = HollowRuntime(clock=self.clock, random=Random(3))
        self.dataplane = NullDataplane()
        self.directory = directory
        self.cut = False
        """The agent cannot reach the server."""
        self.agent: Agent
        self.agent_task: asyncio.Task[None] | None = None

    async def _wire(self, request: Request) -> Response:
        if self.cut:
            raise ConnectionError("the wire is cut")
        return await self.server.handle(request)

    def start_agent(self) -> None:
        self.agent = Agent(
            Client(InProcessTransport(self._wire, User("system:node:n1", ("system:nodes",)))),
            self.runtime,
            self.dataplane,
            config=AgentConfig(
                "n1", self.directory, node_ip="192.0.2.1", endpoint_host="127.0.0.1"
            ),
            clock=self.clock,
            random=Random(5),
        )
        self.agent_task = asyncio.create_task(self.agent.run())

    async def stop_agent(self) -> None:
        """As abruptly as kill -9: nothing is said, containers go on."""
        if self.agent_task:
            await cancel_and_wait(self.agent_task)
            self.agent_task = None

    async def restart_agent(self) -> None:
        await self.stop_agent()
        self.start_agent()

    async def node_ready(self) -> None:
        await eventually(lambda: self.has(NODE, "n1"), what="the node")
        await self.client.patch(NODE, "n1", None, {"spec": {"podCIDR": "10.42.0.0/24"}})
        await self.agent.ready()

    async def has(self, resource: Any, name: str) -> bool:
        try:
            await self.client.get(resource, name, None if resource is NODE else "default")
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        return True

    async def create_pod(
        self, name: str = "web", *, annotations: Any = None, **spec: Any
    ) -> Object:
        spec = {"nodeName": "n1", "containers": [{"name": "web", "image": "web:1"}], **spec}
        meta = {"name": name, "annotations": annotations or {}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        return await self.client.create(POD, pod, "default")

    async def pod(self, name: str = "web") -> Object:
        return await self.client.get(POD, name, "default")

    async def status(self, name: str = "web") -> Any:
        return (await self.pod(name))["status"]

    async def container(self, name: str = "web", container: str = "web") -> Any:
        status = await self.status(name)
        every = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
        return next((c for c in every if c["name"] == container), {"state": {}})

    async def until(self, condition: Callable[[Any], Any], name: str = "web", **limits: Any) -> Any:
        """Wait until the pod's status is so; the status."""

        async def holds() -> bool:
            return bool(condition(await self.status(name)))

        await eventually(holds, **limits)
        return await self.status(name)

    async def phase(self, phase: str, name: str = "web", **limits: Any) -> Any:
        return await self.until(lambda s: s.get("phase") == phase, name, what=phase, **limits)

    async def ready(self, name: str = "web", **limits: Any) -> Any:
        def holds(status: Any) -> bool:
            return any(
                c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", [])
            )

        return await self.until(holds, name, what="ready", **limits)

    async def restarted(self, count: int, name: str = "web", **limits: Any) -> Any:
        """Wait until the first main container has been restarted so often."""

        def holds(status: Any) -> bool:
            return any(c["restartCount"] == count for c in status.get("containerStatuses", [])[:1])

        return await self.until(holds, name, what=f"restart {count}", **limits)

    async def waiting(self, reason: str, name: str = "web", **limits: Any) -> Any:
        """Wait until a container waits for that reason."""

        def holds(status: Any) -> bool:
            every = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
            return any(c["state"].get("waiting", {}).get("reason") == reason for c in every)

        return await self.until(holds, name, what=reason, **limits)

    async def gone(self, name: str = "web", **limits: Any) -> None:
        async def holds() -> bool:
            return not await self.has(POD, name)

        await eventually(holds, what="the pod's end", **limits)

    async def events(self, name: str = "web") -> list[tuple[str, str]]:
        found = await self.client.list(EVENT, "default")
        return [
            (e["reason"], e["message"]) for e in found.items if e["involvedObject"]["name"] == name
        ]

    async def logs(
        self, name: str = "web", container: str = "web", **query: Any
    ) -> tuple[int, str]:
        """What the agent's own endpoint gives."""
        request = Request(
            "GET",
            f"/containerLogs/default/{name}/{container}",
            [(key, str(value)) for key, value in query.items()],
            peer=ADMIN,
        )
        response = await self.agent.handle(request)
        if isinstance(response.body, bytes):
            return response.status, response.body.decode()
        return response.status, b"".join([c async for c in response.body]).decode()


Scenario = Callable[[NodeScene], Awaitable[T]]


@pytest.fixture
def on_node(tmp_path: Path) -> Callable[[Scenario[Any]], Any]:
    """Run a scenario on a ready node in virtual time."""

    def run(scenario: Scenario[T]) -> T:
        async def main() -> T:
            store = MemoryStore()
            server = ApiServer(
                store,
                config=ServerConfig(),
                clock=VirtualClock(),
                random=Random(1),
                authenticator=InsecureAuthenticator(),
            )
            await server.start()
            scene = NodeScene(tmp_path, server)
            scene.start_agent()
            try:
                await scene.node_ready()
                return await scenario(scene)
            finally:
                await scene.stop_agent()
                await store.close()

        return run_virtual(main())

    return run
