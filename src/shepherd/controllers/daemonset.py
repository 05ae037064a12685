"""DaemonSet: a pod on each node that it is for.

Source: kubernetes pkg/controller/daemon. What is decided stands in `daemonset_pods` (which nodes)
and `daemonset_plan` (which pods come and go).

On a lost node its pod stays, unready: it tolerates what drives others away.
"""

from shepherd.api.kinds.daemonsets import DAEMON_SET
from shepherd.api.objects import ControllerRevision, DaemonSet, Node, Pod
from shepherd.api.selectors import Selector, selector_of
from shepherd.client.recorder import Recorder
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.daemonset_plan import Plan, Scene, plan, status_of, written
from shepherd.controllers.daemonset_pods import fits, new_pod, node_of, placing
from shepherd.controllers.failed_pods import FailedPods
from shepherd.controllers.history import POD_REVISION, History
from shepherd.controllers.informers import Informers
from shepherd.controllers.ownership import Claims, candidates, claims, follow, settle
from shepherd.controllers.pod_control import PodControl
from shepherd.controllers.pods import relevant
from shepherd.lib.clock import Clock

_COALESCE_SECONDS = 0.05
"""Nodes that come within this are looked at together."""
_BURST = 250
"""Pods created or deleted in one go."""


class DaemonSetController:
    """Makes pods and revisions; adopts orphans that match."""

    name = "daemonset"

    def __init__(
        self,
        informers: Informers,
        sets: Writer[DaemonSet],
        pods: Writer[Pod],
        revisions: Writer[ControllerRevision],
        recorder: Recorder,
        *,
        clock: Clock,
    ) -> None:
        self._nodes = informers.nodes
        self._sets = sets
        self._pods = pods
        self._revisions = revisions.informer
        self._history = History(DAEMON_SET, revisions, label=POD_REVISION)
        self._control = PodControl(DAEMON_SET, pods, recorder)
        self._failed = FailedPods(clock)
        self._clock = clock

    def connect(self, queue: WorkQueue) -> None:
        sets = self._sets.informer

        def set_changed(old: DaemonSet | None, new: DaemonSet | None) -> None:
            if new:
                queue.add(new.metadata.key)

        def node_changed(old: Node | None, new: Node | None) -> None:
            if not (old and new and placing(old) == placing(new)):
                for item in sets.all():
                    queue.add_after(item.metadata.key, _COALESCE_SECONDS)

        sets.on_change(set_changed)
        follow(queue, sets, self._pods.informer, by=relevant)
        follow(queue, sets, self._revisions)
        self._nodes.on_change(node_changed)

    async def reconcile(self, key: str) -> float | None:
        daemon_set = self._sets.informer.get(key)
        if daemon_set is None or daemon_set.metadata.deletion_timestamp:
            return None  # Its pods are the garbage collector's.
        meta, selector = daemon_set.metadata, selector_of(daemon_set.spec.selector)
        revisions = await self._history.owned(meta, selector)
        present, collisions = await self._history.keep(
            meta, daemon_set.spec.template, revisions, daemon_set.status.collision_count or 0
        )
        await settle(DAEMON_SET, meta, self._found(daemon_set, selector), self._pods)
        scene = self._scene(daemon_set, selector, present)
        error, pause = await self._carry_out(scene, plan(scene))
        scene = self._scene(daemon_set, selector, present)
        changes = await self._write_status(scene, collisions)
        await self._trim(scene, present, revisions)
        if error:
            raise error
        return min((wait for wait in (pause, changes) if wait), default=None)

    def _found(self, daemon_set: DaemonSet, selector: Selector) -> Claims[Pod]:
        meta = daemon_set.metadata
        return claims(meta, selector, candidates(meta, self._pods.informer))

    def _scene(
        self, daemon_set: DaemonSet, selector: Selector, present: ControllerRevision
    ) -> Scene:
        fit = fits(daemon_set.spec.template)
        nodes = {node.metadata.name: fit(node) for node in self._nodes.all()}
        pods = self._found(daemon_set, selector).owned
        return Scene(daemon_set, _hash(present), nodes, pods, self._clock.now())

    async def _carry_out(self, scene: Scene, todo: Plan) -> tuple[Exception | None, float | None]:
        """Do it, or as much as one go may; what went wrong, and when to go on."""
        daemon_set, meta = scene.daemon_set, scene.daemon_set.metadata
        due, pause = self._due(scene, todo.ended)
        await self._control.delete(meta, [*due, *todo.delete][:_BURST])
        bodies = [
            new_pod(daemon_set, scene.hash, node, scene.uids.get(node, ()))
            for node in todo.create[:_BURST]
        ]
        return await self._control.create(meta, bodies), pause

    def _due(self, scene: Scene, ended: list[Pod]) -> tuple[list[Pod], float | None]:
        """Of the pods that have ended those that may be replaced now, and the seconds until the
        next may."""
        meta = scene.daemon_set.metadata
        due, waits = [], []
        for pod in ended:
            place = f"{meta.uid}/{node_of(pod)}"
            if wait := self._failed.wait(place):
                waits.append(wait)
                continue
            due.append(pod)
            self._failed.replaced(place)
            where = f"daemon pod {pod.metadata.key} on node {pod.spec.node_name}"
            if pod.status.phase == "Failed":
                text = f"Found failed {where}, will try to kill it"
                self._control.event(meta, "Warning", "FailedDaemonPod", text)
            else:
                text = f"Found succeeded {where}, will try to delete it"
                self._control.event(meta, "Normal", "SucceededDaemonPod", text)
        return due, min(waits, default=None)

    async def _write_status(self, scene: Scene, collisions: int) -> float | None:
        """Write the status if it changed; the seconds until time changes it."""
        daemon_set = scene.daemon_set
        status, changes = status_of(scene, collisions or daemon_set.status.collision_count)
        if status != written(daemon_set):
            await self._sets.patch(daemon_set.metadata, {"status": status}, sub="status")
        return changes

    async def _trim(
        self, scene: Scene, present: ControllerRevision, revisions: list[ControllerRevision]
    ) -> None:
        hashes = {
            pod.metadata.labels.get(POD_REVISION) for pods in scene.pods.values() for pod in pods
        }
        live = {item.metadata.name for item in [present, *revisions] if _hash(item) in hashes}
        limit = scene.daemon_set.spec.revision_history_limit
        await self._history.trim(revisions, live | {present.metadata.name}, limit)


def _hash(revision: ControllerRevision) -> str:
    """By which pods name it."""
    return revision.metadata.labels.get(POD_REVISION, "")
