"""The pods of this node: one worker each, from the first news of it to its end."""

import asyncio
import logging
from functools import partial
from pathlib import Path
from random import Random

from shepherd.agent.admission import admit
from shepherd.agent.logs import rotate
from shepherd.agent.node import Node
from shepherd.agent.pod_state import BoundPod, Verdict
from shepherd.agent.pod_worker import PodWorker
from shepherd.agent.resize import Grant, as_held, grant
from shepherd.api.kinds import POD
from shepherd.client.base import Client
from shepherd.client.informer import Informer
from shepherd.lib.clock import Clock
from shepherd.runtime.base import SandboxInfo, SheepError

_log = logging.getLogger("shepherd.agent.pods")

_ORPHAN_GRACE_SECONDS = 10.0
_ROTATE_SECONDS = 10.0
"""How often the size of logs is looked at (kubelet containerLogMonitorInterval)."""


class Pods:
    """Follows the pods that are bound to the node and keeps a worker for each.

    Workers are known by the pod's UID: a pod of the same name that follows is another pod.
    """

    def __init__(self, client: Client, node_name: str, *, clock: Clock, random: Random) -> None:
        self._informer = Informer(
            client,
            POD,
            BoundPod,
            clock=clock,
            field_selector=f"spec.nodeName={node_name}",
            random=random,
        )
        self._workers: dict[str, PodWorker] = {}
        self._held: dict[str, list[SandboxInfo]] = {}
        """What the runtime held at start, by pod UID, until its worker takes it over."""
        self._group: asyncio.TaskGroup
        self._node: Node
        self._ended = asyncio.Event()
        self._adopted = asyncio.Event()
        """What the runtime holds is known."""
        self._stopping = False

    async def run(self, node: Node) -> None:
        """Adopt what runs, then follow the API; never returns. The runtime must have started."""
        self._node = node
        for sandbox in await node.runtime.sandboxes():
            self._held.setdefault(sandbox.pod_uid, []).append(sandbox)
        self._adopted.set()
        async with asyncio.TaskGroup() as self._group:
            self._informer.on_change(self._changed)
            self._group.create_task(self._informer.run())
            self._group.create_task(self._follow_runtime())
            self._group.create_task(self._remove_orphans())
            self._group.create_task(self._rotate_logs())

    def worker(self, uid: str) -> PodWorker | None:
        return self._workers.get(uid)

    def find(self, namespace: str, name: str) -> BoundPod | None:
        """A pod of this node by its name."""
        return self._informer.get(f"{namespace}/{name}")

    def all(self) -> list[BoundPod]:
        return [worker.pod for worker in self._workers.values()]

    def sources_changed(self, uid: str) -> None:
        if worker := self._workers.get(uid):
            worker.sources_changed()

    def images_changed(self) -> None:
        for worker in self._workers.values():
            worker.images_changed()

    async def stop_all(self) -> None:
        """Stop the containers of all pods gracefully, and leave the pods as they are in the API:
        they run again when the agent does. Those of which the API has not told yet are stopped
        too."""
        self._stopping = True
        await self._adopted.wait()
        for worker in self._workers.values():
            worker.pause()
        runtime = self._node.runtime
        async with asyncio.TaskGroup() as group:
            for sandbox in (one for held in self._held.values() for one in held):
                for container in sandbox.containers:
                    group.create_task(runtime.stop_container(container.id, _ORPHAN_GRACE_SECONDS))
        while self._workers:
            self._ended.clear()
            await self._ended.wait()

    def _changed(self, old: BoundPod | None, new: BoundPod | None) -> None:
        if new is None:
            assert old is not None
            if worker := self._workers.get(old.metadata.uid):
                worker.forget()
        elif worker := self._workers.get(new.metadata.uid):
            worker.update(self._grant(new, worker.pod))
            self._grant_refused()
        else:
            self._begin(new)

    def _begin(self, pod: BoundPod) -> None:
        uid = pod.metadata.uid
        adopted = self._held.pop(uid, [])
        verdict = None if adopted or pod.status.get("startTime") else self._admit(pod)
        grant = self._grant(pod, as_held(pod, adopted))
        worker = self._workers[uid] = PodWorker(grant, self._node, adopted=adopted, verdict=verdict)
        if self._stopping:
            worker.pause()
        self._group.create_task(self._serve(worker))

    def _admit(self, pod: BoundPod) -> Verdict | None:
        facts = self._node.facts
        if pod.finished or pod.metadata.deletion_timestamp or not facts.allocatable:
            return None
        active = [p for p in self.all() if not p.finished]
        return admit(pod, active, facts.allocatable, facts.labels, facts.pressures)

    def _grant(self, asked: BoundPod, held: BoundPod) -> Grant:
        """What a pod gets that has the resources of `held`."""
        uid = asked.metadata.uid
        others = (p for p in self.all() if p.metadata.uid != uid and not p.finished)
        return grant(asked, held, others, self._node.facts.allocatable)

    def _grant_refused(self) -> None:
        """Something has changed: try again to give pods what they ask for, the important first."""
        waiting = [worker for worker in self._workers.values() if worker.refused]
        for worker in sorted(waiting, key=lambda worker: -worker.asked.spec.priority):
            if (found := self._grant(worker.asked, worker.pod)).refused != worker.refused:
                worker.update(found)

    async def _serve(self, worker: PodWorker) -> None:
        await worker.run()
        del self._workers[worker.uid]
        self._grant_refused()
        self._ended.set()

    async def _follow_runtime(self) -> None:
        async for uid in self._node.runtime.changes():
            if worker := self._workers.get(uid):
                worker.wake()

    async def _rotate_logs(self) -> None:
        runtime = self._node.runtime
        while True:
            await self._node.clock.sleep(_ROTATE_SECONDS)
            for worker in list(self._workers.values()):
                for info in worker.running():
                    reopen = partial(runtime.reopen_log, info.id)
                    await rotate(Path(info.log_path), reopen)

    async def _remove_orphans(self) -> None:
        """Once the API has told of all pods, what else the runtime holds is nobody's."""
        await self._informer.synced()
        orphans = [sandbox for held in self._held.values() for sandbox in held]
        self._held.clear()
        for sandbox in orphans:
            name = f"{sandbox.pod_namespace}/{sandbox.pod_name}"
            _log.info("removing pod %s: it is no longer in the API", name)
            self._group.create_task(self._remove_orphan(sandbox))

    async def _remove_orphan(self, sandbox: SandboxInfo) -> None:
        runtime = self._node.runtime
        try:
            async with asyncio.TaskGroup() as group:
                for container in sandbox.containers:
                    group.create_task(runtime.stop_container(container.id, _ORPHAN_GRACE_SECONDS))
            await runtime.remove_sandbox(sandbox.id)
        except* SheepError as errors:
            for error in errors.exceptions:
                _log.error("cannot remove pod %s: %s", sandbox.pod_name, error)
        await self._node.volumes.tear_down(sandbox.pod_uid)
