"""Other resources for a pod that runs: what the node grants, and what is done then."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from shepherd.agent.pod_plan import (
    Action,
    CleanUp,
    ResizeContainer,
    ResizeSandbox,
    StartContainer,
    StopContainer,
    plan,
)
from shepherd.agent.pod_state import BoundPod, ContainerView, Failure, PodView, Verdict
from shepherd.agent.pod_status import patch, status
from shepherd.agent.resize import as_held, grant, summary
from shepherd.api.objects.pod import ContainerResizePolicy
from shepherd.runtime.base import ContainerInfo, ContainerState, Resources, SandboxInfo

NODE = {"cpu": "1", "memory": "1Gi", "pods": "10"}


def pod(cpu: str, memory: str = "64Mi", **more: Any) -> BoundPod:
    amounts = {"cpu": cpu, "memory": memory}
    container = {"name": "web", "resources": {"requests": amounts, "limits": amounts}}
    meta = {"name": "web", "uid": "uid", "generation": 2}
    return msgspec.convert(
        {"metadata": meta, "spec": {"containers": [container]}, **more}, BoundPod
    )


def info(resources: Resources, attempt: int = 0) -> ContainerInfo:
    return ContainerInfo("c", "s", "web", attempt, ContainerState.EXITED, "i", resources=resources)


# What the node grants


@pytest.mark.parametrize(
    ("asked", "held", "others", "refused"),
    [
        pytest.param("500m", "100m", [], None, id="there is room"),
        pytest.param("500m", "100m", ["500m"], None, id="just enough: its own do not count twice"),
        pytest.param(
            "500m", "100m", ["600m"],
            Verdict("Deferred", "Node didn't have enough resource: cpu, requested: 500, "
                    "used: 600, capacity: 1000"),
            id="others have it",
        ),
        pytest.param(
            "1500m", "100m", [],
            Verdict("Infeasible",
                    "Node didn't have enough capacity: cpu, requested: 1500, capacity: 1000"),
            id="nobody can have that",
        ),
        pytest.param("400m", "500m", ["900m"], None, id="less, though the node is overfull"),
        pytest.param("500m", "500m", ["900m"], None, id="no change"),
    ],
)  # fmt: skip
def test_grants(asked: str, held: str, others: list[str], refused: Verdict | None) -> None:
    found = grant(pod(asked), pod(held), [pod(cpu) for cpu in others], NODE)
    assert found.refused == refused
    assert found.pod == pod(held if refused else asked)
    assert found.asked == pod(asked)


def test_what_was_given_last_is_held() -> None:
    older, newer = info(Resources(100)), info(Resources(300, 1 << 20, 200, 1 << 19), attempt=1)
    sandbox = SandboxInfo("s", "uid", "web", "default", 0, True, containers=(newer, older))
    (container,) = as_held(pod("1"), [sandbox]).spec.containers
    assert container.resources.limits == {"cpu": "300m", "memory": "1Mi"}
    assert container.resources.requests == {"cpu": "200m", "memory": "512Ki"}
    assert as_held(pod("1"), []) == pod("1")


def test_events_tell_all_resources() -> None:
    assert summary(pod("1"), "too much") == (
        '{"containers":[{"name":"web","resources":{"limits":{"cpu":"1","memory":"64Mi"},'
        '"requests":{"cpu":"1","memory":"64Mi"}}}],"generation":2,"error":"too much"}'
    )


# What is done

SMALL, LARGE = Resources(100, 100, 100, 100), Resources(200, 200, 200, 200)
BOTH = Resources(300, 300, 300, 300)
RESTARTS = [ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer")]
RESIZE = ResizeContainer("uid-web-0", LARGE)
RESTART = StopContainer(
    "uid-web-0", "web", 130.0, "Container web resize requires restart", again=True
)


def resized(
    view: PodView, have: Resources, want: Resources, pod_has: Resources, pod_wants: Resources,
    policy: list[ContainerResizePolicy],
) -> PodView:  # fmt: skip
    """The view with these resources of its container `web` and its sandbox."""
    assert view.sandbox

    def change(c: ContainerView) -> ContainerView:
        if c.spec.name != "web":
            return c
        spec = msgspec.structs.replace(c.spec, resize_policy=policy)
        current = replace(c.current, resources=have) if c.current else None
        return replace(c, spec=spec, granted=want, current=current)

    return replace(
        view,
        containers=tuple(map(change, view.containers)),
        sandbox=replace(view.sandbox, resources=pod_has),
        granted=pod_wants,
    )


@pytest.mark.parametrize(
    ("containers", "resources", "policy", "expected"),
    [
        pytest.param("main web: running", (SMALL, SMALL, SMALL, SMALL), [], [], id="nothing"),
        pytest.param("main web: running", (SMALL, LARGE, SMALL, LARGE), [],
                     [ResizeSandbox("uid-0", LARGE)], id="more: first for the pod"),
        pytest.param("main web: running", (SMALL, LARGE, LARGE, LARGE), [], [RESIZE],
                     id="then for the container"),
        pytest.param("main web: running", (LARGE, SMALL, LARGE, SMALL), [],
                     [ResizeContainer("uid-web-0", SMALL)], id="less: first the container"),
        pytest.param("main web: running", (SMALL, SMALL, LARGE, SMALL), [],
                     [ResizeSandbox("uid-0", SMALL)], id="then for the pod"),
        pytest.param("main web: running",
                     (Resources(100, 200), Resources(200, 100), Resources(100, 200),
                      Resources(200, 100)), [],
                     [ResizeSandbox("uid-0", Resources(200, 200))], id="some more, some less"),
        pytest.param("main web: running",
                     (SMALL, LARGE, replace(LARGE, cpu_millis=None), LARGE), [],
                     [RESIZE], id="a pod without a limit has room"),
        pytest.param("main web: running", (SMALL, LARGE, LARGE, LARGE), RESTARTS, [RESTART],
                     id="its policy asks for a restart"),
        pytest.param("main web: running",
                     (SMALL, replace(SMALL, memory_bytes=200), BOTH, BOTH), RESTARTS,
                     [ResizeContainer("uid-web-0", replace(SMALL, memory_bytes=200))],
                     id="its policy is about something else"),
        pytest.param("main web: running",
                     (SMALL, replace(SMALL, memory_request_bytes=50), BOTH, BOTH),
                     [ContainerResizePolicy(resource_name="memory",
                                            restart_policy="RestartContainer")],
                     [ResizeContainer("uid-web-0", replace(SMALL, memory_request_bytes=50))],
                     id="a memory request is no reason to restart"),
        pytest.param("sidecar web: running, main app: running", (SMALL, LARGE, LARGE, LARGE), [],
                     [RESIZE], id="a sidecar"),
        pytest.param("init web: running, main app: -", (SMALL, LARGE, LARGE, LARGE), [], [],
                     id="no init container"),
        pytest.param("main web: exit 1", (SMALL, LARGE, LARGE, LARGE), [],
                     [StartContainer("web", 1)], id="what starts anew gets all at once"),
        pytest.param("main web: exit 1", (SMALL, LARGE, SMALL, LARGE), [],
                     [ResizeSandbox("uid-0", LARGE)], id="but waits for the pod's room"),
    ],
)  # fmt: skip
def test_steps(
    make_view: Any,
    containers: str,
    resources: tuple[Resources, Resources, Resources, Resources],
    policy: list[ContainerResizePolicy],
    expected: list[Action],
) -> None:
    view = resized(make_view(*containers.split(", ")), *resources, policy)
    assert list(plan(view).actions) == expected


def test_who_was_stopped_for_it_starts_anew_however_it_ended(make_view: Any) -> None:
    text, policy = "main web: exit 0", "OnFailure"
    view = make_view(text, policy=policy, memory={"web": {"again": True}})
    assert plan(view).actions == (StartContainer("web", 1),)
    view = resized(make_view(text, policy=policy), SMALL, LARGE, SMALL, LARGE, RESTARTS)
    assert plan(view).actions == (CleanUp(),)  # it had ended by itself


def test_what_failed_is_tried_again_later(make_view: Any) -> None:
    view = resized(make_view("main web: running"), SMALL, LARGE, LARGE, LARGE, [])
    view = replace(view, resize_failure=Failure("Error", "in use", 1, 105.0))
    found = plan(view)
    assert (found.actions, found.wake_at) == ((), 105.0)
    assert plan(replace(view, now=105.0)).actions == (RESIZE,)


def test_a_pod_on_its_way_out_is_left_alone(make_view: Any) -> None:
    view = resized(make_view("main web: running"), SMALL, LARGE, LARGE, LARGE, [])
    assert not any(
        isinstance(a, ResizeContainer) for a in plan(replace(view, stop_by=130.0)).actions
    )


# What is told


def test_conditions_come_and_go(make_view: Any) -> None:
    quiet = make_view("main web: running")
    view = resized(quiet, SMALL, LARGE, LARGE, LARGE, [])
    view = replace(
        view,
        refused=Verdict("Deferred", "no room"),
        resize_failure=Failure("Error", "in use", 1, 105.0),
    )
    told = status(view, {})
    found = {c["type"]: c for c in told["conditions"]}
    for kind, reason, message in (
        ("PodResizePending", "Deferred", "no room"), ("PodResizeInProgress", "Error", "in use"),
    ):  # fmt: skip
        assert found[kind]["status"] == "True"
        assert (found[kind]["reason"], found[kind]["message"]) == (reason, message)
        assert found[kind]["observedGeneration"] == 1
    later = patch(told, status(quiet, told))["conditions"]
    assert later == [
        {"$patch": "delete", "type": "PodResizePending"},
        {"$patch": "delete", "type": "PodResizeInProgress"},
    ]
