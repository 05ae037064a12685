"""`Parts`: a whole cluster in one event loop, and what a test can do to it.

Server, scheduler, controllers and agents are the real ones. The store is in memory, the runtime
hollow unless told otherwise, and the wires between the parts may lose, double and delay what they
carry. `simulation` runs it in virtual time, `cluster` puts it on a socket.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from random import Random
from typing import Any

from shepherd.agent.agent import Agent
from shepherd.agent.node import AgentConfig
from shepherd.api.resource import Object, Resource
from shepherd.client.base import Client
from shepherd.controllers.manager import ControllerConfig, ControllerManager
from shepherd.lib.clock import Clock
from shepherd.lib.http import User
from shepherd.lib.tasks import cancel_and_wait
from shepherd.run.loops import controllers, scheduler
from shepherd.runtime.base import Dataplane, Runtime
from shepherd.runtime.hollow import HollowRuntime, NullDataplane
from shepherd.server.app import ApiServer
from shepherd.server.auth import (
    ADMIN_GROUP,
    NODE_USER_PREFIX,
    NODES_GROUP,
    CredentialAuthenticator,
    InsecureAuthenticator,
)
from shepherd.server.authorization.chain import authorizer
from shepherd.server.config import ServerConfig
from shepherd.server.pki import Pki
from shepherd.server.signing import CertificateSigner
from shepherd.server.tokens import ServiceAccountTokens
from shepherd.store.memory import MemoryStore
from shepherd.testing.clock import SkewedClock
from shepherd.testing.dialer import NodeDialer
from shepherd.testing.wire import NO_FAULTS, Acknowledged, Faults, Server, Wire, unnoticed

CAPACITY = {"cpu": "8", "memory": "16777216Ki", "ephemeral-storage": "104857600Ki", "pods": "110"}
"""What a hollow node has, whatever the machine beneath it has left."""
_ADDRESSES = ip_network("198.18.0.0/15")
"""Where hollow nodes are: in the range for benchmarks (RFC 2544), so nowhere."""

ADMIN = User("admin", (ADMIN_GROUP,))


@dataclass(frozen=True, slots=True)
class PartsConfig:
    """How the parts of a cluster are made."""

    seed: int = 1
    """Of all chance in the cluster."""
    faults: Faults = NO_FAULTS
    """What the wires of scheduler, controllers and agents do."""
    server: ServerConfig = field(default_factory=ServerConfig)
    controllers: ControllerConfig = field(default_factory=ControllerConfig)
    pki: Pki | None = None
    """Without it whoever shows no credentials is an administrator, as with `--insecure`."""
    acknowledged: Acknowledged = unnoticed
    """Told of each object whose write was answered."""


class Machine:
    """A node's containers and its way to the server, which outlive its agent."""

    def __init__(
        self,
        runtime: Runtime,
        dataplane: Dataplane,
        wire: Wire,
        clock: SkewedClock,
        config: AgentConfig,
    ) -> None:
        self.runtime = runtime
        self.dataplane = dataplane
        self.wire = wire
        self.clock = clock
        self.config = config
        self.agent: Agent | None = None


