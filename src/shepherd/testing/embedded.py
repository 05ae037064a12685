"""`Embedded`: a cluster of `Parts` on a socket of this machine, inside an `IdleLoop`."""

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from shepherd.api.errors import ApiError
from shepherd.api.kinds import NAMESPACE, NODE
from shepherd.api.meta import object_key, split_key
from shepherd.api.resource import Object
from shepherd.client.kubeconfig import Kubeconfig
from shepherd.controllers.manager import ControllerConfig
from shepherd.lib.files import write_private
from shepherd.lib.httpd import HttpServer, serve
from shepherd.lib.machine import own_address
from shepherd.run.dialer import SocketDialer
from shepherd.server.config import ServerConfig
from shepherd.server.pki import Pki
from shepherd.server.proxy import streams_body
from shepherd.store.base import ConflictError, Delete, Span
from shepherd.testing.clock import IdleLoop, MovableClock
from shepherd.testing.faults import Injector
from shepherd.testing.parts import Parts, PartsConfig
from shepherd.testing.ranges import Ranges
from shepherd.testing.settings import Settings
from shepherd.testing.wire import NO_FAULTS, Faults

HOST = "127.0.0.1"
RUNTIMES = ("hollow", "oci")
_DELETION_SECONDS = 1.0
"""How long the end of a namespace may take, before what is left in it is swept out."""

