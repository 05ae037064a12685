"""Jobs over the real API, with stand-ins for the nodes, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from shepherd.api.kinds import POD, REPLICA_SET
from shepherd.api.kinds.jobs import JOB
from shepherd.api.meta import format_time, parse_time
from shepherd.api.objects import Pod
from shepherd.api.resource import Object
from shepherd.testing import control_plane
from shepherd.testing.control_plane import ControlPlane, StandInNodes, Story
from shepherd.testing.virtual import eventually

INDEX = "batch.kubernetes.io/job-completion-index"
TRACKING = "batch.kubernetes.io/job-tracking"
SUCCEEDED: Object = {"phase": "Succeeded"}


def failed(plane: ControlPlane, code: int = 1, *conditions: str) -> Object:
    """The status of a pod that ends with an error."""
    end = {"exitCode": code, "finishedAt": format_time(plane.clock.now())}
    status: Object = {
        "phase": "Failed",
        "containerStatuses": [{"name": "main", "state": {"terminated": end}}],
    }
    return status | {"conditions": [{"type": kind, "status": "True"} for kind in conditions]}


def index_of(pod: Pod) -> int:
    return int(pod.metadata.annotations[INDEX])


def play(story: Story) -> None:
    """Run a story on nodes whose pods end well at once."""

    async def with_ends(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: SUCCEEDED
        await story(plane, nodes)

    control_plane.play(with_ends)


def job(name: str = "work", policy: str = "Never", **spec: Any) -> Object:
    pod = {"restartPolicy": policy, "containers": [{"name": "main", "image": "demo:1"}]}
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": pod}} | spec,
    }


def condition(obj: Object, kind: str) -> tuple[str, str, str]:
    for item in obj.get("status", {}).get("conditions", ()):
        if item["type"] == kind:
            return item["status"], item["reason"], item.get("message", "")
    return "", "", ""


def is_so(kind: str) -> Callable[[Object], bool]:
    return lambda obj: condition(obj, kind)[0] == "True"


async def ended(plane: ControlPlane, how: str, name: str = "work", **limits: Any) -> Object:
    """The job, once it is Complete or Failed; it has counted all pods and holds none."""
    done = await plane.until(JOB, name, is_so(how), **limits)
    status = done["status"]
    assert status["uncountedTerminatedPods"] == {}
    assert status["terminating"] == status["ready"] == status.get("active", 0) == 0
    for pod in await plane.items(POD):
        assert not pod["metadata"].get("finalizers"), pod["metadata"]["name"]
    return done


async def created(plane: ControlPlane) -> list[float]:
    """When the pods were made, in seconds after the first."""
    stamps = sorted(
        parse_time(pod["metadata"]["creationTimestamp"]) for pod in await plane.items(POD)
    )
    return [stamp - stamps[0] for stamp in stamps]


def test_a_job_runs_so_many_pods_side_by_side_until_enough_have_succeeded() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        most = 0

        def watch(old: Pod | None, new: Pod | None) -> None:
            nonlocal most
            pods = plane.manager.informers.pods.all()
            most = max(most, sum(not pod.finished for pod in pods))

        plane.manager.informers.pods.on_change(watch)
        await plane.client.create(JOB, job(completions=7, parallelism=3))
        done = await ended(plane, "Complete")
        reached = ("True", "CompletionsReached", "Reached expected number of succeeded pods")
        assert condition(done, "Complete") == condition(done, "SuccessCriteriaMet") == reached
        assert done["status"]["succeeded"] == len(await plane.items(POD)) == 7
        assert done["status"]["startTime"] <= done["status"]["completionTime"]
        assert most == 3
        await eventually(lambda: said(plane, "Completed", ["Job completed"]))

    play(story)


async def said(plane: ControlPlane, reason: str, messages: list[str]) -> bool:
    return await plane.events(reason) == messages


def test_without_completions_one_success_is_enough_and_the_others_finish() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        first: list[str] = []

        def report(pod: Pod) -> Object:
            first.append(pod.metadata.name)
            return SUCCEEDED if first[0] == pod.metadata.name else nodes.running(pod)

        nodes.report = report
        await plane.client.create(JOB, job(parallelism=3))
        await plane.until(JOB, "work", lambda o: o["status"].get("succeeded") == 1)
        await asyncio.sleep(60)
        assert len(await plane.items(POD)) == 3
        for pod in await plane.items(POD):
            patch = {"status": SUCCEEDED}
            await plane.client.patch(POD, pod["metadata"]["name"], "default", patch, sub="status")
        assert (await ended(plane, "Complete"))["status"]["succeeded"] == 3

    play(story)


def test_each_index_has_a_pod_that_knows_it() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        spec: dict[str, Any] = {"completions": 4, "parallelism": 2, "completionMode": "Indexed"}
        await plane.client.create(JOB, job(**spec))
        done = await ended(plane, "Complete")
        assert done["status"]["completedIndexes"] == "0-3"
        pods = await plane.items(POD)
        assert sorted(pod["metadata"]["annotations"][INDEX] for pod in pods) == list("0123")
        for pod in pods:
            index = pod["metadata"]["labels"][INDEX]
            assert pod["metadata"]["name"].startswith(f"work-{index}-")
            assert pod["spec"]["hostname"] == f"work-{index}"
            (variable,) = pod["spec"]["containers"][0]["env"]
            assert variable["name"] == "JOB_COMPLETION_INDEX"
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            assert path == f"metadata.labels['{INDEX}']"

    play(story)


def test_95433_pods_that_fail_are_made_anew_ever_later_and_only_so_often() -> None:
    """kubernetes/kubernetes#95433: under Never, limit + 1 pods."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: failed(plane)
        await plane.client.create(JOB, job(backoffLimit=3))
        done = await ended(plane, "Failed", within_seconds=200)
        text = "Job has reached the specified backoff limit"
        assert condition(done, "Failed") == ("True", "BackoffLimitExceeded", text)
        assert condition(done, "FailureTarget") == condition(done, "Failed")
        assert done["status"]["failed"] == 4
        gaps = [b - a for a, b in pairwise(await created(plane))]
        assert [round(gap, -1) for gap in gaps] == [10, 20, 40]
        await eventually(lambda: said(plane, "BackoffLimitExceeded", [text]))

    play(story)


