"""A whole cluster in one process and in virtual time, from one seed.

    def test_it() -> None:
        run_simulation(scenario, seed=1, nodes=5)

    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create(DEPLOYMENT, {...})
        await eventually(...)

Server, scheduler, controllers and agents are the real ones; the runtime is hollow, the store is in
memory, and the wires between them may lose, double and delay what they carry. While it runs, every
change of the store is looked at by `World`, which knows what must never happen.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from shepherd.agent.agent import Agent
from shepherd.agent.node import AgentConfig
from shepherd.api.resource import Object, Resource
from shepherd.client.base import Client
from shepherd.controllers.manager import ControllerManager
from shepherd.lib.http import User
from shepherd.lib.tasks import cancel_and_wait
from shepherd.runtime.hollow import HollowRuntime, NullDataplane
from shepherd.scheduler.scheduler import Scheduler
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.memory import MemoryStore
from shepherd.testing.virtual import VirtualClock, run_virtual
from shepherd.testing.wire import NO_FAULTS, Faults, Server, Wire
from shepherd.testing.world import World

MASTERS = "system:masters"
IMAGE = "shepherd.local/demo:1"


class Cluster:
    """The parts of a running cluster, and what a test can do to them."""

    def __init__(
        self, group: asyncio.TaskGroup, directory: Path, *, seed: int, faults: Faults = NO_FAULTS
    ) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        self.world = World(self.store)
        self.faults = faults
        self.nodes: dict[str, SimulatedNode] = {}
        self.directory = directory
        self._group = group
        self._seed = seed
        self._parts: dict[str, asyncio.Task[None]] = {}
        self._server = Server(self._api().handle)
        self.client = Client(self.wire("admin", User("admin", (MASTERS,)), NO_FAULTS))

    async def start(self, *, nodes: int, controllers: bool) -> None:
        """Start the control plane, then the nodes `n1` to `n<nodes>`."""
        self._run("world", self.world.run())
        await self.start_server()
        self.start_scheduler()
        if controllers:
            self.start_controllers()
        for number in range(1, nodes + 1):
            await self.start_node(f"n{number}")

    async def stop(self) -> None:
        for part in reversed(list(self._parts)):
            await self._end(part)
        await self.store.close()
        self.world.check_acknowledged()

    # The server

    async def start_server(self) -> None:
        api = self._api()
        await api.start()
        self._server = Server(api.handle)
        self._run("server", api.run())

    async def stop_server(self) -> None:
        """As if its process were killed: streams end, requests fail, what is stored stays."""
        self._server.stopped.set()
        await self._end("server")

    async def restart_server(self, *, down_seconds: float) -> None:
        await self.stop_server()
        await self.clock.sleep(down_seconds)
        await self.start_server()

    # Scheduler and controllers

    def start_scheduler(self) -> None:
        client = self._client("scheduler", User("system:kube-scheduler", (MASTERS,)))
        random = self.random("scheduler")
        self._run("scheduler", Scheduler(client, clock=self.clock, random=random).run())

    def start_controllers(self) -> None:
        user = User("system:kube-controller-manager", (MASTERS,))
        client, random = self._client("controllers", user), self.random("controllers")
        self._run("controllers", ControllerManager(client, clock=self.clock, random=random).run())

    async def restart_control_plane(self) -> None:
        """Scheduler and controllers forget everything and begin anew."""
        await self._end("scheduler")
        await self._end("controllers")
        self.start_scheduler()
        self.start_controllers()

    # Nodes

    async def start_node(self, name: str) -> None:
        """Start a node, or the agent of one that was stopped."""
        node = self.nodes.get(name)
        if node is None:
            runtime = HollowRuntime(clock=self.clock, random=self.random(f"runtime {name}"))
            await runtime.images.pull(IMAGE)
            wire = self.wire(name, User(f"system:node:{name}", ("system:nodes",)), self.faults)
            node = self.nodes[name] = SimulatedNode(name, runtime, wire)
        config = AgentConfig(
            name, self.directory / name, node_ip="192.0.2.1", endpoint_host="127.0.0.1"
        )
        agent = Agent(
            Client(node.wire),
            node.runtime,
            NullDataplane(),
            config=config,
            clock=self.clock,
            random=self.random(f"agent {name}"),
        )
        self._run(name, agent.run())

    async def stop_agent(self, name: str) -> None:
        """The agent ends, its containers go on."""
        await self._end(name)

    async def lose_node(self, name: str) -> None:
        """The machine is gone, with all that ran on it."""
        await self._end(name)
        del self.nodes[name]

    # Plumbing

    def random(self, name: str) -> Random:
        """A source of chance of one part's own, so that parts do not disturb each other's."""
        return Random(f"{self._seed} {name}")

    def wire(self, name: str, user: User, faults: Faults) -> Wire:
        return Wire(
            lambda: self._server,
            user,
            clock=self.clock,
            random=self.random(f"wire {name}"),
            faults=faults,
            acknowledged=self.world.acknowledged,
        )

    def _client(self, name: str, user: User) -> Client:
        return Client(self.wire(name, user, self.faults))

    def _api(self) -> ApiServer:
        return ApiServer(
            self.store,
            config=ServerConfig(),
            clock=self.clock,
            random=self.random("server"),
            authenticator=InsecureAuthenticator(),
        )

    def _run(self, name: str, part: Any) -> None:
        self._parts[name] = self._group.create_task(part, name=name)

    async def _end(self, name: str) -> None:
        await cancel_and_wait(self._parts.pop(name))

    async def list(self, resource: Resource, namespace: str | None = None) -> list[Object]:
        return (await self.client.list(resource, namespace)).items


class SimulatedNode:
    """A machine: its containers and its way to the server, which outlive its agent."""

    def __init__(self, name: str, runtime: HollowRuntime, wire: Wire) -> None:
        self.name = name
        self.runtime = runtime
        self.wire = wire


@asynccontextmanager
async def running_cluster(
    *, seed: int, nodes: int = 0, controllers: bool = True, faults: Faults = NO_FAULTS
) -> AsyncIterator[Cluster]:
    """A cluster that runs; inside a virtual loop. A part that fails ends it with its error."""
    with tempfile.TemporaryDirectory() as directory:
        async with asyncio.TaskGroup() as group:
            cluster = Cluster(group, Path(directory), seed=seed, faults=faults)
            await cluster.start(nodes=nodes, controllers=controllers)
            yield cluster
            await cluster.stop()


def run_simulation(
    scenario: Callable[[Cluster], Awaitable[None]],
    *,
    seed: int,
    nodes: int = 0,
    controllers: bool = True,
    faults: Faults = NO_FAULTS,
) -> None:
    """Run a scenario in a cluster of its own, in virtual time."""

    async def main() -> None:
        async with running_cluster(
            seed=seed, nodes=nodes, controllers=controllers, faults=faults
        ) as cluster:
            await scenario(cluster)

    run_virtual(main())
