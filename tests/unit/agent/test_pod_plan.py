"""What the agent does next for a pod, case by case."""

from typing import Any

import pytest

from shepherd.agent.pod_plan import (
    Cancel,
    CleanUp,
    DeleteObject,
    Fail,
    MountVolumes,
    PullImage,
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    StartContainer,
    StopContainer,
    plan,
)
from shepherd.agent.pod_state import Failure, Verdict
from shepherd.api.objects.pod import Probe

STOP_WEB = StopContainer("uid-web-0", "web", 130.0, "Stopping container web")


@pytest.mark.parametrize(
    ("containers", "options", "expected"),
    [
        pytest.param(["main web: -"], {"sandbox": None}, [RunSandbox(1)], id="sandbox first"),
        pytest.param(
            ["main web: -"],
            {"sandbox": None, "volumes_ready": False, "memory": {"web": {"image": ""}}},
            [PullImage("web"), MountVolumes()],
            id="image and volumes at the same time",
        ),
        pytest.param(["main web: -"], {}, [StartContainer("web", 0)], id="start"),
        pytest.param(
            ["main a: -", "main b: -"], {}, [StartContainer("a", 0)], id="one start at a time"
        ),
        pytest.param(
            ["main a: -", "main b: -"],
            {"memory": {"a": {"image": ""}}},
            [PullImage("a")],
            id="in the order of the spec, also when the first must be pulled",
        ),
        pytest.param(["main web: running"], {}, [], id="nothing to do"),
        pytest.param(["main web: -"], {"busy": {"start": 0.0}}, [], id="under way"),
        pytest.param(
            ["main web: exit 0@3"], {}, [StartContainer("web", 4)], id="Always, after success"
        ),
        pytest.param(
            ["main web: exit 1"],
            {"policy": "OnFailure"},
            [StartContainer("web", 1)],
            id="OnFailure, after failure",
        ),
        pytest.param(
            ["main web: exit 0"], {"policy": "OnFailure"}, [CleanUp()], id="OnFailure, success"
        ),
        pytest.param(["main web: exit 1"], {"policy": "Never"}, [CleanUp()], id="Never"),
        pytest.param(
            ["main a: exit 1", "main b: running"], {"policy": "Never"}, [], id="Never, one runs on"
        ),
        pytest.param(
            ["init i: -", "init j: -", "main web: -"], {}, [StartContainer("i", 0)], id="init first"
        ),
        pytest.param(
            ["init i: exit 0", "init j: -", "main web: -"], {}, [StartContainer("j", 0)], id="next"
        ),
        pytest.param(["init i: running", "main web: -"], {}, [], id="init still runs"),
        pytest.param(
            ["init i: exit 1", "main web: -"], {}, [StartContainer("i", 1)], id="init again"
        ),
        pytest.param(
            ["init i: exit 1", "main web: -"], {"policy": "Never"}, [CleanUp()], id="init failed"
        ),
        pytest.param(
            ["init i: exit 0", "main web: -"], {}, [StartContainer("web", 0)], id="initialized"
        ),
        pytest.param(
            ["init i: - < exit 0", "main web: - < exit 0"],
            {},
            [StartContainer("i", 1)],
            id="59: in a new sandbox all init containers run again",
        ),
        pytest.param(
            ["init i: -", "init j: exit 0", "main web: -"],
            {},
            [StartContainer("web", 0)],
            id="60: a pruned init container before one that is there has been through",
        ),
        pytest.param(
            ["init i: -", "main web: running"], {}, [], id="60: pruned while the app runs"
        ),
        pytest.param(
            ["sidecar s: running", "main web: -"],
            {"memory": {"s": {"started": False}}},
            [],
            id="a sidecar must have started",
        ),
        pytest.param(
            ["sidecar s: exit 1", "main web: running"],
            {"policy": "Never"},
            [StartContainer("s", 1)],
            id="a sidecar is restarted, whatever the policy",
        ),
        pytest.param(
            ["sidecar s: running", "sidecar t: running", "main web: exit 0"],
            {"policy": "Never"},
            [StopContainer("uid-t-0", "t", 130.0, "Stopping container t")],
            id="5: sidecars end with the main containers, the last first",
        ),
        pytest.param(
            ["main web: running"],
            {"sandbox": False},
            [RemoveSandbox("uid-0")],
            id="a lost sandbox is removed",
        ),
        pytest.param(
            ["main web: - < exit 1"],
            {"sandbox": None, "policy": "Never"},
            [CleanUp()],
            id="Never holds when the sandbox is lost too",
        ),
        pytest.param(
            ["main a: - < exit 0", "main b: - < exit 1"],
            {"policy": "OnFailure", "sandbox": None},
            [RunSandbox(1)],
            id="OnFailure goes on in a new sandbox",
        ),
        pytest.param(
            ["main web: running"],
            {"memory": {"web": {"unhealthy": "failed liveness probe"}}},
            [
                StopContainer(
                    "uid-web-0",
                    "web",
                    130.0,
                    "Container web failed liveness probe, will be restarted",
                )
            ],
            id="unhealthy",
        ),
        pytest.param(
            ["main web: running"],
            {"memory": {"web": {"changed": True}}},
            [
                StopContainer(
                    "uid-web-0", "web", 130.0, "Container web definition changed, will be restarted"
                )
            ],
            id="another image",
        ),
        pytest.param(
            ["main web: running"],
            {"memory": {"web": {"outdated": ("old",)}}, "stale_sandboxes": ("uid-x",)},
            [RemoveSandbox("uid-x"), RemoveContainer("old")],
            id="leftovers",
        ),
        pytest.param(
            ["main web: running"],
            {"verdict": Verdict("Evicted", "")},
            [STOP_WEB],
            id="a verdict ends it",
        ),
        pytest.param(
            ["main web: running"],
            {"status": {"phase": "Failed"}},
            [STOP_WEB],
            id="69: terminal stays terminal",
        ),
        pytest.param(
            ["main web: -"],
            {"status": {"phase": "Succeeded"}, "sandbox": None, "cleaned": True},
            [],
            id="69: finished work is not done again",
        ),
    ],
)
def test_actions(
    make_view: Any, containers: list[str], options: dict[str, Any], expected: list[Any]
) -> None:
    assert list(plan(make_view(*containers, **options)).actions) == expected