def test_a_deadline_stops_what_runs() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = nodes.running
        await plane.client.create(JOB, job(parallelism=2, completions=2, activeDeadlineSeconds=30))
        await plane.until(JOB, "work", lambda o: o["status"].get("ready") == 2)
        await asyncio.sleep(25)
        assert len(await plane.items(POD)) == 2
        done = await ended(plane, "Failed", within_seconds=10)
        assert condition(done, "Failed")[1] == "DeadlineExceeded"
        assert done["status"]["failed"] == 2
        await plane.pods_are(0)

    play(story)


def test_a_finished_job_goes_after_its_time() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(JOB, job(ttlSecondsAfterFinished=100))
        await ended(plane, "Complete")
        await asyncio.sleep(90)
        assert len(await plane.items(JOB)) == len(await plane.items(POD)) == 1
        await plane.pods_are(0, within_seconds=20)
        await plane.gone(JOB, "work")

    play(story)


def test_a_suspended_job_waits_without_pods_and_loses_no_count() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: SUCCEEDED if index_of(pod) == 0 else nodes.running(pod)
        spec: dict[str, Any] = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
        await plane.client.create(JOB, job(**spec, suspend=True))
        waits = await plane.until(JOB, "work", is_so("Suspended"))
        assert "startTime" not in waits["status"]
        assert await plane.items(POD) == []
        await resume(plane, suspend=False)
        await plane.until(JOB, "work", lambda o: o["status"].get("ready") == 2)
        await resume(plane, suspend=True)
        waits = await plane.until(JOB, "work", is_so("Suspended"))
        assert condition(waits, "Suspended")[1:] == ("JobSuspended", "Job suspended")
        await plane.pods_are(1)
        waits = (await plane.items(JOB))[0]
        assert (waits["status"]["completedIndexes"], waits["status"].get("failed")) == ("0", None)
        nodes.report = lambda pod: SUCCEEDED
        await resume(plane, suspend=False)
        done = await ended(plane, "Complete")
        assert condition(done, "Suspended")[:2] == ("False", "JobResumed")
        assert done["status"]["succeeded"] == 3
        assert "failed" not in done["status"]

    play(story)


async def resume(plane: ControlPlane, *, suspend: bool) -> None:
    await plane.client.patch(JOB, "work", "default", {"spec": {"suspend": suspend}})


