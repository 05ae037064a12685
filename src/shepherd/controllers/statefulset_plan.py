"""The decisions of a StatefulSet: which pod is made or removed next. Pure.

Source: kubernetes pkg/controller/statefulset/stateful_set_control.go. One thing is done better
(docs/adr/0017): a pod that has never been ready does not block the template that mends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from shepherd.api.objects import Pod, StatefulSet
from shepherd.api.resource import Object
from shepherd.controllers.pods import available_in, never_ready
from shepherd.controllers.shares import share
from shepherd.controllers.statefulset_identity import ordinal_of, revision_of


@dataclass(slots=True)
class Plan:
    """What to do now."""

    create: list[int] = field(default_factory=list)
    """The numbers of pods to make."""
    delete: list[Pod] = field(default_factory=list)
    failed: list[Pod] = field(default_factory=list)
    """Pods that have ended: removed too, so that new ones take their places, but not too often."""

    def add(self, more: "Plan") -> None:
        self.create += more.create
        self.delete += more.delete
        self.failed += more.failed


@dataclass(frozen=True)
class Scene:
    """A StatefulSet and its pods at one instant."""

    stateful_set: StatefulSet
    members: Sequence[Pod]
    """The pods that are its own, in any order."""
    current: str
    """The revision that pods below the partition have, or that the set is coming from."""
    update: str
    """The revision of the present template."""
    now: float

    @cached_property
    def pods(self) -> dict[int, Pod]:
        """By number."""
        found = ((ordinal_of(self.stateful_set, p.metadata.name), p) for p in self.members)
        return {ordinal: pod for ordinal, pod in found if ordinal is not None}

    @property
    def ordinals(self) -> range:
        """The numbers of the pods that there should be."""
        spec = self.stateful_set.spec
        return range(spec.ordinals.start, spec.ordinals.start + spec.replicas)

    @property
    def update_from(self) -> int:
        """The first number whose pod is to have the present template."""
        strategy = self.stateful_set.spec.update_strategy
        partition = strategy.rolling_update.partition if self.rolling else 0
        return self.ordinals.start + partition

    @property
    def rolling(self) -> bool:
        """Pods are replaced by the controller, not by whoever deletes them."""
        return self.stateful_set.spec.update_strategy.type == "RollingUpdate"

    @property
    def parallel(self) -> bool:
        return self.stateful_set.spec.pod_management_policy == "Parallel"

    def target(self, ordinal: int) -> str:
        """The revision that a pod of that number is made from now."""
        return self.update if ordinal >= self.update_from else self.current

    def condemned(self) -> list[Pod]:
        """Pods beyond the wanted numbers, highest first."""
        return [self.pods[n] for n in sorted(self.pods, reverse=True) if n not in self.ordinals]

    def wait(self, pod: Pod) -> float | None:
        """The seconds until it is available: 0 if it is, None if time alone will not do."""
        running = pod.status.phase == "Running"
        min_ready = self.stateful_set.spec.min_ready_seconds
        return available_in(pod, min_ready, self.now) if running else None

    def serves(self, pod: Pod) -> bool:
        """It is available, and stays."""
        return self.wait(pod) == 0.0 and not pod.metadata.deletion_timestamp

    def gives_way(self, ordinal: int, pod: Pod) -> bool:
        """It does not serve, and has another revision than its place is to have: nothing is lost by
        replacing it. Where order matters, one that was ready once is waited for all the same: it
        may be catching up with the others."""
        if not self.rolling or self.serves(pod) or revision_of(pod) == self.target(ordinal):
            return False
        return never_ready(pod) or (self.parallel and ordinal >= self.update_from)


def plan(scene: Scene) -> Plan:
    """What to do now."""
    return _all_at_once(scene) if scene.parallel else _in_order(scene)


def _in_order(scene: Scene) -> Plan:
    """One thing at a time: pods come lowest first, each once all before it are available; they go
    highest first; and only then are they replaced by newer ones."""
    for ordinal in scene.ordinals:
        step = _place(scene, ordinal)
        if step is not None:
            return step
    condemned = scene.condemned()
    if condemned:
        return _next_to_go(scene, condemned)
    return _update(scene)


def _all_at_once(scene: Scene) -> Plan:
    found = Plan()
    for ordinal in scene.ordinals:
        found.add(_place(scene, ordinal) or Plan())
    found.delete += [pod for pod in scene.condemned() if not pod.metadata.deletion_timestamp]
    found.add(_update(scene))
    return found


def _place(scene: Scene, ordinal: int) -> Plan | None:
    """What one place needs; an empty plan is to wait, None that all is well there."""
    pod = scene.pods.get(ordinal)
    if pod is None:
        return Plan(create=[ordinal])
    if pod.metadata.deletion_timestamp:
        return Plan()
    if pod.finished:
        return Plan(failed=[pod])
    if scene.gives_way(ordinal, pod):
        return Plan(delete=[pod])
    return None if scene.serves(pod) else Plan()


def _next_to_go(scene: Scene, condemned: list[Pod]) -> Plan:
    """The highest; but if it is in trouble, it waits for one before it that is too: they may be
    about to recover. What has ended will not."""
    highest = condemned[0]
    troubled = [pod for pod in condemned if not scene.serves(pod) and not pod.finished]
    if highest.metadata.deletion_timestamp:
        return Plan()
    if highest in troubled and highest is not troubled[-1]:
        return Plan()
    return Plan(delete=[highest])


def _update(scene: Scene) -> Plan:
    """Pods of other revisions go, highest first, while no more than maxUnavailable are missing."""
    if not scene.rolling:
        return Plan()
    serving = [n for n in scene.ordinals if n in scene.pods and scene.serves(scene.pods[n])]
    missing = len(scene.ordinals) - len(serving)
    outdated = [
        scene.pods[ordinal]
        for ordinal in reversed(serving)
        if ordinal >= scene.update_from and revision_of(scene.pods[ordinal]) != scene.update
    ]
    return Plan(delete=outdated[: max(0, max_unavailable(scene.stateful_set) - missing)])


def max_unavailable(stateful_set: StatefulSet) -> int:
    """As a number, at least 1."""
    spec = stateful_set.spec
    value = spec.update_strategy.rolling_update.max_unavailable
    return max(1, share(value, spec.replicas, up=False))


def status_of(scene: Scene, collisions: int) -> tuple[Object, float | None]:
    """The status, and the seconds until time changes it."""
    spec, pods = scene.stateful_set.spec, scene.members
    waits = [scene.wait(pod) for pod in pods]
    staying = [revision_of(pod) for pod in pods if not pod.metadata.deletion_timestamp]
    status = {
        "observedGeneration": scene.stateful_set.metadata.generation,
        "replicas": len(pods),
        "readyReplicas": sum(wait is not None for wait in waits),
        "availableReplicas": sum(wait == 0.0 for wait in waits),
        "currentReplicas": staying.count(scene.current),
        "updatedReplicas": staying.count(scene.update),
        "currentRevision": scene.current,
        "updateRevision": scene.update,
        "collisionCount": collisions,
    }
    counters = ("replicas", "readyReplicas", "updatedReplicas")
    if scene.rolling and all(status[counter] == spec.replicas for counter in counters):
        status |= {
            "currentReplicas": status["updatedReplicas"],
            "currentRevision": scene.update,
        }
    return status, min((wait for wait in waits if wait), default=None)


def written(stateful_set: StatefulSet) -> Object:
    """The present status in the form of `status_of`."""
    status = stateful_set.status
    return {
        "observedGeneration": status.observed_generation,
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "currentReplicas": status.current_replicas,
        "updatedReplicas": status.updated_replicas,
        "currentRevision": status.current_revision,
        "updateRevision": status.update_revision,
        "collisionCount": status.collision_count,
    }