class Parts:
    """The parts of a cluster, started and ended one by one; each runs as a task of `group`."""

    def __init__(
        self, group: asyncio.TaskGroup, directory: Path, *, clock: Clock, config: PartsConfig
    ) -> None:
        self.clock = clock
        self.store = MemoryStore(clock=clock)
        self.nodes: dict[str, Machine] = {}
        self.dialer = NodeDialer(self.nodes)
        self.directory = directory
        self._tokens = ServiceAccountTokens(
            config.pki.service_account_key if config.pki else b"simulated",
            clock=clock,
            random=Random(f"{config.seed} tokens"),
        )
        self.manager: ControllerManager
        self._config = config
        self._group = group
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._server = Server(self._api().handle)
        self.client = Client(self.wire("admin", ADMIN, NO_FAULTS))

    async def stop(self) -> None:
        """End every part, in reverse order of their start, and the store."""
        for name in reversed(list(self._tasks)):
            await self._end(name)
        await self.store.close()

    # The server

    async def start_server(self) -> None:
        api = self._api()
        await api.start()
        self._server = Server(api.handle)
        self.run("server", api.run())

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
        random = self.random("scheduler")
        self.run("scheduler", scheduler(self._connect, clock=self.clock, random=random).run())

    def start_controllers(self) -> None:
        self.manager = controllers(
            self._connect,
            clock=self.clock,
            random=self.random("controllers"),
            config=self._config.controllers,
        )
        self.run("controllers", self.manager.run())

    async def restart_control_plane(self) -> None:
        """Scheduler and controllers forget everything and begin anew."""
        await self._end("scheduler")
        await self._end("controllers")
        self.start_scheduler()
        self.start_controllers()

    # Nodes

    def start_node(self, name: str) -> Agent:
        """Start a hollow node, or the agent of a machine that is there already."""
        if name not in self.nodes:
            runtime = HollowRuntime(clock=self.clock, random=self.random(f"runtime {name}"))
            address = str(_ADDRESSES[len(self.nodes) + 1])
            self.add_machine(name, runtime, NullDataplane(), node_ip=address, capacity=CAPACITY)
        machine = self.nodes[name]
        machine.agent = Agent(
            Client(machine.wire, user_agent=f"shepherd-agent/{name}"),
            machine.runtime,
            machine.dataplane,
            config=machine.config,
            clock=machine.clock,
            random=self.random(f"agent {name}"),
        )
        self.run(name, machine.agent.run())
        return machine.agent

    def add_machine(self, name: str, runtime: Runtime, dataplane: Dataplane, **config: Any) -> None:
        """A machine to start an agent on; `config` goes into its `AgentConfig`."""
        user = User(NODE_USER_PREFIX + name, (NODES_GROUP,))
        self.nodes[name] = Machine(
            runtime,
            dataplane,
            self.wire(name, user, self._config.faults),
            SkewedClock(self.clock),
            AgentConfig(name, self.directory / name, endpoint_host="127.0.0.1", **config),
        )

    async def stop_agent(self, name: str) -> None:
        """The agent ends, its containers go on."""
        self.nodes[name].agent = None
        await self._end(name)

    async def lose_node(self, name: str) -> None:
        """The machine is gone, with all that ran on it."""
        if agent := self.nodes[name].agent:
            agent.discard_pods()
        await self.stop_agent(name)
        del self.nodes[name]

    # Plumbing

    def random(self, name: str) -> Random:
        """A source of chance of one part's own, so that parts do not disturb each other's."""
        return Random(f"{self._config.seed} {name}")

    def wire(self, name: str, user: User | None, faults: Faults) -> Wire:
        """A way to the server; without a `user`, requests are from whom they prove."""
        return Wire(
            lambda: self._server,
            user,
            clock=self.clock,
            random=self.random(f"wire {name}"),
            faults=faults,
            acknowledged=self._config.acknowledged,
        )

    def run(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        """Run a part until `stop`."""
        self._tasks[name] = self._group.create_task(part, name=name)

    async def _end(self, name: str) -> None:
        await cancel_and_wait(self._tasks.pop(name))

    def _connect(self, user: User) -> Wire:
        return self.wire(user.name, user, self._config.faults)

    def _api(self) -> ApiServer:
        proven, pki = CredentialAuthenticator(self.store, accounts=self._tokens), self._config.pki
        return ApiServer(
            self.store,
            config=self._config.server,
            clock=self.clock,
            random=self.random("server"),
            authenticator=proven if pki else InsecureAuthenticator(proven),
            authorizer=authorizer(self.store),
            dialer=self.dialer,
            tokens=self._tokens,
            signer=CertificateSigner(pki) if pki else None,
            front_proxy=pki,
        )

    async def list(self, resource: Resource, namespace: str | None = None) -> list[Object]:
        return (await self.client.list(resource, namespace)).items
