"""Which jobs a CronJob starts, replaces and forgets: pure decisions.

Source: kubernetes pkg/controller/cronjob (cronjob_controllerv2.go, utils.go).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from itertools import islice, takewhile

import msgspec

from shepherd.api.kinds.cron import Schedule
from shepherd.api.kinds.jobs import CRON_JOB, JOB
from shepherd.api.meta import format_time, parse_time
from shepherd.api.objects.batch import CronJob, CronJobStatus, Job, JobReference
from shepherd.api.resource import Object
from shepherd.controllers.ownership import controller_reference

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
"""The annotation of the jobs that were started by the schedule, and not by hand."""
_MANY = 100
_LOOK_SECONDS = 60.0
"""The longest wait: timers do not notice when the clock is set, or that the machine slept."""


@dataclass(slots=True)
class Plan:
    """What to do now, in this order."""

    delete: list[Job] = field(default_factory=list)
    due: float | None = None
    """The time of the schedule that is dealt with now."""
    start: bool = False
    """A job is to be made for it (there may be one already)."""
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Type, reason, message."""
    again: float | None = None
    """Look again after so many seconds."""


def decide(
    cron_job: CronJob, jobs: list[Job], zone: tzinfo, now: float, *, changed_at: float = 0.0
) -> Plan:
    """`jobs` are those that it owns. `changed_at` is when its schedule was seen to change: no time
    before that counts."""
    plan = Plan(delete=_history(cron_job, jobs), events=_news(cron_job, jobs))
    spec = cron_job.spec
    if cron_job.metadata.deletion_timestamp or spec.suspend:
        return plan
    schedule = Schedule.parse(spec.schedule)
    following = schedule.after(now, zone)
    plan.again = None if following is None else min(following - now, _LOOK_SECONDS)
    since = max(_last_time(cron_job), changed_at)
    due, many = _unmet(cron_job, schedule, since, zone, now)
    if many:
        text = ("too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
                "check clock skew")  # fmt: skip
        plan.events.append(("Warning", "TooManyMissedTimes", text))
    if due is None:
        if missed := schedule.last(since, now, zone):
            when = datetime.fromtimestamp(missed, zone).strftime("%a, %d %b %Y %H:%M:%S %z")
            text = f"Missed scheduled time to start a job: {when}"
            plan.events.append(("Warning", "MissSchedule", text))
        return plan
    return _admit(plan, cron_job, jobs, due)


def _admit(plan: Plan, cron_job: CronJob, jobs: list[Job], due: float) -> Plan:
    """Start the job of that time, if others of this CronJob that run allow it."""
    running = unfinished(jobs)
    if any(job.metadata.name == job_name(cron_job, due) for job in jobs):
        plan.due = due
    elif running and cron_job.spec.concurrency_policy == "Forbid":
        text = ("Not starting job because prior execution is running and concurrency policy is "
                "Forbid")  # fmt: skip
        plan.events.append(("Normal", "JobAlreadyActive", text))
    else:
        plan.due, plan.start = due, True
        if cron_job.spec.concurrency_policy == "Replace":
            plan.delete += running
    return plan


def _unmet(
    cron_job: CronJob, schedule: Schedule, since: float, zone: tzinfo, now: float
) -> tuple[float | None, bool]:
    """The last time for which a job should have been started, and whether it is one of many."""
    limit = cron_job.spec.starting_deadline_seconds
    if limit is not None:
        since = max(since, now - limit)
    times = takewhile(lambda moment: moment <= now, schedule.times(since, zone))
    missed = list(islice(times, _MANY + 1))
    if len(missed) > _MANY:
        return schedule.last(since, now, zone), True
    return (missed[-1] if missed else None), False


def _last_time(cron_job: CronJob) -> float:
    """The time up to which the schedule is dealt with."""
    last = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
    return parse_time(last) if last else 0.0


def unfinished(jobs: Iterable[Job]) -> list[Job]:
    """Jobs of the schedule that run."""
    return [
        job
        for job in jobs
        if SCHEDULED in job.metadata.annotations
        and not job.finish
        and not job.metadata.deletion_timestamp
    ]


def _history(cron_job: CronJob, jobs: list[Job]) -> list[Job]:
    """The finished jobs that are more than are to be kept, by hand or by the schedule."""
    limits = {
        "Complete": cron_job.spec.successful_jobs_history_limit,
        "Failed": cron_job.spec.failed_jobs_history_limit,
    }
    old: list[Job] = []
    for end, limit in limits.items():
        ended = [job for job in jobs if job.finish and job.finish.type == end]
        ended.sort(key=lambda job: (job.status.start_time or "~", job.metadata.name))
        old += ended[: max(len(ended) - limit, 0)]
    return [job for job in old if not job.metadata.deletion_timestamp]


def _news(cron_job: CronJob, jobs: list[Job]) -> list[tuple[str, str, str]]:
    """What has become of the jobs that ran when the status was written."""
    known = {job.metadata.uid: job for job in jobs}
    news = []
    for reference in cron_job.status.active:
        job = known.get(reference.uid)
        if job is None:
            text = f"Active job went missing: {reference.name}"
            news.append(("Normal", "MissingJob", text))
        elif job.finish:
            text = f"Saw completed job: {reference.name}, condition: {job.finish.type}"
            news.append(("Normal", "SawCompletedJob", text))
    return news


def status_of(cron_job: CronJob, jobs: list[Job], due: float | None) -> CronJobStatus:
    """The status, once the time `due` is dealt with."""
    old = cron_job.status
    active = sorted(unfinished(jobs), key=lambda job: job.metadata.name)
    ends = [
        job.status.completion_time
        for job in jobs
        if job.finish and job.finish.type == "Complete" and job.status.completion_time
    ]
    return CronJobStatus(
        active=[_reference(job) for job in active],
        last_schedule_time=old.last_schedule_time if due is None else format_time(due),
        last_successful_time=max([*ends, old.last_successful_time or ""]) or None,
    )


def _reference(job: Job) -> JobReference:
    meta = job.metadata
    return JobReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)


def status_json(status: CronJobStatus) -> Object:
    """As a merge patch writes it."""
    kind = {"apiVersion": JOB.api_version, "kind": JOB.kind}
    return {
        "active": [kind | msgspec.to_builtins(item) for item in status.active] or None,
        "lastScheduleTime": status.last_schedule_time,
        "lastSuccessfulTime": status.last_successful_time,
    }


def job_name(cron_job: CronJob, due: float) -> str:
    """One for each time of the schedule, so that none gets two jobs."""
    return f"{cron_job.metadata.name}-{int(due) // 60}"


def new_job(cron_job: CronJob, due: float, zone: tzinfo) -> Object:
    """The job of a time."""
    template, meta = cron_job.spec.job_template, cron_job.metadata
    inherited = template.get("metadata") or {}
    stamp = datetime.fromtimestamp(due, zone).isoformat(timespec="seconds")
    return {
        "metadata": {
            "name": job_name(cron_job, due),
            "namespace": meta.namespace,
            "labels": inherited.get("labels") or {},
            "annotations": (inherited.get("annotations") or {})
            | {SCHEDULED: stamp.replace("+00:00", "Z")},
            "ownerReferences": [controller_reference(CRON_JOB, meta)],
        },
        "spec": template.get("spec") or {},
    }
