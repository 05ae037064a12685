"""StatefulSet: pods with names, claims and an order, that are replaced one by one.

Source: kubernetes pkg/controller/statefulset. What is decided stands in `statefulset_plan` (what is
next) and `statefulset_identity` (who a pod is).

There are never two pods of one name: the API has room for one, and a new one is made only when the
old one is gone from there. That of a lost node stays, Terminating, until the node is back, is
deleted, or has the taint node.kubernetes.io/out-of-service.
"""

from shepherd.api.errors import ApiError
from shepherd.api.kinds.statefulsets import STATEFUL_SET
from shepherd.api.objects import ControllerRevision, Pod, StatefulSet
from shepherd.api.resource import Object
from shepherd.api.selectors import selector_of
from shepherd.client.informer import PartialObject
from shepherd.client.recorder import Recorder, reference
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers import statefulset_identity as identity
from shepherd.controllers.failed_pods import FailedPods
from shepherd.controllers.history import History, template_of
from shepherd.controllers.ownership import Claims, candidates, claims, follow, settle
from shepherd.controllers.pod_control import slow_start, terminating
from shepherd.controllers.pods import relevant
from shepherd.controllers.statefulset_plan import Plan, Scene, plan, status_of, written
from shepherd.lib.clock import Clock
from shepherd.lib.tasks import all_of

_REVISION_HASH = "controller.kubernetes.io/hash"
_BURST = 500
"""Pods deleted in one go."""


class StatefulSetController:
    """Makes claims, pods and revisions; adopts orphans whose names fit."""

    name = "statefulset"

    def __init__(
        self,
        sets: Writer[StatefulSet],
        pods: Writer[Pod],
        claims: Writer[PartialObject],
        revisions: Writer[ControllerRevision],
        recorder: Recorder,
        *,
        clock: Clock,
    ) -> None:
        self.sets = sets
        self.pods = pods
        self.claims = claims
        self.history = History(STATEFUL_SET, revisions, label=_REVISION_HASH)
        self.failed = FailedPods(clock)
        self.recorder = recorder
        self.clock = clock
        self._revisions = revisions.informer

    def connect(self, queue: WorkQueue) -> None:
        sets = self.sets.informer

        def set_changed(old: StatefulSet | None, new: StatefulSet | None) -> None:
            if new:
                queue.add(new.metadata.key)

        def claim_changed(old: PartialObject | None, new: PartialObject | None) -> None:
            if old and not new:  # A pod may wait for the end of its predecessor's claim.
                for item in sets.by_index("namespace", old.metadata.namespace):
                    if item.spec.volume_claim_templates:
                        queue.add(item.metadata.key)

        sets.on_change(set_changed)
        follow(queue, sets, self.pods.informer, by=relevant)
        follow(queue, sets, self._revisions)
        self.claims.informer.on_change(claim_changed)

    async def reconcile(self, key: str) -> float | None:
        stateful_set = self.sets.informer.get(key)
        if stateful_set is None or stateful_set.metadata.deletion_timestamp:
            return None  # Its pods are the garbage collector's.
        return await _Reconcile(self, stateful_set).step()


