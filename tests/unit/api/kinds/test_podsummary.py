"""READY, STATUS and RESTARTS of `kubectl get pods`."""

from typing import Any

import pytest

from shepherd.api.kinds.podsummary import summarize
from shepherd.api.meta import parse_time

ENDED = "2026-01-01T00:00:00Z"
RUNNING: dict[str, Any] = {"running": {"startedAt": ENDED}}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def terminated(code: int, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, **more}}


def status(name: str, state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, **more}


def pod(*containers: dict[str, Any], init: Any = (), **state: Any) -> dict[str, Any]:
    """A pod whose spec has the containers that its statuses name."""
    return {
        "metadata": {},
        "spec": {
            "containers": [{"name": c["name"]} for c in containers] or [{"name": "a"}],
            "initContainers": [
                {"name": c["name"]} | ({"restartPolicy": "Always"} if c.get("sidecar") else {})
                for c in init
            ],
        },
        "status": {
            "phase": "Pending" if not containers else "Running",
            "containerStatuses": list(containers),
            "initContainerStatuses": list(init),
            **state,
        },
    }


CASES = {
    "pending": (pod(), "0/1", "Pending"),
    "running": (pod(status("a", RUNNING, ready=True)), "1/1", "Running"),
    "not ready": (pod(status("a", RUNNING, ready=False)), "0/1", "Running"),
    "back-off": (pod(status("a", waiting("CrashLoopBackOff"))), "0/1", "CrashLoopBackOff"),
    "out of memory": (pod(status("a", terminated(137, "OOMKilled"))), "0/1", "OOMKilled"),
    "exit code": (pod(status("a", terminated(3))), "0/1", "ExitCode:3"),
    "signal": (pod(status("a", terminated(0, signal=9))), "0/1", "Signal:9"),
    "completed": (
        pod(status("a", terminated(0, "Completed")), phase="Succeeded"), "0/1", "Completed",
    ),
    "one of two completed": (
        pod(status("a", terminated(0, "Completed")), status("b", RUNNING, ready=True)),
        "1/2", "NotReady",
    ),
    "evicted": (pod(phase="Failed", reason="Evicted"), "0/1", "Evicted"),
    "init runs": (pod(init=[status("i", RUNNING)]), "0/1", "Init:0/1"),
    "second init waits": (
        pod(init=[status("i", terminated(0)), status("j", waiting("PodInitializing"))]),
        "0/1", "Init:1/2",
    ),
    "init fails": (pod(init=[status("i", terminated(1, "Error"))]), "0/1", "Init:Error"),
    "init exits": (pod(init=[status("i", terminated(2))]), "0/1", "Init:ExitCode:2"),
    "init image": (pod(init=[status("i", waiting("ErrImagePull"))]), "0/1", "Init:ErrImagePull"),
    "sidecar": (
        pod(
            status("a", RUNNING, ready=True),
            init=[status("s", RUNNING, sidecar=True, started=True, ready=True)],
        ),
        "2/2", "Running",
    ),
    "gated": (
        pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
        "0/1", "SchedulingGated",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_status_and_ready(case: str) -> None:
    obj, ready, text = CASES[case]
    summary = summarize(obj)
    assert (f"{summary.ready}/{summary.total}", summary.status) == (ready, text)


def test_a_deleted_pod_is_terminating_until_it_has_ended() -> None:
    obj = pod(status("a", RUNNING, ready=True))
    obj["metadata"]["deletionTimestamp"] = ENDED
    assert summarize(obj).status == "Terminating"
    obj["status"]["phase"] = "Succeeded"
    assert summarize(obj).status != "Terminating"


def test_restarts_tell_when_the_last_one_was() -> None:
    last = terminated(1, finishedAt=ENDED)
    obj = pod(status("a", RUNNING, restartCount=3, lastState=last))
    assert summarize(obj).restarts_text(parse_time(ENDED) + 300) == "3 (5m ago)"
    assert summarize(pod(status("a", RUNNING))).restarts_text(0) == "0"


def test_restarts_of_init_containers_count_only_while_they_run() -> None:
    init = [status("i", terminated(0), restartCount=4)]
    assert summarize(pod(status("a", RUNNING), init=init)).restarts == 0
    init = [status("i", waiting("CrashLoopBackOff"), restartCount=4)]
    assert summarize(pod(init=init)).restarts == 4
