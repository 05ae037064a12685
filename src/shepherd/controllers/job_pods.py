"""The pods of a Job: how they are marked, what has become of them, and how one is made.

A pod carries the finalizer `batch.kubernetes.io/job-tracking` until the Job has counted it, so that
none is lost that is deleted meanwhile. Source: kubernetes pkg/controller/job (indexed_job_utils.go,
backoff_utils.go).
"""

from shepherd.api.kinds.jobs import JOB
from shepherd.api.meta import parse_time
from shepherd.api.objects import Pod
from shepherd.api.objects.batch import Job, JobSpec
from shepherd.api.objects.meta import ObjectMeta
from shepherd.api.resource import Object
from shepherd.controllers.conditions import find
from shepherd.controllers.pods import created_at
from shepherd.controllers.templates import pod_of

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_NAME_LIMIT = 58
"""Of a generateName: five characters follow."""
UNTRACK: Object = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}}
"""The strategic patch that lets a pod go."""


def tracked(pod: Pod) -> bool:
    """Its Job has yet to count it."""
    return TRACKING in pod.metadata.finalizers


def index_of(pod: Pod) -> int | None:
    """Its completion index."""
    return _number(pod.metadata, INDEX)


def failures(pod: Pod) -> tuple[int, int]:
    """How often its index had failed before it, counted and ignored ones."""
    meta = pod.metadata
    return _number(meta, FAILURES) or 0, _number(meta, IGNORED_FAILURES) or 0


def _number(meta: ObjectMeta, annotation: str) -> int | None:
    text = meta.annotations.get(annotation, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 11 else None


def terminating(pod: Pod) -> bool:
    """On its way out, with containers that may run."""
    return bool(pod.metadata.deletion_timestamp) and not pod.finished


def restarts(pod: Pod) -> int:
    """Of all its containers, those that run before the main ones included."""
    status = pod.status
    every = (*status.init_container_statuses, *status.container_statuses)
    return sum(container.restart_count for container in every)


def replaced_when_failed(spec: JobSpec) -> bool:
    """A pod is replaced once it has failed, not as soon as it is terminating."""
    return spec.pod_replacement_policy == "Failed" or spec.pod_failure_policy is not None


def has_failed(pod: Pod, spec: JobSpec) -> bool:
    """One that was deleted counts too: it may never get to say that it failed."""
    return pod.status.phase == "Failed" or (
        terminating(pod) and not replaced_when_failed(spec)
    )  # fmt: skip


def finished_at(pod: Pod) -> float:
    """When it ended (epoch seconds), as near as can be told."""
    ends = [status.state.get("terminated", {}) for status in pod.status.container_statuses]
    if ends and all(end.get("finishedAt") for end in ends):
        return max(parse_time(end["finishedAt"]) for end in ends)
    ready = find(pod.status.conditions, "Ready")
    if ready and ready.status == "False" and ready.last_transition_time:
        return parse_time(ready.last_transition_time)
    meta = pod.metadata
    if meta.deletion_timestamp:
        return parse_time(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0)
    return created_at(pod)


def new_pod(job: Job, index: int | None = None, failed: tuple[int, int] | None = None) -> Object:
    """A pod of the template, for an index of an indexed job. `failed` says how often the index has
    failed, counted and ignored, where that is limited."""
    pod = pod_of(job.spec.template, JOB, job.metadata)
    meta, spec = pod["metadata"], pod["spec"]
    meta["finalizers"] = list(dict.fromkeys([*meta.get("finalizers", ()), TRACKING]))
    told: dict[str, str] = {}
    if not job.spec.backoff_limit and spec.get("restartPolicy") == "OnFailure":
        # Without a retry, the first restart in place would be one attempt too many.
        spec["restartPolicy"] = "Never"
    if index is not None:
        told[INDEX] = str(index)
        meta["labels"] = meta.get("labels", {}) | told
        suffix = f"-{index}-"
        meta["generateName"] = job.metadata.name[: _NAME_LIMIT - len(suffix)] + suffix
        spec["hostname"] = f"{job.metadata.name}-{index}"
        for kind in ("initContainers", "containers"):
            if spec.get(kind):
                spec[kind] = [_told_its_index(container) for container in spec[kind]]
    if failed is not None:
        told[FAILURES] = str(failed[0])
        if failed[1]:
            told[IGNORED_FAILURES] = str(failed[1])
    meta["annotations"] = meta.get("annotations", {}) | told
    return pod


def _told_its_index(container: Object) -> Object:
    env = container.get("env") or []
    if any(variable.get("name") == _INDEX_VARIABLE for variable in env):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return container | {"env": [*env, {"name": _INDEX_VARIABLE, "valueFrom": source}]}
