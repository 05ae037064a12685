"""The status of a Deployment: counters, and the conditions that tell how its rollout goes.

Source: kubernetes pkg/controller/deployment (progress.go, sync.go, util/deployment_util.go).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from shepherd.api.meta import format_time, parse_time
from shepherd.api.objects import Deployment, Pod, ReplicaSet
from shepherd.api.objects.meta import Condition
from shepherd.api.resource import Object
from shepherd.controllers import conditions
from shepherd.controllers.deployment_plan import bounds
from shepherd.controllers.pods import unschedulable

NO_DEADLINE = 2**31 - 1
"""spec.progressDeadlineSeconds of this value means that there is none."""

CREATED = "NewReplicaSetCreated"
FOUND = "FoundNewReplicaSet"
UPDATED = "ReplicaSetUpdated"
AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
CREATE_FAILED = "ReplicaSetCreateError"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"
SCHEDULED = "PodsScheduled"
"""A condition that upstream has not: False while new pods fit on no node."""
UNSCHEDULABLE = "Unschedulable"
NO_ROOM = "NoRoomForSurge"


@dataclass(frozen=True, slots=True)
class Counts:
    """The counters of the status."""

    replicas: int
    updated: int
    ready: int
    available: int
    unavailable: int


def counts(sets: list[ReplicaSet], new: ReplicaSet | None) -> Counts:
    """Summed over all ReplicaSets of a Deployment."""
    available = sum(s.status.available_replicas for s in sets)
    return Counts(
        sum(s.status.replicas for s in sets),
        new.status.replicas if new else 0,
        sum(s.status.ready_replicas for s in sets),
        available,
        max(sum(s.spec.replicas for s in sets) - available, 0),
    )


def complete(deployment: Deployment, now: Counts) -> bool:
    """Every pod is of the new template and available, and no other pod is left."""
    wanted = deployment.spec.replicas
    return now.updated == now.replicas == now.available == wanted


def _progressing(deployment: Deployment, now: Counts) -> bool:
    """Something moved since the status was last written."""
    old = deployment.status
    return (
        now.updated > old.updated_replicas
        or now.replicas - now.updated < old.replicas - old.updated_replicas
        or now.ready > old.ready_replicas
        or now.available > old.available_replicas
    )


def deadline_in(deployment: Deployment, found: list[Condition], now: float) -> float | None:
    """The seconds until the rollout counts as stuck; None if nothing is to be waited for."""
    condition = conditions.find(found, "Progressing")
    if (
        condition is None
        or deployment.spec.paused
        or deployment.spec.progress_deadline_seconds == NO_DEADLINE
        or condition.reason in (AVAILABLE, TIMED_OUT)
    ):
        return None
    since = condition.last_update_time or condition.last_transition_time
    if since is None:
        return None
    return max(0.0, parse_time(since) + deployment.spec.progress_deadline_seconds - now)


def progress(
    deployment: Deployment, found: list[Condition], present: Counts, new_name: str, now: float
) -> list[Condition]:
    """The conditions with Progressing as it is now. Each sign of progress starts the deadline
    anew."""
    if deployment.spec.progress_deadline_seconds == NO_DEADLINE:
        return conditions.without(found, "Progressing")
    old = conditions.find(found, "Progressing")
    settled = present.replicas == present.updated and old is not None and old.reason == AVAILABLE
    if settled:
        return found
    name = f'ReplicaSet "{new_name}"' if new_name else f'Deployment "{deployment.metadata.name}"'
    if complete(deployment, present):
        text = f"{name} has successfully progressed."
        return conditions.with_condition(found, "Progressing", True, AVAILABLE, text, now)
    if _progressing(deployment, present):
        text = f"{name} is progressing."
        moved = conditions.with_condition(
            conditions.without(found, "Progressing"), "Progressing", True, UPDATED, text, now
        )
        if old and old.status == "True":
            moved[-1].last_transition_time = old.last_transition_time
        return moved
    if deadline_in(deployment, found, now) == 0.0:
        text = f"{name} has timed out progressing."
        return conditions.with_condition(found, "Progressing", False, TIMED_OUT, text, now)
    return found


def paused(deployment: Deployment, now: float) -> list[Condition]:
    """The conditions with the pause, or its end, noted: the deadline does not run meanwhile."""
    found = deployment.status.conditions
    old = conditions.find(found, "Progressing")
    if deployment.spec.progress_deadline_seconds == NO_DEADLINE:
        return found
    if old is not None and old.reason == TIMED_OUT:
        return found
    noted = old is not None and old.reason == PAUSED
    if deployment.spec.paused and not noted:
        return conditions.with_condition(
            found, "Progressing", None, PAUSED, "Deployment is paused", now
        )
    if not deployment.spec.paused and noted:
        return conditions.with_condition(
            found, "Progressing", None, RESUMED, "Deployment is resumed", now
        )
    return found


def availability(
    deployment: Deployment, found: list[Condition], present: Counts, now: float
) -> list[Condition]:
    """The conditions with Available as it is now."""
    _, unavailable = bounds(deployment)
    if present.available >= deployment.spec.replicas - unavailable:
        text = "Deployment has minimum availability."
        return conditions.with_condition(
            found, "Available", True, "MinimumReplicasAvailable", text, now
        )
    text = "Deployment does not have minimum availability."
    return conditions.with_condition(
        found, "Available", False, "MinimumReplicasUnavailable", text, now
    )


def failures(
    found: list[Condition], new: ReplicaSet | None, sets: list[ReplicaSet]
) -> list[Condition]:
    """The conditions with what keeps a ReplicaSet from making pods, the new one's cause first."""
    for item in [*([new] if new else []), *sets]:
        if cause := conditions.find(item.status.conditions, "ReplicaFailure"):
            present = conditions.find(found, "ReplicaFailure")
            if present and (present.reason, present.message) == (cause.reason, cause.message):
                return found
            return [*conditions.without(found, "ReplicaFailure"), cause]
    return conditions.without(found, "ReplicaFailure")


