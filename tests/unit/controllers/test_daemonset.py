"""On which nodes a DaemonSet has pods, and which of them come and go."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.api.objects import DaemonSet, Node, Pod, decode
from shepherd.controllers.daemonset_plan import Plan, Scene, plan, status_of
from shepherd.controllers.daemonset_pods import Fit, fits, new_pod, node_of

NOW = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""
RUN = Fit(run=True, stay=True)
STAY = Fit(run=False, stay=True)
NONE = Fit(run=False, stay=False)


def daemon_set(**spec: Any) -> DaemonSet:
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": []}}
    meta = {"name": "agent", "namespace": "default", "uid": "set", "generation": 4}
    return decode({"metadata": meta, "spec": {"template": template} | spec}, DaemonSet)


def pod(node: str, revision: str = "new", *, name: str = "", ready: bool = True,
        phase: str = "Running", bound: bool = True, leaving: bool = False,
        born: str = "22:00:00") -> Pod:  # fmt: skip
    meta: dict[str, Any] = {
        "name": name or f"{node}-{revision}",
        "uid": name or f"{node}-{revision}",
        "labels": {"controller-revision-hash": revision},
        "creationTimestamp": f"2025-12-31T{born}Z",
    }
    if leaving:
        meta["deletionTimestamp"] = "2025-12-31T23:30:00Z"
    condition = {
        "type": "Ready",
        "status": str(ready),
        "lastTransitionTime": "2025-12-31T23:00:00Z",
    }
    spec = new_pod(daemon_set(), revision, node)["spec"] | ({"nodeName": node} if bound else {})
    status = {"phase": phase, "conditions": [condition]}
    return decode({"metadata": meta, "spec": spec, "status": status}, Pod)


def scene(nodes: dict[str, Fit], pods: list[Pod], surge: int | str = 0,
          unavailable: int | str = 1, **spec: Any) -> Scene:  # fmt: skip
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    return Scene(daemon_set(**(strategy | spec)), "new", nodes, pods, NOW)


def names(found: Plan) -> tuple[list[str], list[str]]:
    """Nodes that get a pod, and pods that go."""
    return found.create, [p.metadata.name for p in found.delete]


ONE = {"a": RUN}
THREE = {"a": RUN, "b": RUN, "c": RUN}


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        (THREE, [pod("b")], (["a", "c"], [])),
        (ONE, [pod("a", bound=False, ready=False)], ([], [])),
        (ONE, [pod("a", leaving=True)], ([], [])),
        (ONE, [pod("a", phase="Failed", leaving=True)], (["a"], [])),
        ({"a": STAY}, [], ([], [])),
        ({"a": STAY}, [pod("a")], ([], [])),
        ({"a": NONE}, [pod("a")], ([], ["a-new"])),
        ({}, [pod("a")], ([], [])),
        ({}, [pod("a", bound=False)], ([], ["a-new"])),
        (ONE, [pod("a", name="y", born="21:00:00"), pod("a", name="x")], ([], ["x"])),
        (ONE, [pod("a", name="y", born="21:00:00", bound=False), pod("a", name="x")], ([], ["y"])),
    ],
    ids=["missing", "on its way", "leaving", "ended and leaving", "not wanted", "may stay",
         "must go", "lost with its node", "meant for a lost node", "two", "the unbound of two"],
)  # fmt: skip
def test_one_pod_on_each_node(
    nodes: dict[str, Fit], pods: list[Pod], expected: tuple[list[str], list[str]]
) -> None:
    assert names(plan(scene(nodes, pods))) == expected


def test_pods_that_have_ended_go_and_hold_up_nothing() -> None:
    pods = [pod("a", phase="Failed", ready=False), pod("b", "old"), pod("c", "old")]
    found = plan(scene(THREE, pods, unavailable=2))
    assert [p.metadata.name for p in found.ended] == ["a-new"]
    assert names(found) == ([], ["b-old"])


@pytest.mark.parametrize(
    ("pods", "unavailable", "expected"),
    [
        ([pod("a", "old"), pod("b", "old"), pod("c", "old")], 1, ["a-old"]),
        ([pod("a", "old"), pod("b", "old"), pod("c", "old")], "50%", ["a-old", "b-old"]),
        ([pod("a"), pod("b", "old"), pod("c", "old")], 1, ["b-old"]),
        ([pod("a", ready=False), pod("b", "old"), pod("c", "old")], 1, []),
        ([pod("a", "old", leaving=True), pod("b", "old"), pod("c", "old")], 1, []),
        ([pod("a", "old"), pod("b", "old", ready=False), pod("c")], 1, ["b-old", "a-old"]),
    ],
    ids=["first", "share", "next", "waits for the new", "waits for the leaving",
         "the unavailable costs nothing"],
)  # fmt: skip
def test_an_update_keeps_enough_pods(
    pods: list[Pod], unavailable: int | str, expected: list[str]
) -> None:
    assert names(plan(scene(THREE, pods, unavailable=unavailable))) == ([], expected)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("a", "old"), pod("b", "old"), pod("c", "old")], (["a"], [])),
        ([pod("a", "old"), pod("a", ready=False), pod("b", "old"), pod("c")], ([], [])),
        ([pod("a", "old"), pod("a"), pod("b", "old"), pod("c")], ([], ["a-old"])),
        ([pod("a", "old", ready=False), pod("b", "old"), pod("c")], (["a", "b"], [])),
        ([pod("a", "old", ready=False), pod("a", ready=False), pod("b"), pod("c")],
         ([], ["a-old"])),
        ([pod("a", "old", leaving=True), pod("b"), pod("c")], (["a"], [])),
    ],
    ids=["one more", "waits for the new", "its duty is done", "a broken one costs nothing",
         "broken old", "beside a leaving one"],
)  # fmt: skip
def test_with_surge_the_new_come_first(
    pods: list[Pod], expected: tuple[list[str], list[str]]
) -> None:
    assert names(plan(scene(THREE, pods, surge=1, unavailable=0))) == expected


def test_with_surge_a_node_is_given_up_when_another_one_serves() -> None:
    nodes = {"a": STAY, "b": RUN}
    waits = scene(nodes, [pod("a", "old"), pod("b", ready=False)], surge=1, unavailable=0)
    assert names(plan(waits)) == ([], [])
    serves = scene(nodes, [pod("a", "old"), pod("b")], surge=1, unavailable=0)
    assert names(plan(serves)) == ([], ["a-old"])


def test_on_delete_replaces_nothing() -> None:
    found = scene(ONE, [pod("a", "old")], updateStrategy={"type": "OnDelete"})
    assert names(plan(found)) == ([], [])


def test_the_status_counts_nodes() -> None:
    nodes = {"a": RUN, "b": RUN, "c": STAY, "d": RUN}
    pods = [pod("a"), pod("b", "old", ready=False), pod("c")]
    status, wait = status_of(scene(nodes, pods), None)
    assert status == {
        "observedGeneration": 4,
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
        "collisionCount": None,
    }
    assert wait is None
    recent, wait = status_of(scene(ONE, [pod("a")], minReadySeconds=7200), None)
    assert (recent["numberReady"], recent["numberAvailable"], wait) == (1, 0, 3600.0)


@settings(max_examples=150, deadline=None)
@given(
    old=st.sets(st.sampled_from("abcdef")),
    surge=st.integers(0, 2),
    unavailable=st.integers(0, 3),
)
def test_an_update_comes_to_its_end_within_its_bounds(
    old: set[str], surge: int, unavailable: int
) -> None:
    """What is made is ready in the next step, what is deleted is gone."""
    nodes = dict.fromkeys("abcdef", RUN)
    pods = [pod(name, "old" if name in old else "new") for name in nodes]
    bound = 0 if surge else max(1, unavailable)
    for _ in range(40):
        todo = plan(scene(nodes, pods, surge=surge, unavailable=0 if surge else unavailable))
        if todo == Plan():
            break
        pods = [p for p in pods if p not in todo.delete]
        served = {node_of(p) for p in pods}
        assert len(nodes) - len(served) <= bound
        pods += [pod(name) for name in todo.create]
        assert len(pods) <= len(nodes) + surge
    assert sorted(p.metadata.name for p in pods) == [f"{name}-new" for name in nodes]


def node(taints: list[dict[str, str]] | None = None, **labels: str) -> Node:
    return decode(
        {"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": taints or []}}, Node
    )


GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def on_nodes(names: list[str]) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": names}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("spec", "found", "expected"),
    [
        ({}, node(), RUN),
        ({"nodeName": "n2"}, node(), NONE),
        ({"nodeName": "n1"}, node(), RUN),
        ({"nodeSelector": {"disk": "ssd"}}, node(), NONE),
        ({"nodeSelector": {"disk": "ssd"}}, node(disk="ssd"), RUN),
        (on_nodes(["n2"]), node(), NONE),
        (on_nodes(["n1", "n2"]), node(), RUN),
        ({}, node([GPU]), STAY),
        ({}, node([GPU | {"effect": "NoExecute"}]), NONE),
        ({}, node([GPU | {"effect": "PreferNoSchedule"}]), RUN),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, node([GPU]), RUN),
        *(({}, node([{"key": f"node.kubernetes.io/{key}", "effect": effect}]), fit)
          for key, effect, fit in [
              ("unschedulable", "NoSchedule", RUN),
              ("disk-pressure", "NoSchedule", RUN),
              ("unreachable", "NoExecute", RUN),
              ("not-ready", "NoSchedule", STAY),
              ("network-unavailable", "NoSchedule", STAY),
              ("out-of-service", "NoExecute", NONE),
          ]),
        ({"hostNetwork": True},
         node([{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]), RUN),
    ],
)  # fmt: skip
def test_what_is_wanted_of_a_node(spec: dict[str, Any], found: Node, expected: Fit) -> None:
    assert fits({"spec": {"containers": []} | spec})(found) == expected


def test_an_affinity_of_the_templates_own_gives_way_to_the_node_but_preferences_stay() -> None:
    prefers = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    spec = on_nodes(["a", "b"])
    spec["affinity"]["nodeAffinity"] |= prefers
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": spec}
    body = new_pod(daemon_set(template=template), "new", "b")
    assert body["spec"]["affinity"]["nodeAffinity"].items() >= prefers.items()
    assert node_of(decode(body, Pod)) == "b"


def test_a_name_is_given_once_for_each_place_and_occasion() -> None:
    given = [
        new_pod(daemon_set(), revision, node, present)["metadata"]["name"]
        for revision, node, present in [
            ("new", "a", []),
            ("new", "a", []),
            ("old", "a", []),
            ("new", "b", []),
            ("new", "a", ["leaving"]),
        ]
    ]
    assert given[0] == given[1]
    assert len(set(given)) == 4
