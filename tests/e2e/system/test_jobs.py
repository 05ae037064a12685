"""Jobs and CronJobs of real containers, by kubectl."""

import json
from typing import Any

from shepherd.testing.program import Program, eventually

IMAGE = "shepherd.local/demo:1"


def job(name: str, script: str, policy: str = "Never", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", script]}
    pod = {"restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": [container]}
    meta = {"name": name, "namespace": "scratch"}
    body = {"template": {"spec": pod}} | spec
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


def create(cluster: Program, body: dict[str, Any]) -> None:
    path = cluster.data_dir / "job.json"
    path.write_text(json.dumps(body))
    cluster.kubectl("create", "-f", str(path))


def wait(cluster: Program, name: str, condition: str) -> dict[str, Any]:
    """The status of a job, once `kubectl wait` has seen the condition."""
    await_it = ("wait", f"job/{name}", f"--for=condition={condition}", "--timeout=60s")
    cluster.kubectl("-n", "scratch", *await_it)
    found: dict[str, Any] = cluster.get("-n", "scratch", "job", name)["status"]
    return found


def test_a_job_completes_and_each_pod_knows_its_index(scratch: Program) -> None:
    script = "echo $JOB_COMPLETION_INDEX at $(hostname)"
    create(scratch, job("work", script, completions=3, parallelism=2, completionMode="Indexed"))
    status = wait(scratch, "work", "complete")
    assert (status["succeeded"], status["completedIndexes"]) == (3, "0-2")
    selector = "batch.kubernetes.io/job-name=work"
    lines = scratch.kubectl("-n", "scratch", "logs", "-l", selector)
    assert sorted(lines.splitlines()) == ["0 at work-0", "1 at work-1", "2 at work-2"]
    row = scratch.kubectl("-n", "scratch", "get", "job", "work", "--no-headers").split()
    assert row[:3] == ["work", "Complete", "3/3"]
    scratch.kubectl("-n", "scratch", "delete", "job", "work", "--cascade=foreground")
    assert scratch.get("-n", "scratch", "pods")["items"] == []


def test_a_job_fails_in_either_way_of_trying_again(scratch: Program) -> None:
    create(scratch, job("never", "exit 3", backoffLimit=0))
    create(scratch, job("on-failure", "exit 3", "OnFailure", backoffLimit=1))
    for name in ("never", "on-failure"):
        status = wait(scratch, name, "failed")
        assert status["failed"] == 1
        (reason,) = (c["reason"] for c in status["conditions"] if c["type"] == "Failed")
        assert reason == "BackoffLimitExceeded"
    told = scratch.kubectl("-n", "scratch", "describe", "job", "never")
    assert "Warning  BackoffLimitExceeded" in told
    assert "Job has reached the specified backoff limit" in told


def test_a_sidecar_ends_with_the_job(scratch: Program) -> None:
    """kubernetes/kubernetes#25908, #73118."""
    body = job("work", "sleep 1")
    helper = {"name": "helper", "image": IMAGE, "restartPolicy": "Always",
              "command": ["sh", "-c", "sleep 3600"]}  # fmt: skip
    body["spec"]["template"]["spec"]["initContainers"] = [helper]
    create(scratch, body)
    assert wait(scratch, "work", "complete")["succeeded"] == 1


def test_a_cron_job_starts_one_by_itself_and_one_by_hand(scratch: Program) -> None:
    command = ("--image", IMAGE, "--schedule=@every 1s", "--", "sh", "-c", "echo tick")
    scratch.kubectl("-n", "scratch", "create", "cronjob", "tick", *command)
    scratch.kubectl("-n", "scratch", "create", "job", "now", "--from=cronjob/tick")
    assert wait(scratch, "now", "complete")["succeeded"] == 1

    def done() -> bool:
        status = scratch.get("-n", "scratch", "cronjob", "tick")["status"]
        return bool(status.get("lastScheduleTime") and status.get("lastSuccessfulTime"))

    eventually(done, what="a job of the schedule")


def test_a_job_goes_on_when_the_program_was_killed(scratch: Program) -> None:
    create(scratch, job("work", "sleep 2", completions=4, parallelism=2))

    def half_done() -> bool:
        status = scratch.get("-n", "scratch", "job", "work")["status"]
        return bool(status.get("succeeded"))

    eventually(half_done, what="the first pods' end")
    scratch.kill()
    scratch.start().wait_ready()
    status = wait(scratch, "work", "complete")
    assert status["succeeded"] == 4
    assert "failed" not in status
    assert len(scratch.get("-n", "scratch", "pods")["items"]) == 4
