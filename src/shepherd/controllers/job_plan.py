"""What a Job is to do next: pure decisions from the Job and its pods.

Source: kubernetes pkg/controller/job/job_controller.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from shepherd.api.indexes import NONE, Indexes
from shepherd.api.meta import parse_time
from shepherd.api.objects import Pod
from shepherd.api.objects.batch import Job
from shepherd.api.resource import Object
from shepherd.controllers.conditions import find
from shepherd.controllers.job_pods import (
    failures,
    finished_at,
    has_failed,
    index_of,
    new_pod,
    replaced_when_failed,
    restarts,
    terminating,
    tracked,
)
from shepherd.controllers.job_policies import BACKOFF, pause, reaction, success
from shepherd.controllers.pods import active, deletion_order

_BURST = 500
"""Pods created or deleted in one go."""
_REMEMBERED = 20
"""Failures, of which the back-off has long been as long as it gets."""
Failures = dict[str, float]
"""When pods failed (epoch seconds), by their UIDs."""
TARGETS = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The condition that announces each end, while pods are still being stopped and counted."""


@dataclass(slots=True)
class Seen:
    """A Job and its pods, and what follows from them directly."""

    job: Job
    pods: list[Pod]
    active: list[Pod]
    terminating: list[Pod]
    tracked: list[Pod]
    """Yet to be counted or let go."""
    succeeded: int
    failed: int
    """Of all pods that ever were."""
    done: Indexes = NONE
    failed_indexes: Indexes = NONE
    failures: Failures = field(default_factory=dict)
    last_failed: dict[int, Pod] = field(default_factory=dict)
    """Where failures are limited per index: the pod, by index, that is yet to be replaced. It is
    kept until then, because its replacement is to know how often the index has failed."""


def observe(job: Job, pods: Iterable[Pod], before: Failures | None = None) -> Seen:
    """`pods` are those that the Job owns; `before` are failures seen earlier."""
    pods = sorted(pods, key=lambda pod: (index_of(pod) or 0, pod.metadata.name))
    spec, status, known = job.spec, job.status, job.status.uncounted_terminated_pods
    waiting = [pod for pod in pods if tracked(pod)]
    noted = {*known.succeeded, *known.failed}
    new = [pod for pod in waiting if pod.metadata.uid not in noted and in_range(job, pod)]
    succeeded = [pod for pod in new if pod.status.phase == "Succeeded"]
    failed = [
        pod
        for pod in new
        if has_failed(pod, spec) and reaction(spec.pod_failure_policy, pod).counts
    ]
    seen = Seen(
        job=job,
        pods=pods,
        active=[pod for pod in pods if active(pod)],
        terminating=[pod for pod in pods if terminating(pod)],
        tracked=waiting,
        succeeded=status.succeeded + len(known.succeeded) + len(succeeded),
        failed=status.failed + len(known.failed) + len(failed),
    )
    seen.failures = _remembered(job, pods, before or {})
    if spec.indexed:
        seen.done = _indexes(job, status.completed_indexes) | _of(succeeded)
        seen.succeeded = seen.done.total
    if spec.backoff_limit_per_index is not None:
        seen.failed_indexes = _indexes(job, status.failed_indexes or "")
        if announced(job) is None:
            lost = [pod for pod in waiting if in_range(job, pod) and _fails_its_index(job, pod)]
            seen.failed_indexes |= _of(lost)
        seen.last_failed = _last_failed(seen)
    return seen


def _remembered(job: Job, pods: list[Pod], before: Failures) -> Failures:
    """Failures of pods that may be gone soon. What this controller stops by itself is not among
    them: it is let go first."""
    now = {
        pod.metadata.uid: finished_at(pod)
        for pod in pods
        if has_failed(pod, job.spec) and (tracked(pod) or not pod.metadata.deletion_timestamp)
    }
    latest = sorted((before | now).items(), key=lambda item: item[1])
    return dict(latest[-_REMEMBERED:])


