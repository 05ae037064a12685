"""Resources of a pod that runs: what may change of them, and what may not."""

from copy import deepcopy
from typing import Any

import pytest

from shepherd.api.kinds import POD
from shepherd.api.kinds.resize import resized, validate_resize

Pod = dict[str, Any]


def container(name: str, **more: Any) -> Pod:
    requests, limits = {"cpu": "100m", "memory": "64Mi"}, {"cpu": "200m", "memory": "128Mi"}
    made = {"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}}
    return made | more


def pod(**spec: Any) -> Pod:
    made: Pod = {
        "metadata": {"name": "p"},
        "spec": {
            "initContainers": [container("init"), container("sidecar", restartPolicy="Always")],
            "containers": [container("a"), container("b")],
            **spec,
        },
    }
    POD.default(made)
    return made


def change(kind: str, index: int, **resources: Any) -> Pod:
    """The pod with other requests or limits of one container."""
    wanted = pod()
    wanted["spec"][kind][index]["resources"] |= resources
    return wanted


def problems(wanted: Pod, old: Pod) -> list[tuple[str, str]]:
    found = validate_resize(resized(wanted, old), old)
    return [(error.field, error.message) for error in found]


MORE = {"cpu": "2", "memory": "1Gi"}
LESS = {"cpu": "50m", "memory": "32Mi"}


@pytest.mark.parametrize(
    "wanted",
    [
        change("containers", 1, limits=MORE),
        change("containers", 0, requests=LESS),
        change("containers", 0, requests=LESS, limits=LESS),
        change("initContainers", 1, limits=MORE),
        pod(),
    ],
)
def test_cpu_and_memory_may_change(wanted: Pod) -> None:
    assert problems(wanted, pod()) == []


def test_a_limit_may_be_added() -> None:
    old = pod()
    for name in ("requests", "limits"):
        del old["spec"]["containers"][0]["resources"][name]
    wanted = deepcopy(old)
    wanted["spec"]["containers"][0]["resources"] = {"requests": LESS, "limits": MORE}
    assert problems(wanted, old) == []


def test_what_else_is_asked_for_is_left_out() -> None:
    old, wanted = pod(), change("containers", 0, limits=MORE)
    wanted["metadata"]["labels"] = {"a": "b"}
    wanted["spec"]["containers"][0]["image"] = "other"
    wanted["spec"]["nodeName"] = "elsewhere"
    new = resized(wanted, old)
    assert validate_resize(new, old) == []
    assert new["metadata"] == old["metadata"]
    assert new["spec"]["containers"][0]["image"] == "i"
    assert "nodeName" not in new["spec"]
    assert new["spec"]["containers"][0]["resources"]["limits"] == MORE


CPU_AND_MEMORY = "only cpu and memory resources"
GUARANTEED = {"requests": MORE, "limits": MORE}


@pytest.mark.parametrize(
    ("wanted", "field", "text"),
    [
        (change("containers", 0, limits={"cpu": "200m"}), "spec.containers[0].resources.limits",
         "resource limits cannot be removed"),
        (change("initContainers", 1, requests={"memory": "64Mi"}, limits={"memory": "64Mi"}),
         "spec.initContainers[1].resources.limits", "resource limits cannot be removed"),
        (change("containers", 0, requests={}, limits={}),
         "spec.containers[0].resources.requests", "resource requests cannot be removed"),
        (change("initContainers", 0, limits=MORE), "spec",
         "resources for non-sidecar init containers are immutable"),
        (change("containers", 0, limits=MORE | {"ephemeral-storage": "1Gi"}), "spec",
         f"{CPU_AND_MEMORY} are mutable"),
        (change("initContainers", 1, limits=MORE | {"ephemeral-storage": "1Gi"}), "spec",
         f"{CPU_AND_MEMORY} for sidecar containers are mutable"),
        (change("containers", 0, requests=MORE), "spec.containers[0].resources.requests",
         "must be less than or equal to cpu limit of 200m"),
        (pod(containers=[container("a")]), "spec", "containers may not be added or removed"),
        (pod(containers=[container("b"), container("a")]), "spec",
         "containers may not be renamed or reordered on resize"),
        (pod(initContainers=[]), "spec", "initContainers may not be added or removed"),
        (pod(containers=[container("a", resizePolicy=[
            {"resourceName": "cpu", "restartPolicy": "RestartContainer"}]), container("b")]),
         "spec", f"{CPU_AND_MEMORY} are mutable"),
    ],
)  # fmt: skip
def test_all_else_is_refused(wanted: Pod, field: str, text: str) -> None:
    assert any(where == field and text in message for where, message in problems(wanted, pod()))


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"requests": LESS}), (GUARANTEED, {"requests": LESS, "limits": MORE}),
     ({"requests": LESS, "limits": MORE}, GUARANTEED)],
)  # fmt: skip
def test_the_quality_of_service_stays(before: Pod, after: Pod) -> None:
    old = pod(initContainers=[], containers=[container("a", resources=before)])
    wanted = pod(initContainers=[], containers=[container("a", resources=after)])
    (field, message), *_ = problems(wanted, old)
    assert field == "spec"
    assert "Pod QOS Class may not change as a result of resizing" in message


@pytest.mark.parametrize(
    ("more", "annotations", "text"),
    [
        ({"os": {"name": "windows"}}, {}, "windows pods cannot be resized"),
        ({"resources": {"limits": {"cpu": "1"}}}, {}, "pods with pod-level resources"),
        ({}, {"kubernetes.io/config.mirror": "x"}, "static pods cannot be resized"),
    ],
)
def test_some_pods_cannot_be_resized(more: Pod, annotations: Pod, text: str) -> None:
    old = pod(**more)
    old["metadata"]["annotations"] = annotations
    assert text in problems(change("containers", 0, limits=MORE), old)[0][1]


@pytest.mark.parametrize(
    ("policies", "restart", "text"),
    [
        ([{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2, "Always", "Duplicate"),
        ([{"resourceName": "disk", "restartPolicy": "NotRequired"}], "Always", "supported values"),
        ([{"resourceName": "cpu", "restartPolicy": "Never"}], "Always", "supported values"),
        ([{"resourceName": "cpu"}], "Always", "Required"),
        ([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}], "Never",
         "must be 'NotRequired' when `restartPolicy` is 'Never'"),
    ],
)  # fmt: skip
def test_resize_policies_are_checked(policies: list[Pod], restart: str, text: str) -> None:
    made = pod(restartPolicy=restart, containers=[container("a", resizePolicy=policies)])
    assert any(text in error.message for error in POD.validate(made))
