"""`ControlPlane`: API server and controllers in one process over a store in memory.

`StandInNodes` takes the place of scheduler and agents: it binds pods to nodes in turn (daemons to
their own), and reports them as running and ready, or as whatever a test has it report. All in the
loop's own time: under `run_virtual` hours pass in milliseconds. `play` runs a test's story on both.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from shepherd.api.errors import ApiError
from shepherd.api.kinds import EVENT, LEASE, NODE, POD
from shepherd.api.meta import format_micro_time, format_time
from shepherd.api.objects import Pod
from shepherd.api.resource import Object, Resource
from shepherd.client.informer import Informer
from shepherd.client.workqueue import WorkQueue
from shepherd.controllers.daemonset_pods import node_of
from shepherd.controllers.manager import ControllerConfig, ControllerManager
from shepherd.lib.backoff import Backoff
from shepherd.testing.parts import Parts, PartsConfig
from shepherd.testing.virtual import EPOCH, VirtualClock, eventually, run_virtual

_LEASE_NAMESPACE = "kube-node-lease"
_RENEW_SECONDS = 10.0


class ControlPlane:
    """A running API and its controllers."""

    def __init__(self, parts: Parts) -> None:
        self.client = parts.client
        self.clock = parts.clock
        self.store = parts.store
        self._parts = parts

    @property
    def manager(self) -> ControllerManager:
        return self._parts.manager

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: ControllerConfig | None = None,
        *,
        seed: int = 1,
        controllers: bool = True,
        epoch: float = EPOCH,
    ) -> AsyncIterator["ControlPlane"]:
        """Started, and stopped at the end; the API alone, without `controllers`. `epoch` is when
        virtual time begins."""
        settings = PartsConfig(seed=seed, controllers=config or ControllerConfig())
        with TemporaryDirectory() as directory:
            async with asyncio.TaskGroup() as group:
                parts = Parts(group, Path(directory), clock=VirtualClock(epoch), config=settings)
                await parts.start_server()
                if controllers:
                    parts.start_controllers()
                yield cls(parts)
                await parts.stop()

    async def items(self, resource: Resource, namespace: str | None = "default") -> list[Object]:
        """All objects of a kind, from the server."""
        return (await self.client.list(resource, namespace)).items

    async def find(
        self, resource: Resource, name: str, namespace: str = "default"
    ) -> Object | None:
        """One object, or None."""
        try:
            return await self.client.get(resource, name, namespace if resource.namespaced else None)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def until(
        self,
        resource: Resource,
        name: str,
        condition: Callable[[Object], bool],
        *,
        namespace: str = "default",
        within_seconds: float = 60.0,
    ) -> Object:
        """The object, once it exists and the condition holds."""
        found: Object | None = None

        async def holds() -> bool:
            nonlocal found
            found = await self.find(resource, name, namespace)
            return found is not None and condition(found)

        what = f"the condition on {resource.kind} {name}"
        await eventually(holds, within_seconds=within_seconds, what=what)
        assert found is not None
        return found

    async def gone(self, resource: Resource, name: str) -> None:
        """Wait until there is no such object in `default`."""

        async def holds() -> bool:
            return await self.find(resource, name) is None

        await eventually(holds, what=f"the end of {resource.kind} {name}")

    async def pods_are(self, count: int, *, within_seconds: float = 60.0) -> list[Object]:
        """The pods of `default`, once there are so many."""
        found: list[Object] = []

        async def holds() -> bool:
            found[:] = await self.items(POD)
            return len(found) == count

        await eventually(holds, within_seconds=within_seconds, what=f"{count} pods")
        return found

    async def events(self, reason: str) -> list[str]:
        """The messages of the Events with that reason."""
        return [event["message"] for event in await self.items(EVENT) if event["reason"] == reason]


class StandInNodes:
    """Nodes that only report. `report` makes the status of a pod that was started, by default
    running and ready; None leaves it as it is."""

    def __init__(self, plane: ControlPlane, *names: str) -> None:
        self.report: Callable[[Pod], Object | None] = self.running
        self.start_seconds = 0.5
        self.stop_seconds = 0.5
        self._client = plane.client
        self._clock = plane.clock
        self._names = names
        self._alive = set(names)
        self._order = cycle(names)
        self._pods = Informer(plane.client, POD, Pod, clock=plane.clock)
        self._queue = WorkQueue(clock=plane.clock, backoff=Backoff(0.1, 1.0), random=Random(1))
        self._pods.on_change(self._pod_changed)

    @asynccontextmanager
    async def up(self) -> AsyncIterator["StandInNodes"]:
        """Registered, heart beating, and running pods until the end."""
        for name in self._names:
            await self.register(name)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(part)
                for part in (self._pods.run(), self._renew(), *(self._work() for _ in range(8)))
            ]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()

    async def register(self, name: str) -> None:
        node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}
        await self._client.create(NODE, node)
        await self.heartbeat(name)
        await self._client.patch(NODE, name, None, ready_status(), type="strategic", sub="status")

    async def heartbeat(self, name: str) -> None:
        spec = {"holderIdentity": name, "renewTime": format_micro_time(self._clock.now())}
        try:
            await self._client.patch(LEASE, name, _LEASE_NAMESPACE, {"spec": spec})
        except ApiError as error:
            if error.code != 404:
                raise
            lease = {"metadata": {"name": name, "namespace": _LEASE_NAMESPACE}, "spec": spec}
            head = {"kind": "Lease", "apiVersion": LEASE.api_version}
            await self._client.create(LEASE, head | lease)

    def kill(self, name: str) -> None:
        """Silence, from now on: no heartbeats, and no pod starts or stops."""
        self._alive.discard(name)

    async def revive(self, name: str) -> None:
        """Hear from it again; it sees to what it missed."""
        if name not in self._alive:
            self._alive.add(name)
            await self.heartbeat(name)
            await self._client.patch(
                NODE, name, None, ready_status(), type="strategic", sub="status"
            )
        for pod in self._pods.all():
            if pod.spec.node_name == name and not pod.ready:
                self._queue.add_after(pod.metadata.key, self.start_seconds)
            elif pod.metadata.deletion_timestamp:
                self._queue.add_after(pod.metadata.key, self.stop_seconds)

    def running(self, pod: Pod) -> Object:
        """Running and ready, with an address of its own."""
        number = int(pod.metadata.resource_version)
        now = format_time(self._clock.now())
        kinds = ("Ready", "ContainersReady", "Initialized", "PodScheduled")
        return {
            "phase": "Running",
            "podIP": f"10.42.{number // 250 % 250}.{number % 250 + 1}",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds
            ],
        }

    async def _renew(self) -> None:
        while True:
            for name in sorted(self._alive):
                await self.heartbeat(name)
            await self._clock.sleep(_RENEW_SECONDS)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            return
        if not new.spec.node_name:
            self._queue.add(new.metadata.key)
        elif new.metadata.deletion_timestamp:
            self._queue.add_after(new.metadata.key, self.stop_seconds)
        elif new.status.phase == "Pending":
            self._queue.add_after(new.metadata.key, self.start_seconds)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            pod = self._pods.get(key)
            try:
                if pod is not None:
                    await self._advance(pod)
            except ApiError as error:
                if error.code not in (404, 409):
                    raise
            finally:
                self._queue.done(key)

    async def _advance(self, pod: Pod) -> None:
        meta = pod.metadata
        if not pod.spec.node_name:
            turn = (name for name in self._order if name in self._alive)
            name = node_of(pod) or next(turn)
            target = {"kind": "Node", "apiVersion": "v1", "name": name}
            body = {"kind": "Binding", "apiVersion": "v1", "target": target}
            body["metadata"] = {"name": meta.name, "namespace": meta.namespace}
            await self._client.create(POD, body, meta.namespace, sub="binding", name=meta.name)
        elif pod.spec.node_name not in self._alive:
            return
        elif meta.deletion_timestamp:
            await self._client.delete(POD, meta.name, meta.namespace, grace_seconds=0, uid=meta.uid)
        elif (status := self.report(pod)) is not None:
            await self._client.patch(
                POD,
                meta.name,
                meta.namespace,
                {"status": status},
                type="strategic",
                sub="status",
            )


Story = Callable[[ControlPlane, StandInNodes], Awaitable[None]]


def play(story: Story, *nodes: str, config: ControllerConfig | None = None) -> None:
    """Run a story in virtual time, on stand-in nodes of these names, by default n1, n2 and n3."""

    async def main() -> None:
        async with ControlPlane.open(config) as plane:
            names = nodes or ("n1", "n2", "n3")
            async with StandInNodes(plane, *names).up() as up:
                await story(plane, up)

    run_virtual(main())


def ready_status() -> Object:
    """The status of a node that is well."""
    return {
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        }
    }