def in_range(job: Job, pod: Pod) -> bool:
    """It has an index that the job wants, or the job has none."""
    if not job.spec.indexed:
        return True
    index = index_of(pod)
    return index is not None and index < (job.spec.completions or 0)


def _indexes(job: Job, text: str) -> Indexes:
    """Those of the status that are still wanted; what somebody else wrote there may be none."""
    try:
        return Indexes.parse(text).below(job.spec.completions or 0)
    except ValueError:
        return NONE


def _of(pods: Iterable[Pod]) -> Indexes:
    return Indexes.of({index for pod in pods if (index := index_of(pod)) is not None})


def _fails_its_index(job: Job, pod: Pod) -> bool:
    limit = job.spec.backoff_limit_per_index
    if limit is None or not has_failed(pod, job.spec):
        return False
    found = reaction(job.spec.pod_failure_policy, pod)
    return found.action == "FailIndex" or (found.counts and failures(pod)[0] >= limit)


def _last_failed(seen: Seen) -> dict[int, Pod]:
    covered = seen.done | seen.failed_indexes | _of(seen.active)
    found: dict[int, Pod] = {}
    for pod in sorted(seen.tracked, key=lambda pod: (sum(failures(pod)), finished_at(pod))):
        index = index_of(pod)
        if has_failed(pod, seen.job.spec) and index is not None and index not in covered:
            found[index] = pod
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the job ends. It stands once it was announced."""

    type: str
    """Complete or Failed."""
    reason: str
    message: str


def announced(job: Job) -> Verdict | None:
    """The end that its status speaks of."""
    for ending, target in TARGETS.items():
        found = find(job.status.conditions, target)
        if found and found.status == "True":
            return Verdict(ending, found.reason, found.message)
    return None


def verdict(seen: Seen, now: float) -> Verdict | None:
    """The end that is due; None while the job is to go on."""
    if end := announced(seen.job):
        return end
    end = _failure(seen, now)
    if seen.job.spec.indexed:
        end = end or _failure_of_indexes(seen) or _success_by_policy(seen)
    return end or _success(seen)


def _failure(seen: Seen, now: float) -> Verdict | None:
    spec = seen.job.spec
    for pod in seen.pods:
        if spec.pod_failure_policy and has_failed(pod, spec):
            found = reaction(spec.pod_failure_policy, pod)
            if found.action == "FailJob":
                return Verdict("Failed", "PodFailurePolicy", found.message)
    if seen.failed > spec.backoff_limit or _restarted_too_often(seen):
        message = "Job has reached the specified backoff limit"
        return Verdict("Failed", "BackoffLimitExceeded", message)
    left = deadline(seen.job, now)
    if left is not None and left <= 0:
        message = "Job was active longer than specified deadline"
        return Verdict("Failed", "DeadlineExceeded", message)
    return None


def _restarted_too_often(seen: Seen) -> bool:
    """Restarts in place count as failures, while their pod runs."""
    spec = seen.job.spec
    if (spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    count = sum(restarts(pod) for pod in seen.pods if not pod.finished)
    return count >= max(spec.backoff_limit, 1)


def deadline(job: Job, now: float) -> float | None:
    """The seconds that the job may still take; None: as long as it likes."""
    limit, start = job.spec.active_deadline_seconds, job.status.start_time
    if limit is None or start is None or job.spec.suspend:
        return None
    return parse_time(start) + limit - now


def _failure_of_indexes(seen: Seen) -> Verdict | None:
    spec, lost = seen.job.spec, seen.failed_indexes.total
    if spec.max_failed_indexes is not None and lost > spec.max_failed_indexes:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Verdict("Failed", "MaxFailedIndexesExceeded", message)
    if lost and lost + seen.done.total >= (spec.completions or 0):
        return Verdict("Failed", "FailedIndexes", "Job has failed indexes")
    return None


def _success_by_policy(seen: Seen) -> Verdict | None:
    message = success(seen.job.spec.success_policy, seen.done)
    return Verdict("Complete", "SuccessPolicy", message) if message else None


def _success(seen: Seen) -> Verdict | None:
    wanted = seen.job.spec.completions
    enough = seen.succeeded > 0 if wanted is None else seen.succeeded >= wanted
    if not enough or seen.active:
        return None
    message = "Reached expected number of succeeded pods"
    return Verdict("Complete", "CompletionsReached", message)


@dataclass(slots=True)
class Scaling:
    """Which pods to make and to stop now, and when to look again."""

    create: list[Object] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    uncounted: bool = False
    """Those deleted are nobody's failure: they are let go first, and count as nothing."""
    again: float | None = None


