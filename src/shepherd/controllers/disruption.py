"""Disruption: tells for each PodDisruptionBudget how many of its pods may be evicted now.

Source: kubernetes pkg/controller/disruption. The eviction subresource takes from what is allowed
here, and writes down whom; such a pod counts as gone until it is, or for two minutes at most.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from shepherd.api.errors import ApiError
from shepherd.api.kinds import DEPLOYMENT, REPLICA_SET
from shepherd.api.meta import parse_time
from shepherd.api.objects import Deployment, OwnerReference, Pod, ReplicaSet
from shepherd.api.objects.policy import PodDisruptionBudget
from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import selector_of
from shepherd.client.base import Client
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers import conditions
from shepherd.controllers.informers import Informers
from shepherd.controllers.shares import share
from shepherd.lib.clock import Clock

_EVICTION_SECONDS = 120.0
"""After this a pod that was evicted and is still there counts as present again."""
_ALLOWED = "DisruptionAllowed"

Scaled = Deployment | ReplicaSet


@dataclass(frozen=True, slots=True)
class Standing:
    """How a budget stands."""

    expected: int
    """Pods that there should be."""
    desired: int
    """Pods that must be healthy."""
    healthy: int

    @property
    def allowed(self) -> int:
        """Pods that may go now."""
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


def standing(budget: PodDisruptionBudget, present: int, scale: int, healthy: int) -> Standing:
    """By the number of pods there are, that their controllers want, and that are healthy.

    Shares round up, as upstream: of 7 pods, 50% are 4.
    """
    spec = budget.spec
    if spec.max_unavailable is not None:
        return Standing(scale, max(0, scale - share(spec.max_unavailable, scale, up=True)), healthy)
    if isinstance(spec.min_available, str):
        return Standing(scale, share(spec.min_available, scale, up=True), healthy)
    return Standing(present, spec.min_available or 0, healthy)


def still_disrupted(budget: PodDisruptionBudget, pods: Iterable[Pod], now: float) -> dict[str, str]:
    """The evicted pods whose end is still to be seen."""
    leaving = {pod.metadata.name for pod in pods if not pod.metadata.deletion_timestamp}
    return {
        name: since
        for name, since in budget.status.disrupted_pods.items()
        if name in leaving and now < parse_time(since) + _EVICTION_SECONDS
    }


class DisruptionController:
    """Keeps the status of every PodDisruptionBudget."""

    name = "disruption"

    def __init__(
        self,
        client: Client,
        informers: Informers,
        budgets: Writer[PodDisruptionBudget],
        *,
        clock: Clock,
    ) -> None:
        self._client = client
        self._informers = informers
        self._budgets = budgets
        self._clock = clock

    def connect(self, queue: WorkQueue) -> None:
        informers = self._informers

        def budget_changed(
            old: PodDisruptionBudget | None, new: PodDisruptionBudget | None
        ) -> None:
            if new:
                queue.add(new.metadata.key)

        def pod_changed(old: Pod | None, new: Pod | None) -> None:
            pod = new or old
            assert pod is not None
            for budget in informers.budgets.by_index("namespace", pod.metadata.namespace):
                labels = [p.metadata.labels for p in (old, new) if p is not None]
                if any(selector_of(budget.spec.selector).matches(each) for each in labels):
                    queue.add(budget.metadata.key)

        def owner_changed(old: Scaled | None, new: Scaled | None) -> None:
            """Budgets of shares depend on how many replicas are wanted."""
            if old and new and old.spec.replicas == new.spec.replicas:
                return
            for owner in (old, new):
                namespace = owner.metadata.namespace if owner else ""
                for budget in informers.budgets.by_index("namespace", namespace):
                    queue.add(budget.metadata.key)

        informers.budgets.on_change(budget_changed)
        informers.pods.on_change(pod_changed)
        informers.deployments.on_change(owner_changed)
        informers.replica_sets.on_change(owner_changed)

    async def reconcile(self, key: str) -> float | None:
        budget = self._informers.budgets.get(key)
        if budget is None or budget.metadata.deletion_timestamp:
            return None
        selector, now = selector_of(budget.spec.selector), self._clock.now()
        namespace = budget.metadata.namespace
        pods = [
            pod
            for pod in self._informers.pods.by_index("namespace", namespace)
            if not pod.finished and selector.matches(pod.metadata.labels)
        ]
        disrupted = still_disrupted(budget, pods, now)
        healthy = sum(
            pod.ready and not pod.metadata.deletion_timestamp and pod.metadata.name not in disrupted
            for pod in pods
        )
        found = standing(budget, len(pods), await self._scale(pods), healthy)
        status = self._status(budget, found, disrupted, now)
        if status is not None:
            # Under the version that was read: an eviction since then has taken its share.
            version = {"resourceVersion": budget.metadata.resource_version}
            body = {"metadata": version, "status": status}
            await self._budgets.patch(budget.metadata, body, sub="status")
        if not disrupted:
            return None
        return min(parse_time(since) for since in disrupted.values()) + _EVICTION_SECONDS - now

    @staticmethod
    def _status(
        budget: PodDisruptionBudget, found: Standing, disrupted: dict[str, str], now: float
    ) -> Object | None:
        """The status to write; None if it says so already."""
        before = budget.status
        sufficient = found.allowed > 0
        reason = "SufficientPods" if sufficient else "InsufficientPods"
        said = conditions.with_condition(before.conditions, _ALLOWED, sufficient, reason, "", now)
        old = (before.current_healthy, before.desired_healthy, before.expected_pods)
        new = (found.healthy, found.desired, found.expected)
        if (
            old == new
            and said is before.conditions
            and disrupted == before.disrupted_pods
            and before.disruptions_allowed == found.allowed
            and before.observed_generation == budget.metadata.generation
        ):
            return None
        dropped = dict.fromkeys(before.disrupted_pods.keys() - disrupted.keys())
        return {
            "currentHealthy": found.healthy,
            "desiredHealthy": found.desired,
            "expectedPods": found.expected,
            "disruptionsAllowed": found.allowed,
            "disruptedPods": disrupted | dropped,
            "observedGeneration": budget.metadata.generation,
            "conditions": [
                conditions.as_json(c) | {"observedGeneration": budget.metadata.generation}
                for c in said
            ],
        }

    async def _scale(self, pods: list[Pod]) -> int:
        """How many pods their controllers want in all. Pods without one count for nothing."""
        owners = {owner.uid: owner for pod in pods if (owner := pod.metadata.controller)}
        namespace = pods[0].metadata.namespace if pods else ""
        counted: dict[str, int] = {}
        for owner in owners.values():
            uid, replicas = await self._replicas(owner, namespace)
            counted[uid] = replicas
        return sum(counted.values())

    async def _replicas(self, owner: OwnerReference, namespace: str) -> tuple[str, int]:
        """UID and replicas of what scales the pods of an owner: of a ReplicaSet, its Deployment."""
        if owner.kind == REPLICA_SET.kind:
            replica_set = self._informers.replica_sets.get(f"{namespace}/{owner.name}")
            if replica_set is None or replica_set.metadata.uid != owner.uid:
                return owner.uid, 0
            above = replica_set.metadata.controller
            if above is None or above.kind != DEPLOYMENT.kind:
                return owner.uid, replica_set.spec.replicas
            deployment = self._informers.deployments.get(f"{namespace}/{above.name}")
            return above.uid, deployment.spec.replicas if deployment else 0
        resource = self._informers.kinds.get((owner.api_version, owner.kind))
        if resource is None or not resource.scale:
            return owner.uid, 0
        return owner.uid, await self._asked(resource, owner, namespace)

    async def _asked(self, resource: Resource, owner: OwnerReference, namespace: str) -> int:
        """The replicas that the server itself knows of an owner."""
        try:
            found = await self._client.get(resource, owner.name, namespace, sub="scale")
        except ApiError as error:
            if error.code == 404:
                return 0
            raise
        replicas: int = found["spec"].get("replicas", 0)
        return replicas