POLICY = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
}


def test_a_failure_policy_ignores_disruptions_and_ends_a_hopeless_job() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        ends = iter([failed(plane, 137, "DisruptionTarget"), failed(plane, 42)])
        nodes.report = lambda pod: next(ends)
        await plane.client.create(JOB, job(backoffLimit=0, podFailurePolicy=POLICY))
        done = await ended(plane, "Failed")
        assert done["status"]["failed"] == 1
        _, reason, message = condition(done, "Failed")
        assert reason == "PodFailurePolicy"
        assert message.startswith("Container main for pod default/work-")
        assert message.endswith(" failed with exit code 42 matching FailJob rule at index 1")
        assert len(await plane.items(POD)) == 2

    play(story)


def test_a_success_policy_ends_the_job_early_and_stops_the_rest() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: SUCCEEDED if index_of(pod) == 2 else nodes.running(pod)
        rules = [{"succeededIndexes": "0,2-3", "succeededCount": 1}]
        spec: dict[str, Any] = {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}
        await plane.client.create(JOB, job(**spec, successPolicy={"rules": rules}))
        done = await ended(plane, "Complete")
        met = ("True", "SuccessPolicy", "Matched rules at index 0")
        assert condition(done, "SuccessCriteriaMet") == condition(done, "Complete") == met
        assert done["status"]["completedIndexes"] == "2"
        assert "failed" not in done["status"]
        await plane.pods_are(1)

    play(story)


def test_each_index_may_fail_so_often_and_the_others_go_on() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: failed(plane) if index_of(pod) == 1 else SUCCEEDED
        spec: dict[str, Any] = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
        await plane.client.create(JOB, job(**spec, backoffLimitPerIndex=2))
        done = await ended(plane, "Failed", within_seconds=120)
        assert condition(done, "Failed")[1:] == ("FailedIndexes", "Job has failed indexes")
        status = done["status"]
        assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
        assert (status["succeeded"], status["failed"]) == (2, 3)
        counts = [
            pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
            for pod in await plane.items(POD)
            if pod["metadata"]["annotations"][INDEX] == "1"
        ]
        assert sorted(counts) == ["0", "1", "2"]

    play(story)


def test_too_many_failed_indexes_end_the_job() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: failed(plane) if index_of(pod) < 2 else nodes.running(pod)
        spec: dict[str, Any] = {"completions": 5, "parallelism": 5, "completionMode": "Indexed"}
        limits: dict[str, Any] = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}
        await plane.client.create(JOB, job(**spec, **limits))
        done = await ended(plane, "Failed")
        assert condition(done, "Failed")[1] == "MaxFailedIndexesExceeded"
        assert done["status"]["failedIndexes"] == "0,1"
        assert done["status"]["failed"] == 5

    play(story)


@pytest.mark.parametrize("policy", ["Failed", "TerminatingOrFailed"])
def test_when_a_pod_that_is_deleted_gets_its_replacement(policy: str) -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report, nodes.stop_seconds = nodes.running, 30.0
        await plane.client.create(JOB, job(podReplacementPolicy=policy))
        running = await plane.until(JOB, "work", lambda o: o["status"].get("ready") == 1)
        assert running["status"]["active"] == 1
        (pod,) = await plane.items(POD)
        await plane.client.delete(POD, pod["metadata"]["name"], "default")
        await asyncio.sleep(5)
        assert len(await plane.items(POD)) == 1
        await asyncio.sleep(10)
        status = (await plane.items(JOB))[0]["status"]
        at_once = policy == "TerminatingOrFailed"
        assert (status.get("active"), status["terminating"]) == (1 if at_once else None, 1)
        assert len(await plane.items(POD)) == (2 if at_once else 1)
        assert status.get("failed") == (1 if at_once else None)
        patch = {"status": {"phase": "Failed"}}
        await plane.client.patch(POD, pod["metadata"]["name"], "default", patch, sub="status")
        await plane.until(JOB, "work", lambda o: o["status"].get("failed") == 1)
        await plane.pods_are(1)

    play(story)


