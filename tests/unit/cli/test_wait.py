"""`sheepctl wait`: any of several conditions, and an end at once when none can come."""

from collections.abc import Callable
from typing import Any

import pytest

from shepherd.api.kinds import DEPLOYMENT, NODE, POD
from shepherd.api.kinds.jobs import JOB
from shepherd.cli.session import Usage
from shepherd.cli.wait import hopeless, parse_wish

SPEC: dict[str, Any] = {"containers": [{"name": "a", "image": "a:1"}]}

WISH = [parse_wish("Ready")]
LATE = "ProgressDeadlineExceeded"


def said(**conditions: str) -> dict[str, Any]:
    items = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {"metadata": {}, "status": {"conditions": items}}


@pytest.mark.parametrize(
    ("text", "obj", "holds"),
    [
        ("Ready", said(Ready="True"), True),
        ("condition=ready", said(Ready="True"), True),
        ("condition=Ready=false", said(Ready="False"), True),
        ("Ready", said(Ready="Unknown"), False),
        ("Ready", None, False),
        ("delete", None, True),
        ("delete", said(), False),
        ("create", said(), True),
        ("jsonpath={.status.phase}=Running", {"status": {"phase": "Running"}}, True),
        ("jsonpath={.status.phase}=Running", {"status": {"phase": "Pending"}}, False),
        ("jsonpath={.status.ready}=true", {"status": {"ready": True}}, True),
        ("jsonpath={.status.phase}", {"status": {"phase": "Pending"}}, True),
        ("jsonpath={.status.phase}", {}, False),
    ],
)
def test_wishes(text: str, obj: Any, holds: bool) -> None:
    assert parse_wish(text).holds(obj) is holds


@pytest.mark.parametrize("text", ["", "condition=", "jsonpath=.status", "jsonpath={status}"])
def test_what_nobody_can_wait_for(text: str) -> None:
    with pytest.raises(Usage):
        parse_wish(text)


def test_what_a_condition_said_of_an_earlier_generation_does_not_count() -> None:
    old = said(Available="True")
    old["metadata"]["generation"] = 2
    old["status"]["observedGeneration"] = 1
    assert not parse_wish("Available").holds(old)


def job(sheepctl: Any, **conditions: str) -> None:
    template = {"spec": SPEC | {"restartPolicy": "Never"}}
    made = sheepctl.given("Job", "backup", spec={"template": template})
    text = {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified limit"}
    items = [
        {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"} | text
        for kind, status in conditions.items()
    ]
    status = {"conditions": items, "startTime": "2026-01-01T00:00:00Z"}
    sheepctl.set_status("Job", made, status)


def test_the_first_of_several_conditions_ends_the_wait(sheepctl: Any) -> None:
    """kr8s-org/kr8s#292; kubernetes/kubectl#1482: Complete or Failed, whichever comes."""
    job(sheepctl, FailureTarget="True", Failed="True")
    result = sheepctl("wait", "job/backup", "--for=Complete", "--for=Failed")
    assert (result.code, result.out) == (0, "job.batch/backup condition met: Failed\n")


def test_a_terminal_failure_ends_the_wait_at_once(sheepctl: Any) -> None:
    """kubernetes/kubectl#1629, #1451: who waits for Complete learns of Failed, with its cause."""
    job(sheepctl, FailureTarget="True", Failed="True")
    result = sheepctl("wait", "job", "backup", "--for=condition=Complete")
    assert result.code == 1
    assert "job.batch/backup will not come to it: Failed=True, BackoffLimitExceeded: " in result.err


@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        (lambda: hopeless(POD, {"metadata": {}, "status": {"phase": "Failed"}}, WISH), "Failed"),
        (lambda: hopeless(JOB, told("Complete", "True", "Done"), WISH), "Complete=True, Done: "),
        (lambda: hopeless(DEPLOYMENT, told("Progressing", "False", LATE), WISH), "Progressing="),
        (lambda: hopeless(NODE, said(Ready="False"), WISH), ""),
        (lambda: hopeless(JOB, told("Failed", "True", "Limit"), [parse_wish("delete")]), ""),
    ],
)
def test_after_which_states_nothing_else_comes(ends: Callable[[], str], cause: str) -> None:
    assert cause in ends()
    assert bool(ends()) == bool(cause)


def told(kind: str, status: str, reason: str) -> dict[str, Any]:
    condition = {"type": kind, "status": status, "reason": reason, "message": "m"}
    return {"metadata": {}, "status": {"conditions": [condition]}}


def test_what_is_not_placed_is_not_done_and_the_time_out_tells_the_cause(sheepctl: Any) -> None:
    """hashicorp/nomad#24824: a constraint that no node meets."""
    sheepctl.given("Node", "n1")
    sheepctl.given("Pod", "p", spec=SPEC | {"nodeSelector": {"disk": "ssd"}})
    result = sheepctl("wait", "pod/p", "--for=Ready", "--timeout=0.1")
    assert result.code == 1
    assert "pod/p has not come to Ready within 0.1 s; none of 1 nodes can take it; n1: " in (
        result.err
    )
    assert "NodeAffinity: node(s) didn't match Pod's node affinity/selector" in result.err


def test_waiting_for_what_is_not_there(sheepctl: Any) -> None:
    assert sheepctl("wait", "pod/p", "--for=delete").code == 0
    result = sheepctl("wait", "pod/p", "--for=Ready")
    assert (result.code, "pod/p is not there" in result.err) == (1, True)
    result = sheepctl("wait", "pod/p", "--for=create", "--timeout=0.05")
    assert "pod/p has not come to create within 0.05 s" in result.err
    assert sheepctl("wait", "pod/p").code == 2
