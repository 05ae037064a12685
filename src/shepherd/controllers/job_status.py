"""What a Job's status says, and which pods it has counted for good: pure decisions.

No count is ever lost or made twice: a pod that has ended is first noted in the status by its UID,
then loses its finalizer, and only when that is gone does the note become a number. Whoever goes on
after any of these steps finds out how far it had come. Source: kubernetes pkg/controller/job,
trackJobStatusAndRemoveFinalizers; KEP-2307.
"""

from dataclasses import dataclass, field

import msgspec

from shepherd.api.meta import format_time
from shepherd.api.objects import Pod
from shepherd.api.objects.batch import JobStatus, UncountedPods
from shepherd.api.objects.meta import Condition
from shepherd.api.resource import Object
from shepherd.controllers import conditions
from shepherd.controllers.job_plan import TARGETS, Seen, Verdict, in_range
from shepherd.controllers.job_pods import has_failed, index_of
from shepherd.controllers.job_policies import reaction
from shepherd.controllers.pods import active

_UNCOUNTED_LIMIT = 500
"""Pods noted in the status at a time: 20 KB of UIDs."""


@dataclass(slots=True)
class Account:
    """The status to write, then the pods to let go, then what to tell."""

    status: JobStatus
    free: list[Pod] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Type, reason, message."""


def account(seen: Seen, end: Verdict | None, now: float) -> Account:
    """The state of things, by all that is known now."""
    job, status = seen.job, _counted(seen)
    found = Account(status)
    _note(found, seen, end)
    status.active = len(seen.active)
    status.ready = sum(pod.ready for pod in seen.active)
    status.terminating = len(seen.terminating)
    if job.spec.indexed:
        status.succeeded, status.completed_indexes = seen.done.total, str(seen.done)
    if job.spec.backoff_limit_per_index is not None:
        status.failed_indexes = str(seen.failed_indexes)
    if end:
        _conclude(found, seen, end, now)
    elif not job.metadata.deletion_timestamp:
        _suspension(found, suspend=job.spec.suspend, now=now)
    if not status.start_time and (end or not job.spec.suspend):
        status.start_time = format_time(now)
    return found


def _counted(seen: Seen) -> JobStatus:
    """The present status, in which pods that have been let go are numbers."""
    old, held = seen.job.status, {pod.metadata.uid for pod in seen.tracked}
    known = old.uncounted_terminated_pods
    left = UncountedPods(
        succeeded=[uid for uid in known.succeeded if uid in held],
        failed=[uid for uid in known.failed if uid in held],
    )
    return msgspec.structs.replace(
        old,
        succeeded=old.succeeded + len(known.succeeded) - len(left.succeeded),
        failed=old.failed + len(known.failed) - len(left.failed),
        uncounted_terminated_pods=left,
    )


def _note(found: Account, seen: Seen, end: Verdict | None) -> None:
    """Note the pods that have ended, and let go those that are noted or need not be."""
    notes, spec = found.status.uncounted_terminated_pods, seen.job.spec
    noted = {*notes.succeeded, *notes.failed}
    for pod in seen.tracked:
        if len(found.free) >= _UNCOUNTED_LIMIT:
            break
        uid = pod.metadata.uid
        if uid in noted:
            found.free.append(pod)
        elif _may_go(seen, end, pod):
            found.free.append(pod)
            if not in_range(seen.job, pod):
                continue
            if pod.status.phase == "Succeeded":
                if not spec.indexed:  # Of an index, the index itself is the note.
                    notes.succeeded.append(uid)
            elif _failure(pod, seen, end):
                notes.failed.append(uid)


def _failure(pod: Pod, seen: Seen, end: Verdict | None) -> bool:
    """It is to be counted as failed. So is what had to be stopped because the job failed, and not
    what was stopped because it was a success without."""
    spec = seen.job.spec
    stopped = has_failed(pod, spec) if end is None else end.type == "Failed"
    lost = stopped or pod.status.phase == "Failed"
    return lost and reaction(spec.pod_failure_policy, pod).counts


def _may_go(seen: Seen, end: Verdict | None, pod: Pod) -> bool:
    """It need not be kept to be counted, or to tell its replacement of its failures."""
    if pod.status.phase == "Succeeded" or seen.job.metadata.deletion_timestamp:
        return True
    if end:
        return not active(pod)
    last = seen.last_failed.get(index_of(pod) or 0)
    kept = last is not None and last.metadata.uid == pod.metadata.uid
    return has_failed(pod, seen.job.spec) and not kept


def _conclude(found: Account, seen: Seen, end: Verdict, now: float) -> None:
    """Announce the end, and once all pods are stopped and counted, declare it."""
    status, spec = found.status, seen.job.spec
    status.conditions = conditions.with_condition(
        status.conditions, TARGETS[end.type], True, end.reason, end.message, now
    )
    if seen.active or seen.terminating or seen.tracked:
        return
    status.conditions = conditions.with_condition(
        status.conditions, end.type, True, end.reason, end.message, now
    )
    if end.type == "Failed":
        found.events.append(("Warning", end.reason, end.message))
        return
    status.completion_time = format_time(now)
    if spec.completions is not None and status.succeeded > spec.completions:
        text = "Too many succeeded pods running after completion count reached"
        found.events.append(("Warning", "TooManySucceededPods", text))
    found.events.append(("Normal", "Completed", "Job completed"))


def _suspension(found: Account, *, suspend: bool, now: float) -> None:
    """A job that waits has no start; the time that it may take begins when it is resumed."""
    status = found.status
    if suspend:
        status.start_time = None
    waits = conditions.find(status.conditions, "Suspended")
    if suspend == (waits is not None and waits.status == "True"):
        return
    word = "Suspended" if suspend else "Resumed"
    message = f"Job {word.lower()}"
    status.conditions = conditions.with_condition(
        status.conditions, "Suspended", suspend, f"Job{word}", message, now
    )
    found.events.append(("Normal", word, message))


def status_json(status: JobStatus) -> Object:
    """As a merge patch writes it: what is absent is removed. Go leaves out counters of zero."""
    notes = status.uncounted_terminated_pods
    return {
        "active": status.active or None,
        "ready": status.ready,
        "terminating": status.terminating,
        "succeeded": status.succeeded or None,
        "failed": status.failed or None,
        "completedIndexes": status.completed_indexes or None,
        "failedIndexes": status.failed_indexes,
        "uncountedTerminatedPods": {
            "succeeded": notes.succeeded or None,
            "failed": notes.failed or None,
        },
        "startTime": status.start_time,
        "completionTime": status.completion_time,
        "conditions": [_condition(item) for item in status.conditions] or None,
    }


def _condition(condition: Condition) -> Object:
    return conditions.as_json(condition) | {"lastProbeTime": condition.last_transition_time}
