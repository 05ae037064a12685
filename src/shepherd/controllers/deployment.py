"""Deployment: rolls pods from one template to the next by sizing ReplicaSets.

Source: kubernetes pkg/controller/deployment. What is decided stands in `rollout` (sizes) and
`deployment_status` (conditions); here it is done, one step a reconcile: every step changes a
ReplicaSet, whose own change brings the next one.
"""

from typing import Any

from shepherd.api.errors import ApiError
from shepherd.api.kinds import DEPLOYMENT, REPLICA_SET
from shepherd.api.objects import Deployment, Pod, ReplicaSet
from shepherd.api.objects.meta import Condition
from shepherd.api.selectors import selector_of
from shepherd.client.recorder import Recorder, reference
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers import conditions
from shepherd.controllers import deployment_plan as plan
from shepherd.controllers import deployment_status as status
from shepherd.controllers.informers import Informers
from shepherd.controllers.ownership import (
    candidates,
    claims,
    concerned,
    controller_reference,
    settle,
)
from shepherd.controllers.pods import unschedulable
from shepherd.controllers.templates import name_hash
from shepherd.lib.clock import Clock


class DeploymentController:
    """Creates the ReplicaSet of the present template and moves the pods over to it."""

    name = "deployment"

    def __init__(
        self,
        informers: Informers,
        deployments: Writer[Deployment],
        sets: Writer[ReplicaSet],
        recorder: Recorder,
        *,
        clock: Clock,
    ) -> None:
        self.informers = informers
        self.deployments = deployments
        self.sets = sets
        self.recorder = recorder
        self.clock = clock

    def connect(self, queue: WorkQueue) -> None:
        def deployment_changed(old: Deployment | None, new: Deployment | None) -> None:
            if new:
                queue.add(new.metadata.key)

        def set_changed(old: ReplicaSet | None, new: ReplicaSet | None) -> None:
            for key in concerned(self.informers.deployments, old, new):
                queue.add(key)

        def pod_changed(old: Pod | None, new: Pod | None) -> None:
            """Recreate waits for the last old pod to go, and what fits on no node is told."""
            if new and unschedulable(new) == (unschedulable(old) if old else ""):
                return
            pod = new or old
            if pod and (owner := pod.metadata.controller):
                for item in self.informers.replica_sets.by_index("uid", owner.uid):
                    set_changed(None, item)

        self.informers.deployments.on_change(deployment_changed)
        self.informers.replica_sets.on_change(set_changed)
        self.informers.pods.on_change(pod_changed)

    async def reconcile(self, key: str) -> float | None:
        deployment = self.informers.deployments.get(key)
        if deployment is None:
            return None
        selector = selector_of(deployment.spec.selector)
        if selector.empty:
            text = "This deployment is selecting all pods. A non-empty selector is required."
            self.event(deployment, "Warning", "SelectingAll", text)
            return None
        meta = deployment.metadata
        found = claims(meta, selector, candidates(meta, self.informers.replica_sets))
        sets = await settle(DEPLOYMENT, meta, found, self.sets)
        run = _Rollout(self, deployment, sets)
        return await run.step()

    def event(self, deployment: Deployment, type: str, reason: str, message: str) -> None:
        self.recorder.event(reference(DEPLOYMENT, deployment.metadata), type, reason, message)


