"""The status that users see, case by case."""

from typing import Any

import pytest

from shepherd.agent.pod_state import Failure, Verdict
from shepherd.agent.pod_status import patch, status
from shepherd.api.kinds.podsummary import summarize


def phase(make_view: Any, *containers: str, **options: Any) -> str:
    return str(status(make_view(*containers, **options), options.get("status") or {})["phase"])


@pytest.mark.parametrize(
    ("expected", "containers", "options"),
    [
        ("Pending", ["main web: -"], {}),
        ("Pending", ["init i: running", "main web: -"], {}),
        ("Pending", ["main a: running", "main b: -"], {}),
        ("Running", ["main a: running"], {}),
        ("Running", ["main a: exit 1"], {}),
        ("Running", ["main a: exit 1", "main b: running"], {"policy": "Never"}),
        ("Succeeded", ["main a: exit 0"], {"policy": "Never"}),
        ("Succeeded", ["main a: exit 0"], {"policy": "OnFailure"}),
        ("Failed", ["main a: exit 0", "main b: exit 1"], {"policy": "Never"}),
        ("Failed", ["init i: exit 1", "main web: -"], {"policy": "Never"}),
        ("Pending", ["init i: exit 1", "main web: -"], {}),
        ("Running", ["sidecar s: running", "main web: exit 0"], {"policy": "Never"}),
        ("Failed", ["main a: -"], {"verdict": Verdict("OutOfcpu", "")}),
        ("Running", ["main a: running"], {"verdict": Verdict("Evicted", "")}),
        ("Succeeded", ["main a: exit 0"], {"stop_by": 1.0}),
        ("Failed", ["main a: exit 143"], {"stop_by": 1.0}),
        ("Failed", ["main a: -"], {"stop_by": 1.0}),
        ("Succeeded", ["main a: -"], {"status": {"phase": "Succeeded"}, "sandbox": None}),
        ("Failed", ["main a: running"], {"status": {"phase": "Failed"}}),
        ("Failed", ["main a: - < exit 1"], {"policy": "Never", "sandbox": None}),
    ],
)
def test_phase(make_view: Any, expected: str, containers: list[str], options: Any) -> None:
    assert phase(make_view, *containers, **options) == expected


def _state(make_view: Any, text: str, **options: Any) -> Any:
    return status(make_view(text, **options), {})["containerStatuses"][0]


def test_waiting_reasons(make_view: Any) -> None:
    creating = _state(make_view, "main web: -")
    assert creating["state"] == {"waiting": {"reason": "ContainerCreating"}}
    failure = Failure("ImagePullBackOff", 'Back-off pulling image "x"')
    pulling = _state(make_view, "main web: -", memory={"web": {"failure": failure}})
    assert pulling["state"]["waiting"]["reason"] == "ImagePullBackOff"
    whole = status(make_view("init i: running", "main web: -"), {})
    assert whole["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"


def test_crash_loop(make_view: Any) -> None:
    """kubernetes/kubernetes#57291: the message says when it is tried next."""
    memory = {"web": {"restart_at": 140.0, "backoff_seconds": 80.0}}
    found = _state(make_view, "main web: exit 3@2 < exit 3@1", memory=memory)
    assert found["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 1m20s restarting failed container=web pod=web-1_default(uid), "
        "next try at 1970-01-01T00:18:10Z",
    }
    assert found["lastState"]["terminated"]["exitCode"] == 3
    assert found["lastState"]["terminated"]["containerID"] == "crun://uid-web-2"
    assert (found["restartCount"], found["ready"], found["started"]) == (2, False, False)


def test_running(make_view: Any) -> None:
    found = _state(make_view, "main web: running@1 < exit 137")
    assert found["state"] == {"running": {"startedAt": "1970-01-01T00:16:40Z"}}
    assert found["lastState"]["terminated"]["exitCode"] == 137
    assert (found["restartCount"], found["ready"], found["started"]) == (1, True, True)
    assert (found["containerID"], found["image"]) == ("crun://uid-web-1", "web:1")


def test_ready_needs_startup_and_readiness(make_view: Any) -> None:
    unstarted = _state(make_view, "main web: running", memory={"web": {"started": False}})
    assert (unstarted["ready"], unstarted["started"]) == (False, False)
    unready = _state(make_view, "main web: running", memory={"web": {"ready": False}})
    assert (unready["ready"], unready["started"]) == (False, True)


def test_what_was_said_of_an_end_is_kept_when_the_runtime_forgets(make_view: Any) -> None:
    before = status(make_view("main web: exit 3", policy="Never"), {})
    assert before["phase"] == "Failed"
    after = status(make_view("main web: -", sandbox=None, policy="Never", cleaned=True), before)
    assert after["containerStatuses"] == before["containerStatuses"]
    assert after["podIP"] == before["podIP"] == "10.42.0.2"


def conditions(found: Any) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("reason", "")) for c in found["conditions"]}


