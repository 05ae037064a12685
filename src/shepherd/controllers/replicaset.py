"""ReplicaSet, and ReplicationController, its elder: as many pods as it asks for.

Source: kubernetes pkg/controller/replicaset.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shepherd.api.objects import Pod, ReplicaSet, ReplicationController
from shepherd.api.objects.meta import Condition
from shepherd.api.resource import Object
from shepherd.api.selectors import selector_of
from shepherd.client.recorder import Recorder
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers import conditions
from shepherd.controllers.informers import Informers
from shepherd.controllers.ownership import Claims, candidates, claims, concerned, settle
from shepherd.controllers.pod_control import PodControl
from shepherd.controllers.pods import (
    active,
    available_in,
    created_at,
    deletion_order,
    relevant,
)
from shepherd.controllers.templates import labels_of, pod_of
from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock

_COALESCE_SECONDS = 0.02
"""Pods that come up within this are counted together. One that ends is replaced at once."""
_BURST = 500
"""Pods created or deleted in one go."""
_FAILURE_WINDOW_SECONDS = 3600.0
_CREATION_BACKOFF = Backoff(initial=1.0, cap=300.0)

Replicated = ReplicaSet | ReplicationController
R = TypeVar("R", ReplicaSet, ReplicationController)


@dataclass(slots=True)
class Scaling:
    """What to do now, and when to look again if time alone will change that."""

    create: int = 0
    delete: list[Pod] = field(default_factory=list)
    again: float | None = None


def scaling(
    replica_set: Replicated, owned: list[Pod], siblings: Iterable[Pod], now: float
) -> Scaling:
    """How to get from the pods there are to the number asked for.

    `siblings` are the pods of the same Deployment: where a node has many, it gives some up first.
    """
    if replica_set.metadata.deletion_timestamp:
        return Scaling()
    running = [pod for pod in owned if active(pod)]
    missing = replica_set.spec.replicas - len(running)
    if missing > 0:
        wait = creation_pause(replica_set.spec.replicas, owned, now)
        return Scaling(again=wait) if wait else Scaling(create=min(missing, _BURST))
    if missing < 0:
        return Scaling(delete=deletion_order(running, siblings)[: min(-missing, _BURST)])
    return Scaling()


def creation_pause(replicas: int, owned: list[Pod], now: float) -> float:
    """The seconds to wait before more pods are made, because earlier ones were rejected or failed.

    As many failures as replicas are forgiven (a node was lost, pods were evicted); each further
    round of them within an hour doubles the pause, up to five minutes.
    """
    births = [created_at(pod) for pod in owned if pod.status.phase == "Failed"]
    recent = [birth for birth in births if now - birth < _FAILURE_WINDOW_SECONDS]
    rounds = len(recent) // max(replicas, 1)
    if not rounds:
        return 0.0
    return max(0.0, max(recent) + _CREATION_BACKOFF.delay(rounds) - now)


def status_of(
    replica_set: Replicated, owned: list[Pod], failure: str, now: float
) -> tuple[Object, float | None]:
    """The status (of what this controller writes), and the seconds until time changes it."""
    running = [pod for pod in owned if active(pod)]
    labels = labels_of(replica_set.spec.template)
    waits = [available_in(pod, replica_set.spec.min_ready_seconds, now) for pod in running]
    pending = [wait for wait in waits if wait]
    found: list[Condition] = replica_set.status.conditions
    if failure:
        found = conditions.with_condition(
            found, "ReplicaFailure", True, "FailedCreate", failure, now
        )
    else:
        found = conditions.without(found, "ReplicaFailure")
    status = {
        "replicas": len(running),
        "fullyLabeledReplicas": sum(labels.items() <= p.metadata.labels.items() for p in running),
        "readyReplicas": sum(wait is not None for wait in waits),
        "availableReplicas": sum(wait == 0.0 for wait in waits),
        "observedGeneration": replica_set.metadata.generation,
        "conditions": [conditions.as_json(item) for item in found],
    }
    return status, min(pending, default=None)


def _written(replica_set: Replicated) -> Object:
    """The present status, in the form of `status_of`."""
    status = replica_set.status
    return {
        "replicas": status.replicas,
        "fullyLabeledReplicas": status.fully_labeled_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "observedGeneration": status.observed_generation,
        "conditions": [conditions.as_json(item) for item in status.conditions],
    }


class ReplicaSetController(Generic[R]):
    """Makes and removes pods; adopts orphans that match and releases what no longer does.

    One runs for each of the two kinds.
    """

    def __init__(
        self,
        informers: Informers,
        pods: Writer[Pod],
        sets: Writer[R],
        recorder: Recorder,
        *,
        clock: Clock,
    ) -> None:
        self.name = sets.resource.kind.lower()
        self._informer = informers.pods
        self._pods = pods
        self._sets: Writer[R] = sets
        self._control = PodControl(sets.resource, pods, recorder)
        self._clock = clock

    def connect(self, queue: WorkQueue) -> None:
        def set_changed(old: R | None, new: R | None) -> None:
            # Its status is our own writing: a failure noted there must not end its back-off.
            if new and (
                old is None
                or old.status == new.status
                or old.metadata.generation != new.metadata.generation
            ):
                queue.add(new.metadata.key)

        def pod_changed(old: Pod | None, new: Pod | None) -> None:
            if old and new and relevant(old) == relevant(new):
                return
            delay = _COALESCE_SECONDS if new and active(new) else 0.0
            for key in concerned(self._sets.informer, old, new):
                queue.add_after(key, delay)

        self._sets.informer.on_change(set_changed)
        self._informer.on_change(pod_changed)

    async def reconcile(self, key: str) -> float | None:
        replica_set = self._sets.informer.get(key)
        if replica_set is None:
            return None
        meta = replica_set.metadata
        owned = await settle(self._sets.resource, meta, self._claims(replica_set), self._pods)
        plan = scaling(replica_set, owned, self._siblings(replica_set), self._clock.now())
        pod = pod_of(replica_set.spec.template, self._sets.resource, meta)
        error = await self._control.create(meta, [pod] * plan.create)
        await self._control.delete(meta, plan.delete)
        if plan.create or plan.delete:
            owned = self._claims(replica_set).owned
        changes = await self._write_status(replica_set, owned, str(error or ""))
        if error:
            raise error
        return min((wait for wait in (plan.again, changes) if wait), default=None)

    def _claims(self, replica_set: R) -> Claims[Pod]:
        meta = replica_set.metadata
        selector = selector_of(replica_set.spec.selector)
        return claims(meta, selector, candidates(meta, self._informer))

    def _siblings(self, replica_set: R) -> Iterator[Pod]:
        """The pods of all sets of the same Deployment, or of this one alone."""
        owner = replica_set.metadata.controller
        sets = self._sets.informer.by_index("owner", owner.uid) if owner else []
        family = {item.metadata.uid for item in sets} | {replica_set.metadata.uid}
        for uid in family:
            yield from self._informer.by_index("owner", uid)

    async def _write_status(self, replica_set: R, owned: list[Pod], failure: str) -> float | None:
        status, changes = status_of(replica_set, owned, failure, self._clock.now())
        if status != _written(replica_set):
            await self._sets.patch(replica_set.metadata, {"status": status}, sub="status")
        return changes