class _Rollout:
    """One reconcile of one Deployment: what was read, and what has been changed since."""

    def __init__(
        self, controller: DeploymentController, deployment: Deployment, sets: list[ReplicaSet]
    ) -> None:
        self.controller = controller
        self.deployment = deployment
        self.sets = sets
        self.now = controller.clock.now()
        self.conditions: list[Condition] = status.paused(deployment, self.now)
        self.collisions = deployment.status.collision_count

    @property
    def new(self) -> ReplicaSet | None:
        return plan.new_set(self.deployment, self.sets)

    @property
    def old(self) -> list[ReplicaSet]:
        new = self.new
        return [item for item in self.sets if item is not new]

    async def step(self) -> float | None:
        deployment = self.deployment
        if deployment.metadata.deletion_timestamp:
            return await self.write_status()
        if deployment.spec.paused or plan.scaled(deployment, self.sets):
            await self.update_new(create=False)
            await self.resize(plan.proportional_sizes(deployment, self.new, self.sets))
            if deployment.spec.paused:
                await self.clean_up()
            return await self.write_status()
        if deployment.spec.strategy.type == "Recreate":
            await self.recreate()
        else:
            await self.roll()
        present = status.counts(self.sets, self.new)
        if status.complete(deployment, present):
            await self.clean_up()
        name = self.new.metadata.name if self.new else ""
        self.conditions = status.progress(deployment, self.conditions, present, name, self.now)
        return await self.write_status()

    async def roll(self) -> None:
        await self.update_new(create=True)
        new = self.new
        if new is None:
            return
        wanted = plan.new_size(self.deployment, new, self.sets)
        if wanted != new.spec.replicas:
            await self.resize({new.metadata.name: wanted})
            return
        await self.resize(plan.old_sizes(self.deployment, new, self.sets))

    async def recreate(self) -> None:
        await self.update_new(create=False)
        sizes = {item.metadata.name: 0 for item in self.old if item.spec.replicas}
        if sizes:
            await self.resize(sizes)
            return
        pods = self.controller.informers.pods
        if any(
            not pod.finished
            for item in self.old
            for pod in pods.by_index("owner", item.metadata.uid)
        ):
            return
        await self.update_new(create=True)
        if (new := self.new) and new.spec.replicas != self.deployment.spec.replicas:
            await self.resize({new.metadata.name: self.deployment.spec.replicas})

    async def update_new(self, *, create: bool) -> None:
        """See to the new ReplicaSet: its existence, revision, annotations and minReadySeconds."""
        new = self.new
        annotations = plan.new_annotations(self.deployment, new, self.old)
        if new is None and create:
            new = await self._create(annotations)
        elif new is not None:
            new = await self._refresh(new, annotations)
        if new is None:
            return
        if not conditions.find(self.conditions, "Progressing"):
            text = f'Found new replica set "{new.metadata.name}"'
            self._progressing(True, status.FOUND, text)
        number = new.metadata.annotations.get(plan.REVISION)
        if self.deployment.metadata.annotations.get(plan.REVISION) != number:
            self.deployment = await self.controller.deployments.patch(
                self.deployment.metadata,
                {"metadata": {"annotations": {plan.REVISION: number}}},
            )

    async def _refresh(self, new: ReplicaSet, annotations: dict[str, str]) -> ReplicaSet:
        patch: dict[str, Any] = {}
        if not annotations.items() <= new.metadata.annotations.items():
            patch["metadata"] = {"annotations": annotations}
        if new.spec.min_ready_seconds != self.deployment.spec.min_ready_seconds:
            patch["spec"] = {"minReadySeconds": self.deployment.spec.min_ready_seconds}
        if not patch:
            return new
        return self._replace(await self.controller.sets.patch(new.metadata, patch))

    async def _create(self, annotations: dict[str, str]) -> ReplicaSet | None:
        """Create the new ReplicaSet. None if its name was taken: the next try has another hash."""
        deployment = self.deployment
        suffix = name_hash(deployment.spec.template, self.collisions or 0)
        size = plan.new_size(deployment, None, self.sets)
        body = plan.new_set_body(deployment, suffix, size, annotations)
        owner = controller_reference(DEPLOYMENT, deployment.metadata)
        body["metadata"]["ownerReferences"] = [owner]
        name = body["metadata"]["name"]
        try:
            new = await self.controller.sets.create(body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return await self._collided(name)
            text = f'Failed to create new replica set "{name}": {error}'
            self._progressing(False, status.CREATE_FAILED, text)
            await self.write_status()
            self.controller.event(deployment, "Warning", status.CREATE_FAILED, text)
            raise
        self.sets.append(new)
        if size:
            self._say_scaled(name, 0, size)
        self._progressing(True, status.CREATED, f'Created new replica set "{name}"')
        return new

    async def _collided(self, name: str) -> ReplicaSet | None:
        """The ReplicaSet of this name, if an earlier try of ours made it after all; else None, and
        the next hash is another one."""
        sets, meta = self.controller.sets, self.deployment.metadata
        live = await sets.client.get(REPLICA_SET, name, meta.namespace)
        found = sets.informer.observe(live)
        owner = found.metadata.controller
        same = plan.same_template(found.spec.template, self.deployment.spec.template)
        if owner and owner.uid == meta.uid and same:
            self.sets.append(found)
            return found
        self.collisions = (self.collisions or 0) + 1
        return None

    async def resize(self, sizes: plan.Sizes) -> None:
        """Give ReplicaSets their sizes, and note the Deployment's own in all that hold pods."""
        annotations = plan.size_annotations(self.deployment)
        for item in list(self.sets):
            before = item.spec.replicas
            size = sizes.get(item.metadata.name, before)
            noted = annotations.items() <= item.metadata.annotations.items()
            if size == before and (noted or not size):
                continue
            patch = {"metadata": {"annotations": annotations}, "spec": {"replicas": size}}
            self._replace(await self.controller.sets.patch(item.metadata, patch))
            if size != before:
                self._say_scaled(item.metadata.name, before, size)

    async def clean_up(self) -> None:
        """Remove old ReplicaSets beyond the history limit."""
        for item in plan.surplus_history(self.deployment, self.old):
            await self.controller.sets.delete(item.metadata)
            self.sets.remove(item)

    async def write_status(self) -> float | None:
        """Write the status if it changed; the seconds until the progress deadline."""
        present = status.counts(self.sets, self.new)
        found = status.availability(self.deployment, self.conditions, present, self.now)
        found = status.failures(found, self.new, self.sets)
        found = status.placement(found, present, self._new_pods(), self.now)
        body = status.as_json(self.deployment, present, found, self.collisions)
        if body != status.written(self.deployment):
            self._say_no_room(found)
            self.deployment = await self.controller.deployments.patch(
                self.deployment.metadata, {"status": body}, sub="status"
            )
        left = status.deadline_in(self.deployment, found, self.now)
        return None if left is None else left + 1.0

    def _new_pods(self) -> list[Pod]:
        pods = self.controller.informers.pods
        return pods.by_index("owner", self.new.metadata.uid) if self.new else []

    def _say_no_room(self, found: list[Condition]) -> None:
        """An event too when that condition begins: `kubectl describe` shows no messages of
        conditions."""
        now = conditions.find(found, status.SCHEDULED)
        before = conditions.find(self.deployment.status.conditions, status.SCHEDULED)
        if now and (before is None or before.reason != now.reason):
            self.controller.event(self.deployment, "Warning", now.reason, now.message)

    def _progressing(self, holds: bool, reason: str, message: str) -> None:
        if self.deployment.spec.progress_deadline_seconds != status.NO_DEADLINE:
            self.conditions = conditions.with_condition(
                self.conditions, "Progressing", holds, reason, message, self.now
            )

    def _replace(self, changed: ReplicaSet) -> ReplicaSet:
        """Go on with what the server answered."""
        self.sets = [
            changed if item.metadata.uid == changed.metadata.uid else item for item in self.sets
        ]
        return changed

    def _say_scaled(self, name: str, before: int, size: int) -> None:
        way = "up" if size > before else "down"
        text = f"Scaled {way} replica set {name} from {before} to {size}"
        self.controller.event(self.deployment, "Normal", "ScalingReplicaSet", text)
