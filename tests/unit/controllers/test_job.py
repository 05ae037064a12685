"""What a Job does next, and what its status says of it."""

from typing import Any

import pytest

from shepherd.api.meta import format_time
from shepherd.api.objects import Pod, decode
from shepherd.api.objects.batch import Job, JobStatus
from shepherd.api.patch import merge_patch
from shepherd.api.resource import Object
from shepherd.controllers.job_plan import Scaling, Verdict, observe, scaling, verdict
from shepherd.controllers.job_policies import reaction
from shepherd.controllers.job_status import account, status_json
from shepherd.controllers.ttl_after_finished import expires_at

NOW = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
LIMIT = "Job has reached the specified backoff limit"


def job(status: Object | None = None, policy: str = "Never", **spec: Any) -> Job:
    pod = {"restartPolicy": policy, "containers": [{"name": "main", "image": "demo:1"}]}
    meta = {"name": "work", "namespace": "default", "uid": "u"}
    defaults = {"template": {"spec": pod}, "completions": spec.pop("completions", 1)}
    return decode({"metadata": meta, "spec": defaults | spec, "status": status or {}}, Job)


def pod(
    name: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    ago: float = 0.0,
    code: int = 0,
    tracked: bool = True,
    deleted: bool = False,
    restarts: int = 0,
    failures: int = 0,
) -> Pod:
    """`ago`: seconds since it ended."""
    meta: Object = {"name": name, "namespace": "default", "uid": name, "annotations": {}}
    meta["finalizers"] = [TRACKING] if tracked else []
    if index is not None:
        meta["annotations"] = {INDEX: str(index), FAILURES: str(failures)}
    if deleted:
        meta["deletionTimestamp"] = format_time(NOW)
    ended = phase in ("Succeeded", "Failed")
    end = {"exitCode": code, "finishedAt": format_time(NOW - ago)}
    container = {"name": "main", "restartCount": restarts,
                 "state": {"terminated": end} if ended else {"running": {}}}  # fmt: skip
    status = {"phase": phase, "containerStatuses": [container]}
    return decode({"metadata": meta, "spec": {"nodeName": "n"}, "status": status}, Pod)


def plan(found: Job, *pods: Pod) -> Scaling:
    seen = observe(found, pods)
    return scaling(seen, verdict(seen, NOW), NOW)


def indexes(made: Scaling) -> list[str]:
    return [body["metadata"]["annotations"][INDEX] for body in made.create]


@pytest.mark.parametrize(
    ("spec", "pods", "count"),
    [
        ({"parallelism": 3, "completions": 5}, [], 3),
        ({"parallelism": 3, "completions": 5}, [pod("a"), pod("b")], 1),
        ({"parallelism": 3, "completions": 2}, [], 2),
        ({"parallelism": 3, "completions": 5}, [pod(c, "Succeeded") for c in "abcd"], 1),
        ({"parallelism": 0}, [], 0),
        ({"parallelism": 2, "completions": None}, [], 2),
        ({"parallelism": 2, "completions": None}, [pod("a", "Succeeded"), pod("b")], 0),
        ({"suspend": True}, [], 0),
        ({}, [pod("a", deleted=True, tracked=False)], 1),
        ({"podReplacementPolicy": "Failed"}, [pod("a", deleted=True)], 0),
        ({"podReplacementPolicy": "Failed"}, [pod("a", "Failed", ago=20, deleted=True)], 1),
    ],
)
def test_how_many_pods_are_made(spec: Object, pods: list[Pod], count: int) -> None:
    assert len(plan(job(**spec), *pods).create) == count


def test_too_many_pods_are_given_up_without_being_counted() -> None:
    made = plan(job(parallelism=1, completions=5), pod("a"), pod("b", "Pending"))
    assert [p.metadata.name for p in made.delete] == ["b"]
    assert made.uncounted
    assert made.create == []


def test_indexes_are_filled_from_the_first_and_each_has_one_pod() -> None:
    indexed: Object = {"completions": 5, "parallelism": 3, "completionMode": "Indexed"}
    done = job({"completedIndexes": "0,2"}, **indexed)
    assert indexes(plan(done, pod("a", index=1))) == ["3", "4"]
    made = plan(done, pod("a", index=1), pod("b", "Pending", index=1), pod("c", index=9), pod("d"))
    assert sorted(p.metadata.name for p in made.delete) == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("ends", "seconds"),
    [
        ([], 0),
        ([("Failed", 4)], 6),
        ([("Failed", 11)], 0),
        ([("Failed", 30), ("Failed", 5)], 15),
        ([("Failed", 30), ("Succeeded", 20), ("Failed", 5)], 5),
        ([("Failed", 5), ("Succeeded", 1)], 0),
        ([("Failed", number) for number in range(9)], 360),
    ],
)
def test_pods_are_made_the_later_the_more_have_failed(
    ends: list[tuple[str, int]], seconds: float
) -> None:
    pods = [pod(str(number), phase, ago=ago) for number, (phase, ago) in enumerate(ends)]
    made = plan(job(completions=99, backoffLimit=99), *pods)
    assert (made.again or 0) == seconds
    assert bool(made.create) == (not seconds)


def test_failures_of_pods_that_are_gone_count_for_the_pause_too() -> None:
    found = job(backoffLimit=99)
    before = observe(found, [pod("a", deleted=True), pod("b", "Failed", ago=1)]).failures
    seen = observe(found, [], before)
    assert scaling(seen, None, NOW).again == 20
    assert observe(found, [pod("a", deleted=True, tracked=False)]).failures == {}


