"""Which jobs a CronJob starts, replaces and forgets."""

from datetime import UTC
from typing import Any

import pytest

from shepherd.api.meta import format_time
from shepherd.api.objects import decode
from shepherd.api.objects.batch import CronJob, Job
from shepherd.api.resource import Object
from shepherd.controllers.cronjob_plan import Plan, decide, job_name, new_job, status_of

MIDNIGHT = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""
HOUR = 3600.0
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def cron_job(last: float | None = None, active: tuple[str, ...] = (), **spec: Any) -> CronJob:
    meta = {"name": "tick", "namespace": "default", "uid": "u",
            "creationTimestamp": format_time(MIDNIGHT)}  # fmt: skip
    status: Object = {"active": [{"name": name, "uid": name} for name in active]}
    if last is not None:
        status["lastScheduleTime"] = format_time(last)
    body = {"metadata": meta, "spec": {"schedule": "0 * * * *"} | spec, "status": status}
    return decode(body, CronJob)


def job(name: str, end: str = "", start: float = MIDNIGHT, *, by_hand: bool = False) -> Job:
    stamp = {} if by_hand else {SCHEDULED: format_time(start)}
    status: Object = {"startTime": format_time(start)}
    if end:
        status["conditions"] = [{"type": end, "status": "True"}]
    if end == "Complete":
        status["completionTime"] = format_time(start + 60)
    meta = {"name": name, "uid": name, "annotations": stamp}
    return decode({"metadata": meta, "status": status}, Job)


def plan(found: CronJob, now: float, *jobs: Job, changed_at: float = 0.0) -> Plan:
    return decide(found, list(jobs), UTC, MIDNIGHT + now, changed_at=changed_at)


def due(made: Plan) -> float | None:
    """Hours after midnight of the job that is started."""
    return (made.due - MIDNIGHT) / HOUR if made.start and made.due is not None else None


@pytest.mark.parametrize(
    ("found", "hours", "expected"),
    [
        (cron_job(), 0.5, None),
        (cron_job(), 1.0, 1),
        (cron_job(), 5.5, 5),
        (cron_job(last=MIDNIGHT + 5 * HOUR), 5.5, None),
        (cron_job(suspend=True), 5.5, None),
        (cron_job(startingDeadlineSeconds=600), 5.1, 5),
        (cron_job(startingDeadlineSeconds=600), 5.5, None),
        (cron_job(schedule="0 0 30 2 *"), 5.5, None),
    ],
)
def test_the_last_time_that_was_missed_is_made_up_for(
    found: CronJob, hours: float, expected: float | None
) -> None:
    assert due(plan(found, hours * HOUR)) == expected


@pytest.mark.parametrize(("hours", "many"), [(100.5, False), (101.5, True), (9000.5, True)])
def test_more_than_a_hundred_missed_times_are_told_of(hours: float, many: bool) -> None:
    made = plan(cron_job(), hours * HOUR)
    assert due(made) == int(hours)
    assert [event[1] for event in made.events] == (["TooManyMissedTimes"] if many else [])


def test_it_looks_again_when_the_next_is_due_and_at_least_each_minute() -> None:
    assert plan(cron_job(), 0.75 * HOUR).again == 60
    assert plan(cron_job(), HOUR - 20).again == 20
    assert plan(cron_job(suspend=True), HOUR - 20).again is None


def test_times_before_the_schedule_was_changed_do_not_count() -> None:
    assert due(plan(cron_job(), 1.5 * HOUR, changed_at=MIDNIGHT + 1.2 * HOUR)) is None
    assert due(plan(cron_job(), 2.5 * HOUR, changed_at=MIDNIGHT + 1.2 * HOUR)) == 2


@pytest.mark.parametrize(
    ("policy", "starts", "deleted"),
    [("Allow", True, []), ("Forbid", False, []), ("Replace", True, ["tick-1"])],
)
def test_a_job_that_still_runs(policy: str, starts: bool, deleted: list[str]) -> None:
    runs = [job("tick-1"), job("by-hand", by_hand=True), job("old", "Complete")]
    made = plan(cron_job(concurrencyPolicy=policy), 1.5 * HOUR, *runs)
    assert made.start == starts
    assert [item.metadata.name for item in made.delete] == deleted


def test_a_time_that_has_its_job_gets_no_second() -> None:
    found = cron_job()
    made = plan(found, 1.5 * HOUR, job(job_name(found, MIDNIGHT + HOUR)))
    assert made.due == MIDNIGHT + HOUR
    assert not made.start


def test_the_oldest_finished_jobs_go() -> None:
    ended = [job(f"c{n}", "Complete", MIDNIGHT - n) for n in range(4)]
    ended += [job(f"f{n}", "Failed", MIDNIGHT - n) for n in range(3)]
    made = plan(cron_job(), 0, *ended, job("busy"))
    assert sorted(item.metadata.name for item in made.delete) == ["c3", "f1", "f2"]
    made = plan(cron_job(successfulJobsHistoryLimit=0, failedJobsHistoryLimit=9), 0, *ended)
    assert sorted(item.metadata.name for item in made.delete) == ["c0", "c1", "c2", "c3"]


def test_it_tells_what_has_become_of_its_jobs() -> None:
    found = cron_job(active=("done", "lost", "busy"))
    events = plan(found, 0, job("done", "Failed"), job("busy")).events
    assert events == [
        ("Normal", "SawCompletedJob", "Saw completed job: done, condition: Failed"),
        ("Normal", "MissingJob", "Active job went missing: lost"),
    ]


def test_its_status_is_what_its_jobs_are() -> None:
    jobs = [job("b"), job("a"), job("x", by_hand=True), job("c", "Complete", MIDNIGHT + HOUR)]
    found = status_of(cron_job(), jobs, MIDNIGHT + 2 * HOUR)
    assert [item.name for item in found.active] == ["a", "b"]
    assert found.last_schedule_time == "2026-01-01T02:00:00Z"
    assert found.last_successful_time == "2026-01-01T01:01:00Z"
    assert status_of(cron_job(last=MIDNIGHT), [], None).last_schedule_time == format_time(MIDNIGHT)


def test_a_job_is_named_after_its_minute() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"backoffLimit": 2}}
    made = new_job(cron_job(jobTemplate=template), MIDNIGHT + HOUR, UTC)
    assert made["metadata"]["name"] == "tick-29453820"
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {SCHEDULED: "2026-01-01T01:00:00Z"}
    assert made["spec"] == {"backoffLimit": 2}