def test_back_off_delays_a_restart(make_view: Any) -> None:
    view = make_view("main web: exit 1@2", memory={"web": {"restart_at": 140.0}})
    assert (plan(view).actions, plan(view).wake_at) == ((), 140.0)


def test_a_failed_pull_is_tried_again_later(make_view: Any) -> None:
    failure = Failure("ErrImagePull", "no", retry_at=110.0)
    view = make_view("main web: -", memory={"web": {"failure": failure, "image": ""}})
    assert (plan(view).actions, plan(view).wake_at) == ((), 110.0)


def test_a_failed_sandbox_is_tried_again_later(make_view: Any) -> None:
    failure = Failure("FailedCreatePodSandBox", "no", retry_at=110.0)
    view = make_view("main web: -", sandbox=None, failure=failure)
    assert (plan(view).actions, plan(view).wake_at) == ((), 110.0)


def test_the_active_deadline(make_view: Any) -> None:
    options = {"spec": {"activeDeadlineSeconds": 60}}
    early = {"startTime": "1970-01-01T00:33:00Z"}  # 20 s before `wall`
    late = {"startTime": "1970-01-01T00:30:00Z"}
    assert plan(make_view("main web: running", status=early, **options)).wake_at == 140.0
    (fail,) = plan(make_view("main web: running", status=late, **options)).actions
    assert isinstance(fail, Fail)
    assert fail.verdict.reason == "DeadlineExceeded"


def test_a_probe_may_shorten_the_grace(make_view: Any) -> None:
    view = make_view("main web: running", memory={"web": {"unhealthy": "failed liveness probe"}})
    view.containers[0].spec.liveness_probe = Probe(termination_grace_period_seconds=5)
    (stop,) = plan(view).actions
    assert isinstance(stop, StopContainer)
    assert stop.deadline == 105.0


def test_deletion_in_order(make_view: Any) -> None:
    """Stop all but sidecars, then the sidecars in reverse; clean up; let the object go."""
    ending = {"stop_by": 130.0}
    web = make_view("sidecar s: running", "main web: running", **ending)
    assert plan(web).actions == (STOP_WEB,)
    sidecar = make_view("sidecar s: running", "main web: exit 0", **ending)
    assert [a.key for a in plan(sidecar).actions] == ["stop:uid-s-0"]
    ended = make_view("sidecar s: exit 0", "main web: exit 0", **ending)
    assert plan(ended).actions == (CleanUp(),)
    cleaned = make_view("main web: exit 0", sandbox=None, cleaned=True, **ending)
    assert plan(cleaned).actions == (DeleteObject(),)
    gone = make_view("main web: exit 0", sandbox=None, cleaned=True, gone=True, **ending)
    assert plan(gone).done


def test_deletion_gives_up_pulls_and_waits_for_starts(make_view: Any) -> None:
    pulling = make_view("main web: -", stop_by=130.0, busy={"pull:web": 0.0})
    assert plan(pulling).actions == (Cancel("pull:web"),)
    starting = make_view("main web: -", stop_by=130.0, busy={"start": 0.0})
    assert plan(starting).actions == ()


def test_a_shorter_grace_replaces_the_stop_under_way(make_view: Any) -> None:
    view = make_view("main web: running", stop_by=101.0, busy={"stop:uid-web-0": 130.0})
    (stop,) = plan(view).actions
    assert isinstance(stop, StopContainer)
    assert stop.deadline == 101.0
    longer = make_view("main web: running", stop_by=130.0, busy={"stop:uid-web-0": 101.0})
    assert plan(longer).actions == ()