def test_each_index_has_a_pause_of_its_own() -> None:
    spec: Object = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    limited = job(**spec, backoffLimitPerIndex=3, backoffLimit=2**31 - 1)
    once = pod("a", "Failed", index=0, ago=3)
    twice = pod("b", "Failed", index=1, ago=25, failures=1)
    made = plan(limited, once, twice)
    assert indexes(made) == ["1", "2"]
    assert made.again == 7
    assert [body["metadata"]["annotations"][FAILURES] for body in made.create] == ["2", "0"]


REACHED = Verdict("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
TOO_OFTEN = Verdict("Failed", "BackoffLimitExceeded", LIMIT)
LATE = Verdict("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
STARTED = {"startTime": format_time(NOW - 60)}


@pytest.mark.parametrize(
    ("found", "pods", "expected"),
    [
        (job(), [], None),
        (job(), [pod("a", "Succeeded")], REACHED),
        (job(completions=0), [], REACHED),
        (job(completions=2), [pod("a", "Succeeded")], None),
        (job(completions=None), [pod("a", "Succeeded"), pod("b")], None),
        (job(completions=None), [pod("a", "Succeeded"), pod("b", "Failed")], REACHED),
        (job({"succeeded": 1}, completions=2), [pod("a", "Succeeded", tracked=False)], None),
        (job(backoffLimit=1), [pod("a", "Failed")], None),
        (job(backoffLimit=1), [pod("a", "Failed"), pod("b", "Failed")], TOO_OFTEN),
        (job({"failed": 2}, backoffLimit=1), [], TOO_OFTEN),
        (job(policy="OnFailure", backoffLimit=3), [pod("a", restarts=2)], None),
        (job(policy="OnFailure", backoffLimit=3), [pod("a", restarts=3)], TOO_OFTEN),
        (job(policy="OnFailure", backoffLimit=0), [pod("a")], None),
        (job(policy="OnFailure", backoffLimit=0), [pod("a", restarts=1)], TOO_OFTEN),
        (job(STARTED, activeDeadlineSeconds=61), [pod("a")], None),
        (job(STARTED, activeDeadlineSeconds=60), [pod("a")], LATE),
        (job(STARTED, activeDeadlineSeconds=60, suspend=True), [], None),
    ],
)
def test_how_it_ends(found: Job, pods: list[Pod], expected: Verdict | None) -> None:
    assert verdict(observe(found, pods), NOW) == expected


@pytest.mark.parametrize(
    ("rule", "code", "action"),
    [
        ({"onExitCodes": {"operator": "In", "values": [1, 3]}}, 3, "FailJob"),
        ({"onExitCodes": {"operator": "In", "values": [1, 3]}}, 2, "Count"),
        ({"onExitCodes": {"operator": "NotIn", "values": [1, 3]}}, 2, "FailJob"),
        ({"onExitCodes": {"operator": "NotIn", "values": [1]}}, 0, "Count"),
        ({"onExitCodes": {"operator": "In", "values": [3], "containerName": "main"}}, 3, "FailJob"),
        ({"onExitCodes": {"operator": "In", "values": [3], "containerName": "other"}}, 3, "Count"),
        ({"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}, 3, "Count"),
    ],
)
def test_what_a_failure_leads_to(rule: Object, code: int, action: str) -> None:
    found = job(podFailurePolicy={"rules": [rule | {"action": "FailJob"}]})
    assert reaction(found.spec.pod_failure_policy, pod("a", "Failed", code=code)).action == action


def written(status: JobStatus) -> Object:
    """As it is stored."""
    merged = merge_patch({}, status_json(status))
    assert isinstance(merged, dict)
    return merged


def test_a_pod_is_noted_then_let_go_then_counted() -> None:
    ends = [pod("good", "Succeeded"), pod("bad", "Failed")]
    first = account(observe(job(STARTED, completions=5), [*ends, pod("busy")]), None, NOW)
    notes = {"succeeded": ["good"], "failed": ["bad"]}
    assert written(first.status)["uncountedTerminatedPods"] == notes
    assert (first.status.succeeded, first.status.failed, first.status.active) == (0, 0, 1)
    assert {p.metadata.name for p in first.free} == {"good", "bad"}
    # It dies after one finalizer: what is noted is not noted again, what is free is counted.
    noted = job(written(first.status), completions=5)
    half = [pod("good", "Succeeded", tracked=False), pod("bad", "Failed")]
    second = account(observe(noted, half), None, NOW)
    assert (second.status.succeeded, second.status.failed) == (1, 0)
    assert [p.metadata.name for p in second.free] == ["bad"]
    # That pod is deleted meanwhile, and counts all the same.
    last = account(observe(job(written(second.status), completions=5), half[:1]), None, NOW)
    assert (last.status.succeeded, last.status.failed) == (1, 1)
    assert written(last.status)["uncountedTerminatedPods"] == {}


def test_it_is_over_once_nothing_runs_and_all_is_counted() -> None:
    found = job(STARTED)
    steps = [[pod("a", "Succeeded"), pod("b", deleted=True)], [pod("a", "Succeeded")], []]
    ended = []
    for pods in steps:
        result = account(observe(found, pods), REACHED, NOW)
        ended.append([c.type for c in result.status.conditions])
    assert ended == [["SuccessCriteriaMet"]] * 2 + [["SuccessCriteriaMet", "Complete"]]
    assert result.status.completion_time == format_time(NOW)
    assert result.events == [("Normal", "Completed", "Job completed")]


def test_when_its_time_after_the_end_is_over() -> None:
    assert expires_at(job(ttlSecondsAfterFinished=10)) is None
    ended = {"conditions": [{"type": "Failed", "status": "True",
                             "lastTransitionTime": format_time(NOW)}]}  # fmt: skip
    assert expires_at(job(ended)) is None
    assert expires_at(job(ended, ttlSecondsAfterFinished=0)) == NOW
    assert expires_at(job(ended, ttlSecondsAfterFinished=10)) == NOW + 10