def test_parallelism_may_change_while_it_runs() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = nodes.running
        await plane.client.create(JOB, job(completions=9, parallelism=4))
        await plane.pods_are(4)
        for parallelism in (1, 3):
            patch = {"spec": {"parallelism": parallelism}}
            await plane.client.patch(JOB, "work", "default", patch)
            await plane.pods_are(parallelism)
        status = (await plane.until(JOB, "work", lambda o: o["status"]["active"] == 3))["status"]
        assert "failed" not in status

    play(story)


def manual(name: str, labels: dict[str, str], **spec: Any) -> Object:
    made = job(name, manualSelector=True, selector={"matchLabels": {"app": "web"}}, **spec)
    made["spec"]["template"]["metadata"] = {"labels": labels}
    return made


def test_18_workloads_with_one_selector_leave_each_others_pods_alone() -> None:
    """kubernetes/kubernetes#24152, #30028, #36859, #34466."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = nodes.running
        labels = {"app": "web"}
        for name in ("one", "two"):
            await plane.client.create(JOB, manual(name, labels, completions=3, parallelism=3))
        template = {"metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "demo:1"}]}}  # fmt: skip
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        meta = {"name": "set", "namespace": "default"}
        head = {"kind": "ReplicaSet", "apiVersion": "apps/v1"}
        await plane.client.create(REPLICA_SET, head | {"metadata": meta, "spec": spec})
        await plane.pods_are(8)
        await asyncio.sleep(60)
        owners = [pod["metadata"]["ownerReferences"][0]["name"] for pod in await plane.items(POD)]
        assert Counter(owners) == {"one": 3, "two": 3, "set": 2}
        assert len(await plane.events("SuccessfulCreate")) == 8
        for name in ("one", "two"):
            assert (await plane.find(JOB, name) or {})["status"]["active"] == 3

    play(story)


def test_an_orphan_that_matches_is_adopted_and_counted() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = nodes.running
        labels = {"app": "web"}
        spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "demo:1"}]}
        meta = {"name": "lonely", "namespace": "default", "labels": labels}
        head = {"kind": "Pod", "apiVersion": "v1"}
        await plane.client.create(POD, head | {"metadata": meta, "spec": spec})
        await plane.client.create(JOB, manual("work", labels))
        await plane.until(JOB, "work", lambda o: o["status"].get("ready") == 1)
        (pod,) = await plane.items(POD)
        assert pod["metadata"]["ownerReferences"][0]["name"] == "work"
        assert pod["metadata"]["finalizers"] == [TRACKING]
        await plane.client.patch(POD, "lonely", "default", {"status": SUCCEEDED}, sub="status")
        assert (await ended(plane, "Complete"))["status"]["succeeded"] == 1

    play(story)


def test_a_job_of_somebody_elses_is_left_alone() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(JOB, job(managedBy="example.com/mine"))
        await asyncio.sleep(60)
        assert await plane.items(POD) == []
        assert (await plane.items(JOB))[0]["status"] == {}

    play(story)


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("running", [True, False], ids=["running", "ended"])
def test_what_a_deleted_job_leaves_behind(propagation: str, running: bool) -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = nodes.running if running else lambda pod: SUCCEEDED
        await plane.client.create(JOB, job(parallelism=2, completions=2))
        if running:
            await plane.until(JOB, "work", lambda o: o["status"].get("ready") == 2)
        else:
            await ended(plane, "Complete")
        await plane.client.delete(JOB, "work", "default", propagation=propagation)
        await plane.gone(JOB, "work")
        left = await plane.pods_are(2 if propagation == "Orphan" else 0)

        async def free() -> bool:
            pods = await plane.items(POD)
            return not any(p["metadata"].get("finalizers") for p in pods)

        await eventually(free)
        assert len(left) == len(await plane.items(POD))

    play(story)


def test_a_pod_that_is_deleted_when_it_has_ended_is_counted_all_the_same() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        deletions: list[asyncio.Task[Object]] = []

        def pod_changed(old: Pod | None, new: Pod | None) -> None:
            if new and new.finished and not new.metadata.deletion_timestamp:
                deletion = plane.client.delete(POD, new.metadata.name, "default")
                deletions.append(asyncio.ensure_future(deletion))

        plane.manager.informers.pods.on_change(pod_changed)
        await plane.client.create(JOB, job(completions=20, parallelism=5))
        done = await ended(plane, "Complete")
        assert done["status"]["succeeded"] == 20
        assert len(deletions) >= 20
        await plane.pods_are(0)

    play(story)
