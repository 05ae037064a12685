"""Judgements about pods that several controllers share.

Source: kubernetes pkg/api/v1/pod and pkg/controller/controller_utils.go (ActivePodsWithRanks).
"""

from collections import Counter
from collections.abc import Iterable

from shepherd.api.meta import parse_time
from shepherd.api.objects import Pod
from shepherd.controllers import conditions

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def active(pod: Pod) -> bool:
    """It runs or will run: neither finished nor on its way out."""
    return not pod.finished and not pod.metadata.deletion_timestamp


def relevant(pod: Pod) -> tuple[object, ...]:
    """All of a pod's changing state that counts for the workload it belongs to."""
    meta = pod.metadata
    return meta.labels, meta.owner_references, active(pod), pod.status.phase, ready_since(pod)


def ready_since(pod: Pod) -> float | None:
    """When it became ready (epoch seconds), or None while it is not."""
    condition = conditions.find(pod.status.conditions, "Ready")
    if condition is None or condition.status != "True":
        return None
    return parse_time(condition.last_transition_time or "1970-01-01T00:00:00Z")


def never_ready(pod: Pod) -> bool:
    """It has not been ready once: a condition's time moves with its status, and that of Ready still
    stands where the pod began. In doubt it has been."""
    condition = conditions.find(pod.status.conditions, "Ready")
    if condition is None:
        return True
    since = condition.last_transition_time
    began = pod.status.start_time or pod.metadata.creation_timestamp
    unmoved = since is None or began is None or parse_time(since) <= parse_time(began)
    return condition.status != "True" and unmoved


def unschedulable(pod: Pod) -> str:
    """Why it fits on no node, in the scheduler's words; empty if it has one or may yet get one."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
            return condition.message if condition.status == "False" else ""
    return ""


def available_in(pod: Pod, min_ready_seconds: int, now: float) -> float | None:
    """The seconds until it has been ready for long enough: 0 when it has, None if not ready."""
    since = ready_since(pod)
    if since is None:
        return None
    return max(0.0, since + min_ready_seconds - now) if min_ready_seconds else 0.0


def created_at(pod: Pod) -> float:
    """Epoch seconds."""
    return parse_time(pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z")


def restarts(pod: Pod) -> int:
    """Of its containers in all."""
    return sum(status.restart_count for status in pod.status.container_statuses)


def deletion_order(pods: list[Pod], siblings: Iterable[Pod]) -> list[Pod]:
    """The pods, those first whose loss matters least. Where `siblings` crowd a node, it gives some
    up first."""
    crowd = Counter(pod.spec.node_name for pod in siblings if active(pod) and pod.spec.node_name)

    def weight(pod: Pod) -> tuple[object, ...]:
        since = ready_since(pod)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 1),
            since is not None,
            _deletion_cost(pod),
            -crowd[pod.spec.node_name],
            -(since or 0.0),
            -restarts(pod),
            -created_at(pod),
            pod.metadata.name,
        )

    return sorted(pods, key=weight)


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(_DELETION_COST, "0"))
    except ValueError:
        return 0