class _Reconcile:
    """One look at one StatefulSet."""

    def __init__(self, controller: StatefulSetController, stateful_set: StatefulSet) -> None:
        self.controller = controller
        self.stateful_set = stateful_set
        self.meta = stateful_set.metadata
        self.templates: dict[str, Object] = {}
        """By revision."""

    async def step(self) -> float | None:
        spec, status = self.stateful_set.spec, self.stateful_set.status
        history, selector = self.controller.history, selector_of(spec.selector)
        revisions = await history.owned(self.meta, selector)
        update, collisions = await history.keep(
            self.meta, spec.template, revisions, status.collision_count or 0
        )
        self.templates = {r.metadata.name: template_of(r) for r in [*revisions, update]}
        known = status.current_revision in self.templates
        current = status.current_revision if known else update.metadata.name
        await settle(STATEFUL_SET, self.meta, self._found(), self.controller.pods)
        scene = self._scene(current, update.metadata.name)
        error, pause = await self._carry_out(scene, plan(scene))
        scene = self._scene(current, update.metadata.name)
        changes = await self._write_status(scene, collisions)
        live = {current, update.metadata.name, *map(identity.revision_of, scene.members)}
        await history.trim(revisions, live, spec.revision_history_limit)
        if error:
            raise error
        return min((wait for wait in (pause, changes) if wait), default=None)

    def _found(self) -> Claims[Pod]:
        """Its pods: of those with its labels only such whose names fit."""
        pods = [
            pod
            for pod in candidates(self.meta, self.controller.pods.informer)
            if identity.ordinal_of(self.stateful_set, pod.metadata.name) is not None
        ]
        return claims(self.meta, selector_of(self.stateful_set.spec.selector), pods)

    def _scene(self, current: str, update: str) -> Scene:
        now = self.controller.clock.now()
        return Scene(self.stateful_set, self._found().owned, current, update, now)

    async def _carry_out(self, scene: Scene, todo: Plan) -> tuple[Exception | None, float | None]:
        """Do it; what went wrong, and the seconds until a pod that has failed may be replaced."""
        try:
            await all_of(self._keep_identity(scene, n, pod) for n, pod in scene.pods.items())
            await slow_start(todo.create, lambda ordinal: self._create(scene, ordinal))
            await all_of(self._delete(pod) for pod in todo.delete[:_BURST])
            waits = await all_of(self._replace(pod) for pod in todo.failed)
        except (ApiError, ConnectionError) as error:
            return error, None
        return None, min((wait for wait in waits if wait), default=None)

    async def _keep_identity(self, scene: Scene, ordinal: int, pod: Pod) -> None:
        """Its labels; its claims, that they exist and go with whom they are to go."""
        meta = pod.metadata
        labels = identity.identity_labels(meta.name, ordinal)
        if not meta.deletion_timestamp and not labels.items() <= meta.labels.items():
            await self.controller.pods.patch(meta, {"metadata": {"labels": labels}})
        if pod.status.phase == "Pending" and not meta.deletion_timestamp:
            await self._make_claims(ordinal)
        condemned = ordinal not in scene.ordinals
        for claim in self._claims(ordinal):
            patch = identity.retention_patch(
                self.stateful_set, pod, claim.metadata, condemned=condemned
            )
            if patch:
                await self.controller.claims.patch(claim.metadata, patch)

    def _claims(self, ordinal: int) -> list[PartialObject]:
        """The claims of the pod of that number, those that there are."""
        names = [name for _, name in identity.claim_names(self.stateful_set, ordinal)]
        cache = self.controller.claims.informer
        found = [cache.get(f"{self.meta.namespace}/{name}") for name in names]
        return [claim for claim in found if claim]

    async def _make_claims(self, ordinal: int) -> None:
        present = {claim.metadata.name for claim in self._claims(ordinal)}
        pod = identity.pod_name(self.stateful_set, ordinal)
        for body in identity.new_claims(self.stateful_set, ordinal):
            claim = body["metadata"]["name"]
            if claim in present:
                continue
            try:
                await self.controller.claims.create(body)
            except ApiError as error:
                self._failed(f"create Claim {claim} for Pod {pod}", error)
                raise
            text = f"create Claim {claim} Pod {pod} in StatefulSet {self.meta.name} success"
            self._event("Normal", "SuccessfulCreate", text)

    async def _create(self, scene: Scene, ordinal: int) -> None:
        name = identity.pod_name(self.stateful_set, ordinal)
        if any(identity.stale(claim.metadata, name) for claim in self._claims(ordinal)):
            return
        revision = scene.target(ordinal)
        body = identity.new_pod(self.stateful_set, self.templates[revision], revision, ordinal)
        try:
            await self._make_claims(ordinal)
            await self.controller.pods.create(body)
        except ApiError as error:
            if terminating(error):
                return
            if error.reason != "AlreadyExists":
                self._failed(f"create Pod {name}", error)
            raise
        text = f"create Pod {name} in StatefulSet {self.meta.name} successful"
        self._event("Normal", "SuccessfulCreate", text)

    async def _delete(self, pod: Pod) -> None:
        if await self.controller.pods.delete(pod.metadata):
            name = pod.metadata.name
            text = f"delete Pod {name} in StatefulSet {self.meta.name} successful"
            self._event("Normal", "SuccessfulDelete", text)

    async def _replace(self, pod: Pod) -> float:
        """Remove a pod that has ended, or say in how many seconds that may be."""
        place = f"{self.meta.uid}/{pod.metadata.name}"
        wait = self.controller.failed.wait(place)
        if not wait:
            await self._delete(pod)
            self.controller.failed.replaced(place)
        return wait

    async def _write_status(self, scene: Scene, collisions: int) -> float | None:
        """Write the status if it changed; the seconds until time changes it."""
        status, changes = status_of(scene, collisions)
        if status != written(self.stateful_set):
            await self.controller.sets.patch(self.meta, {"status": status}, sub="status")
        return changes

    def _failed(self, what: str, error: ApiError) -> None:
        text = f"{what} in StatefulSet {self.meta.name} failed error: {error}"
        self._event("Warning", "FailedCreate", text)

    def _event(self, type: str, reason: str, message: str) -> None:
        about = reference(STATEFUL_SET, self.meta)
        self.controller.recorder.event(about, type, reason, message)