@pytest.mark.parametrize(
    ("containers", "options", "expected"),
    [
        (
            ["main web: running"],
            {},
            [("True", ""), ("True", ""), ("True", ""), ("True", "")],
        ),
        (
            ["main web: -"],
            {"sandbox": None},
            [
                ("False", ""),
                ("True", ""),
                ("False", "ContainersNotReady"),
                ("False", "ContainersNotReady"),
            ],
        ),
        (
            ["init i: running", "main web: -"],
            {},
            [
                ("True", ""),
                ("False", "ContainersNotInitialized"),
                ("False", "ContainersNotReady"),
                ("False", "ContainersNotReady"),
            ],
        ),
        (
            ["main web: exit 0"],
            {"policy": "Never"},
            [
                ("True", ""),
                ("True", "PodCompleted"),
                ("False", "PodCompleted"),
                ("False", "PodCompleted"),
            ],
        ),
        (
            ["main web: running"],
            {"spec": {"readinessGates": [{"conditionType": "x/y"}]}},
            [("True", ""), ("True", ""), ("True", ""), ("False", "ReadinessGatesNotReady")],
        ),
    ],
)
def test_conditions(make_view: Any, containers: list[str], options: Any, expected: Any) -> None:
    found = conditions(status(make_view(*containers, **options), {}))
    names = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"]
    assert [found[name] for name in names] == expected


def test_a_transition_time_changes_with_the_status_only(make_view: Any) -> None:
    first = status(make_view("main web: running"), {})
    later = status(make_view("main web: running", wall=3000.0), first)
    assert later["conditions"] == first["conditions"]
    assert later["startTime"] == first["startTime"]
    lost = status(make_view("main web: exit 1", wall=3000.0), first)
    ready = next(c for c in lost["conditions"] if c["type"] == "Ready")
    assert ready["lastTransitionTime"] == "1970-01-01T00:50:00Z"


def test_the_patch_is_what_differs(make_view: Any) -> None:
    old = status(make_view("main web: -", sandbox=None), {})
    foreign = {"type": "PodScheduled", "status": "True"}
    old["conditions"].append(foreign)
    old["reason"] = "Stale"
    new = status(make_view("main web: running"), old | {"reason": ""})
    changes = patch(old, new)
    assert changes["phase"] == "Running"
    assert changes["reason"] is None
    assert changes["podIPs"] == [{"ip": "10.42.0.2"}, {"$patch": "replace"}]
    assert {c["type"] for c in changes["conditions"]} == {
        "PodReadyToStartContainers", "ContainersReady", "Ready",
    }  # fmt: skip
    assert "startTime" not in changes
    assert patch(new, new) == {}


def test_a_reason_goes_with_the_state_that_it_explained(make_view: Any) -> None:
    before = status(make_view("main web: -"), {})
    ready = next(c for c in before["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "ContainersNotReady"
    after = status(make_view("main web: running"), before)
    change = next(c for c in patch(before, after)["conditions"] if c["type"] == "Ready")
    assert (change["status"], change["reason"], change["message"]) == ("True", None, None)


def test_of_a_refused_pod_nothing_is_told_but_why(make_view: Any) -> None:
    verdict = Verdict("OutOfcpu", "Pod was rejected: too large")
    found = status(make_view("init i: -", "main web: -", sandbox=None, verdict=verdict), {})
    assert (found["phase"], found["reason"]) == ("Failed", "OutOfcpu")
    assert "containerStatuses" not in found
    assert summarize({"spec": {"containers": [{}]}, "status": found}).status == "OutOfcpu"