def placement(
    found: list[Condition], present: Counts, new_pods: Iterable[Pod], now: float
) -> list[Condition]:
    """The conditions with what keeps new pods from getting a node, and, where old pods hold the
    room that they need, what to do about it."""
    pods = list(new_pods)
    causes = [cause for pod in pods if (cause := unschedulable(pod))]
    if not causes:
        return conditions.without(found, SCHEDULED)
    text = f"{len(causes)} of {len(pods)} new pods fit on no node: {causes[0]}"
    if present.replicas == present.updated:
        return conditions.with_condition(found, SCHEDULED, False, UNSCHEDULABLE, text, now)
    text += (
        f" The rollout needs room for {len(causes)} more beside the old ones, or a lower "
        "spec.strategy.rollingUpdate.maxSurge: with 0 old pods make room first."
    )
    return conditions.with_condition(found, SCHEDULED, False, NO_ROOM, text, now)


def as_json(
    deployment: Deployment, present: Counts, found: list[Condition], collisions: int | None
) -> Object:
    """The status as it is written."""
    return {
        "observedGeneration": deployment.metadata.generation,
        "replicas": present.replicas,
        "updatedReplicas": present.updated,
        "readyReplicas": present.ready,
        "availableReplicas": present.available,
        "unavailableReplicas": present.unavailable,
        "collisionCount": collisions,
        "conditions": [_condition(item) for item in found],
    }


def written(deployment: Deployment) -> Object:
    """The present status in the form of `as_json`."""
    status = deployment.status
    present = Counts(
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
        status.unavailable_replicas,
    )
    body = as_json(deployment, present, status.conditions, status.collision_count)
    return body | {"observedGeneration": status.observed_generation}


def _condition(item: Condition) -> Object:
    return {
        "type": item.type,
        "status": item.status,
        "lastUpdateTime": item.last_update_time or item.last_transition_time or format_time(0),
        "lastTransitionTime": item.last_transition_time,
        "reason": item.reason,
        "message": item.message,
    }
