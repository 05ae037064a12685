"""The decisions of a DaemonSet: which nodes get a pod, and which pods go. Pure.

Source: kubernetes pkg/controller/daemon (podsShouldBeOnNode, rollingUpdate,
updateDaemonSetStatus).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shepherd.api.objects import DaemonSet, Pod
from shepherd.api.resource import Object
from shepherd.controllers.daemonset_pods import Fit, node_of
from shepherd.controllers.history import POD_REVISION
from shepherd.controllers.pods import available_in, created_at, ready_since
from shepherd.controllers.shares import share


@dataclass(slots=True)
class Plan:
    """What to do now."""

    create: list[str] = field(default_factory=list)
    """Nodes that get a pod."""
    delete: list[Pod] = field(default_factory=list)
    ended: list[Pod] = field(default_factory=list)
    """Pods that have failed or, what a daemon should not, finished: removed too, so that new ones
    come, but not too often."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The pods of one node that are not on their way out, by revision."""

    new: Pod | None
    old: Pod | None


class Scene:
    """A DaemonSet, its nodes and its pods at one instant."""

    def __init__(
        self,
        daemon_set: DaemonSet,
        hash: str,
        nodes: Mapping[str, Fit],
        pods: list[Pod],
        now: float,
    ) -> None:
        self.daemon_set = daemon_set
        self.hash = hash
        """Of the present revision."""
        self.nodes = nodes
        self.now = now
        self.pods: dict[str, list[Pod]] = {}
        """By node, the oldest first. One that has ended and is deleted counts no more."""
        self.uids: dict[str, list[str]] = {}
        """By node, of all its pods, those that count no more too."""
        for pod in sorted(pods, key=_age):
            if not (name := node_of(pod)):
                continue
            self.uids.setdefault(name, []).append(pod.metadata.uid)
            if not (pod.finished and pod.metadata.deletion_timestamp):
                self.pods.setdefault(name, []).append(pod)

    @property
    def desired(self) -> int:
        """Nodes that are to have a pod."""
        return sum(fit.run for fit in self.nodes.values())

    @property
    def surge(self) -> int:
        """How many nodes may have an old and a new pod at a time."""
        strategy = self.daemon_set.spec.update_strategy
        if strategy.type != "RollingUpdate":
            return 0
        return share(strategy.rolling_update.max_surge, self.desired, up=True)

    @property
    def unavailable(self) -> int:
        """How many nodes may be without an available pod while others are replaced."""
        rolling = self.daemon_set.spec.update_strategy.rolling_update
        found = share(rolling.max_unavailable, self.desired, up=True)
        return found if found or self.surge else 1

    def is_new(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(POD_REVISION) == self.hash

    def wait(self, pod: Pod) -> float | None:
        """The seconds until it is available: 0 if it is, None if time alone will not do."""
        return available_in(pod, self.daemon_set.spec.min_ready_seconds, self.now)

    def available(self, pod: Pod) -> bool:
        return self.wait(pod) == 0.0

    def pairs(self) -> Iterator[tuple[str, Pair | None]]:
        """Of each node with pods the two that count; None where there are more of one kind."""
        for name in sorted(self.pods):
            living = [pod for pod in self.pods[name] if not pod.metadata.deletion_timestamp]
            new = [pod for pod in living if self.is_new(pod)]
            old = [pod for pod in living if not self.is_new(pod)]
            if len(new) > 1 or len(old) > 1:
                yield name, None
            else:
                yield name, Pair(new[0] if new else None, old[0] if old else None)


def plan(scene: Scene) -> Plan:
    """What to do now. Only where nothing is amiss are pods replaced by newer ones."""
    found = _manage(scene)
    if found.create or found.delete or scene.daemon_set.spec.update_strategy.type == "OnDelete":
        return found
    rolled = _surging(scene) if scene.surge else _rolling(scene)
    rolled.ended = [pod for pod in found.ended if pod not in rolled.delete]
    return rolled


def _manage(scene: Scene) -> Plan:
    """One pod on each node that is to have one, and none elsewhere."""
    found = Plan()
    for name in sorted({*scene.nodes, *scene.pods}):
        pods, fit = scene.pods.get(name, []), scene.nodes.get(name)
        living = [pod for pod in pods if not pod.metadata.deletion_timestamp]
        if fit is None:  # What runs there is for the pod garbage collector.
            found.delete += [pod for pod in living if not pod.spec.node_name]
        elif not fit.stay:
            found.delete += living
        else:
            found.ended += [pod for pod in living if pod.finished]
            running = [pod for pod in living if not pod.finished]
            # Beside one that is on its way out a new one comes only if surge allows two.
            present = living if scene.surge else pods
            if fit.run and not present:
                found.create.append(name)
            found.delete += _superfluous(scene, running) if scene.surge else running[1:]
    return found


def _superfluous(scene: Scene, running: list[Pod]) -> list[Pod]:
    """Where surge allows an old and a new pod: the others, and the old one once it has done its
    duty, or does it no more."""
    new = [pod for pod in running if scene.is_new(pod)]
    old = [pod for pod in running if not scene.is_new(pod)]
    found = new[1:] + old[1:]
    if new and old and (scene.available(new[0]) or ready_since(old[0]) is None):
        found.append(old[0])
    return found


def _rolling(scene: Scene) -> Plan:
    """Old pods go while no more than maxUnavailable nodes are without an available one; those that
    are not available go at once. `_manage` then makes the new ones."""
    found, missing = Plan(), 0
    candidates: list[Pod] = []
    for _, pair in scene.pairs():
        if pair is None or (pair.new is None) == (pair.old is None):
            missing += 1  # `_manage` is at work there.
        elif pair.new is not None:
            missing += not scene.available(pair.new)
        elif pair.old is not None:
            (candidates if scene.available(pair.old) else found.delete).append(pair.old)
    found.delete += candidates[: max(0, scene.unavailable - missing)]
    return found


def _surging(scene: Scene) -> Plan:
    """New pods come beside old ones, at most maxSurge at a time; an old one goes when its successor
    is available. A pod on a node that is to have none any more goes when enough others are."""
    found, surging, available = Plan(), 0, 0
    candidates: list[str] = []
    leaving: list[Pod] = []
    for name, pair in scene.pairs():
        if pair is None:
            surging += 1
            continue
        pod = pair.old or pair.new
        available += pod is not None and scene.available(pod)
        if pair.old is None:
            continue
        fit = scene.nodes.get(name)
        if pair.new is not None:
            if scene.available(pair.new):
                found.delete.append(pair.old)
            else:
                surging += 1
        elif fit is None or not fit.run:
            (leaving if scene.available(pair.old) else found.delete).append(pair.old)
        elif scene.available(pair.old):
            candidates.append(name)
        else:
            found.create.append(name)
    found.delete += leaving[: max(0, available - scene.desired)]
    found.create += candidates[: max(0, scene.surge - surging)]
    return found


def status_of(scene: Scene, collisions: int | None) -> tuple[Object, float | None]:
    """The status, and the seconds until time changes it. Of each node the oldest pod counts."""
    oldest = {name: scene.pods[name][0] for name, fit in scene.nodes.items()
              if fit.run and name in scene.pods}  # fmt: skip
    waits = [scene.wait(pod) for pod in oldest.values()]
    available = sum(wait == 0.0 for wait in waits)
    misplaced = [n for n, fit in scene.nodes.items() if n in scene.pods and not fit.run]
    status = {
        "observedGeneration": scene.daemon_set.metadata.generation,
        "desiredNumberScheduled": scene.desired,
        "currentNumberScheduled": len(oldest),
        "numberMisscheduled": len(misplaced),
        "numberReady": sum(wait is not None for wait in waits),
        "updatedNumberScheduled": sum(scene.is_new(pod) for pod in oldest.values()),
        "numberAvailable": available,
        "numberUnavailable": scene.desired - available,
        "collisionCount": collisions,
    }
    return status, min((wait for wait in waits if wait), default=None)


def written(daemon_set: DaemonSet) -> Object:
    """The present status in the form of `status_of`."""
    status = daemon_set.status
    return {
        "observedGeneration": status.observed_generation,
        "desiredNumberScheduled": status.desired_number_scheduled,
        "currentNumberScheduled": status.current_number_scheduled,
        "numberMisscheduled": status.number_misscheduled,
        "numberReady": status.number_ready,
        "updatedNumberScheduled": status.updated_number_scheduled,
        "numberAvailable": status.number_available,
        "numberUnavailable": status.number_unavailable,
        "collisionCount": status.collision_count,
    }


def _age(pod: Pod) -> tuple[object, ...]:
    """Bound ones first, then older ones."""
    return not pod.spec.node_name, created_at(pod), pod.metadata.name