def scaling(seen: Seen, end: Verdict | None, now: float) -> Scaling:
    """Towards the number of pods that should run, or towards the end."""
    job = seen.job
    if end:
        return Scaling(delete=seen.active[:_BURST])
    if job.metadata.deletion_timestamp:
        return Scaling()
    wanted = 0 if job.spec.suspend else _wanted(seen)
    if surplus := _surplus(seen, len(seen.active) - wanted):
        return Scaling(delete=surplus[:_BURST], uncounted=True)
    missing = wanted - len(seen.active)
    if replaced_when_failed(job.spec):
        missing -= len(seen.terminating)
    return _creation(seen, min(missing, _BURST), now) if missing > 0 else Scaling()


def _wanted(seen: Seen) -> int:
    """How many pods should run side by side."""
    spec = seen.job.spec
    if spec.completions is None:
        return len(seen.active) if seen.succeeded else spec.parallelism
    return min(spec.parallelism, max(0, spec.completions - seen.succeeded))


def _surplus(seen: Seen, count: int) -> list[Pod]:
    """The pods to give up: a second one for an index and any without a valid one, then as many
    as are too many."""
    order = deletion_order(seen.active, ())
    if not seen.job.spec.indexed:
        return order[: max(count, 0)]
    best = {index_of(pod): pod for pod in order if in_range(seen.job, pod)}
    kept = {pod.metadata.uid for pod in best.values()}
    odd = [pod for pod in order if pod.metadata.uid not in kept]
    rest = [pod for pod in order if pod.metadata.uid in kept]
    return odd + rest[: max(count - len(odd), 0)]


def _creation(seen: Seen, count: int, now: float) -> Scaling:
    job, spec = seen.job, seen.job.spec
    if spec.backoff_limit_per_index is not None:
        return _creation_per_index(seen, count, now)
    ends = [finished_at(pod) for pod in seen.pods if pod.status.phase == "Succeeded"]
    if wait := pause(ends, seen.failures.values(), now):
        return Scaling(again=wait)
    if spec.indexed:
        return Scaling(create=[new_pod(job, index) for index in _pending(seen, count)])
    return Scaling(create=[new_pod(job)] * count)


def _pending(seen: Seen, count: int) -> list[int]:
    """The first indexes that nothing runs for."""
    taken = seen.done | seen.failed_indexes | _of(seen.active)
    if replaced_when_failed(seen.job.spec):
        taken |= _of(seen.terminating)
    return list(islice(taken.missing(seen.job.spec.completions or 0), count))


def _creation_per_index(seen: Seen, count: int, now: float) -> Scaling:
    """Each index has a back-off of its own."""
    plan = Scaling()
    for index in _pending(seen, count):
        failed, ignored = 0, 0
        if last := seen.last_failed.get(index):
            failed, ignored = failures(last)
            if reaction(seen.job.spec.pod_failure_policy, last).counts:
                failed += 1
            else:
                ignored += 1
            wait = finished_at(last) + BACKOFF.delay(failed + ignored) - now
            if wait > 0:
                plan.again = min(wait, plan.again or wait)
                continue
        plan.create.append(new_pod(seen.job, index, (failed, ignored)))
    return plan
