"""Judgements about pods that several controllers share. Source: kubernetes pkg/api/v1/pod."""

from shepherd.api.meta import parse_time
from shepherd.api.objects import Pod


def active(pod: Pod) -> bool:
    """It runs or will run: neither finished nor on its way out."""
    return not pod.finished and not pod.metadata.deletion_timestamp


def relevant(pod: Pod) -> tuple[object, ...]:
    """All of a pod's changing state that counts for the workload it belongs to."""
    meta = pod.metadata
    return meta.labels, meta.owner_references, active(pod), pod.status.phase, ready_since(pod)


def ready_since(pod: Pod) -> float | None:
    """When it became ready (epoch seconds), or None while it is not."""
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "True":
            return parse_time(condition.last_transition_time or "1970-01-01T00:00:00Z")
    return None


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