_made: dict[str, str] = {}
"""The certificates of this process, by file: clusters share them, for making them takes longer
than starting one."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """What kind of cluster a test wants."""

    nodes: int = 1
    runtime: str = "hollow"
    """`hollow` for simulated containers; `oci` for real ones, as root, with all nodes on this
    machine."""
    tls: bool = False
    """HTTPS, and clients that prove who they are. Plain HTTP is the default: every client is an
    administrator unless it shows a service account's token, and no keys need be made (a quarter
    of a second, once per process). With real containers that would make every user of this
    machine its root, so there it is HTTPS always."""
    faults: Faults = NO_FAULTS
    """By chance, from `seed`: what the network does to the cluster's own parts."""
    client_faults: Faults = NO_FAULTS
    """The same for the clients on the socket."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.runtime not in RUNTIMES:
            raise ValueError(f"runtime {self.runtime!r}: choose one of {', '.join(RUNTIMES)}")

    @property
    def real(self) -> bool:
        """Whether containers are."""
        return self.runtime == "oci"

    @property
    def secure(self) -> bool:
        return self.tls or self.real


class Embedded:
    """A cluster that runs."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        directory: Path,
        loop: IdleLoop,
        config: ClusterConfig,
        ranges: Ranges | None,
    ) -> None:
        """`ranges` are for real containers: of addresses that the machine has for them."""
        self.clock = MovableClock(loop)
        self.directory = directory
        self._pki = _open_pki(directory / "pki", self.clock) if config.secure else None
        server, controllers = ServerConfig(), ControllerConfig(ca=self._pki.ca if self._pki else "")
        if ranges:
            server = replace(server, pod_cidr=ranges.pods, service_cidr=ranges.services)
            controllers = replace(controllers, pod_cidr=ranges.pods)
        self._parts_config = PartsConfig(
            seed=config.seed,
            faults=config.faults,
            pki=self._pki,
            server=server,
            controllers=controllers,
        )
        self.parts = Parts(group, directory, clock=self.clock, config=self._parts_config)
        wire = self.parts.wire("clients", None, config.client_faults)
        self.faults = Injector(wire, loop, self.clock)
        self._config = config
        self._beyond = SocketDialer(None)
        self._httpd: HttpServer
        self.settings: Settings

    async def start(self) -> None:
        """Return once the API answers and all nodes are ready."""
        await self.parts.start_server()
        self.parts.start_scheduler()
        self.parts.start_controllers()
        tls = self._pki.serving_context() if self._pki else None
        self._httpd = await serve(self.faults.handle, HOST, ssl=tls, streamed=streams_body)
        self.settings = self._settings("default", "kubeconfig")
        await self.start_nodes([f"n{number + 1}" for number in range(self._config.nodes)])

    async def start_nodes(self, names: Sequence[str]) -> None:
        """Return once pods can run on them."""
        if self._config.real:
            for name in names:
                self._equip(name)
        for agent in [self.parts.start_node(name) for name in names]:
            await agent.ready()
        await self._schedulable(set(names))

    async def _schedulable(self, waiting: set[str]) -> None:
        """Return once the controllers have seen that the nodes are ready: before, a pod would be
        tried in vain, and tried again after the scheduler's back-off of a second."""
        async with aclosing(self.parts.client.watch(NODE, initial_events=True)) as events:
            async for event in events:
                if not event.object.get("spec", {}).get("taints"):
                    waiting.discard(event.object["metadata"].get("name", ""))
                if not waiting:
                    return

    async def cut_off(self, node: str, off: bool) -> None:
        """Whether a node lacks a way to the server."""
        cut = self.parts.nodes[node].wire.cut
        cut.set() if off else cut.clear()

    async def stop(self) -> None:
        """End everything. Real containers are stopped gracefully; hollow ones just end."""
        await self._httpd.close(grace_seconds=0.1)
        if self._config.real:
            async with asyncio.TaskGroup() as group:
                for name in self.parts.nodes:
                    group.create_task(self._stop_pods(name))
        await self.parts.stop()
        await self._beyond.close()

    async def _stop_pods(self, name: str) -> None:
        await self.cut_off(name, False)
        if not self.parts.nodes[name].agent:
            await self.start_nodes([name])
        if agent := self.parts.nodes[name].agent:
            await agent.stop_pods()

    def _equip(self, name: str) -> None:
        """Give a node of this machine what the next agent runs real containers with."""
        from shepherd.run.containers import real_containers

        server = self._parts_config.server
        runtime, dataplane = real_containers(
            self.directory / name,
            pod_cidr=server.pod_cidr,
            service_cidr=server.service_cidr,
            clock=self.clock,
        )
        if machine := self.parts.nodes.get(name):
            machine.runtime, machine.dataplane = runtime, dataplane
        else:
            self.parts.add_machine(name, runtime, dataplane, node_ip=own_address())
        self.parts.dialer.beyond = self._beyond

    # Namespaces

    async def open_namespace(self) -> Settings:
        """A namespace of a new name, and the way to it."""
        name = f"test-{secrets.token_hex(4)}"
        await self.parts.client.create(NAMESPACE, _namespace(name))
        return self._settings(name, f"kubeconfig-{name}")

    async def close_namespace(self, settings: Settings) -> None:
        """Delete it with all that is in it.

        What has not gone by itself after a while (because it waits for an operator that has ended)
        is swept out: the next test finds nothing of it.
        """
        name = settings.namespace
        settings.kubeconfig.unlink()
        try:
            await self.parts.client.delete(NAMESPACE, name)
        except ApiError as error:
            if error.code != 404:
                raise
        try:
            async with asyncio.timeout(_DELETION_SECONDS):
                await self._gone(name)
        except TimeoutError:
            await self._sweep(name)

    async def _gone(self, name: str) -> None:
        """Return once there is no such namespace."""
        client, chosen = self.parts.client, f"metadata.name={name}"
        found = await client.list(NAMESPACE, field_selector=chosen)
        if not found.items:
            return
        events = client.watch(
            NAMESPACE, field_selector=chosen, resource_version=found.resource_version
        )
        async with aclosing(events):
            async for event in events:
                if event.type == "DELETED":
                    return

    async def _sweep(self, namespace: str) -> None:
        """Delete objects whatever their finalizers say, and the namespace last."""
        page = await self.parts.store.list(Span("", chr(0x10FFFF)))
        keys = [item.key for item in page.items if split_key(item.key)[1] == namespace]
        for key in (*keys, object_key(NAMESPACE, "", namespace)):
            with suppress(ConflictError):
                await self.parts.store.commit(Delete(key))

    # Plumbing

    def _settings(self, namespace: str, file: str) -> Settings:
        address, pki = f"{HOST}:{self._httpd.port}", self._pki
        context = Kubeconfig(f"http://{address}", namespace=namespace)
        if pki:
            context = Kubeconfig(
                f"https://{address}",
                namespace=namespace,
                ca=pki.ca,
                certificate=pki.admin.certificate,
                key=pki.admin.key,
            )
        return Settings.write(self.directory / file, context)


def _open_pki(directory: Path, clock: MovableClock) -> Pki:
    """Certificates of this process, made at its first cluster that wants TLS."""
    for name, text in _made.items():
        write_private(directory / name, text)
    pki = Pki.open(directory, clock=clock)
    _made.update((file.name, file.read_text()) for file in directory.iterdir())
    return pki


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
