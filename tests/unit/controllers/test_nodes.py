"""What a node's state means for its taints, and a taint for its pods."""

from typing import Any

import pytest

from shepherd.api.objects import Node, Pod, Taint, decode
from shepherd.controllers.node_ipam import NodeRanges
from shepherd.controllers.node_lifecycle import new_taints, unknown_conditions
from shepherd.controllers.pod_gc import removals
from shepherd.controllers.taint_eviction import patience

NOW = 1_767_225_600.0
NODE = "node.kubernetes.io"


def node(ready: str = "True", taints: list[dict[str, str]] | None = None, **more: Any) -> Node:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    conditions += [{"type": kind, "status": "True"} for kind in more.pop("pressure", [])]
    spec = {"taints": taints or []} | more
    return decode({"metadata": {"name": "n1"}, "spec": spec, "status": {"conditions": conditions}},
                  Node)  # fmt: skip


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (node("True"), None),
        (node("False"), ["not-ready:NoSchedule", "not-ready:NoExecute"]),
        (node("Unknown"), ["unreachable:NoSchedule", "unreachable:NoExecute"]),
        (node(""), ["not-ready:NoSchedule"]),
        (node("True", pressure=["DiskPressure"]), ["disk-pressure:NoSchedule"]),
        (node("True", unschedulable=True), ["unschedulable:NoSchedule"]),
        (node("True", [{"key": f"{NODE}/unreachable", "effect": "NoExecute"}]), []),
    ],
)
def test_taints_follow_the_conditions(state: Node, expected: list[str] | None) -> None:
    found = new_taints(state, evict=True, now=NOW)
    assert (found is None) == (expected is None)
    names = [f"{t['key'].removeprefix(NODE + '/')}:{t['effect']}" for t in found or []]
    assert names == (expected or [])


def test_users_own_taints_stay_and_times_are_kept() -> None:
    own = {"key": "gpu", "value": "yes", "effect": "NoExecute"}
    lost = {"key": f"{NODE}/unreachable"}
    old = lost | {"effect": "NoSchedule", "timeAdded": "2025-01-01T00:00:00Z"}
    new = lost | {"effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    found = new_taints(node("Unknown", [own, old]), evict=True, now=NOW)
    assert found == [own, old, new]
    assert new_taints(node("Unknown", [own, old]), evict=False, now=NOW) is None


def test_a_silent_node_is_unknown_in_all_that_it_told() -> None:
    found = unknown_conditions(node("True"), NOW)
    reasons = {c["type"]: c["reason"] for c in found}
    assert reasons["Ready"] == "NodeStatusUnknown"
    assert reasons["DiskPressure"] == "NodeStatusNeverUpdated"
    assert {c["status"] for c in found} == {"Unknown"}


def pod(name: str = "p", tolerations: list[dict[str, Any]] | None = None,
        phase: str = "Running", on: str = "n1", **meta: Any) -> Pod:  # fmt: skip
    return decode(
        {
            "metadata": {"name": name, **meta},
            "spec": {"nodeName": on, "tolerations": tolerations or []},
            "status": {"phase": phase},
        },
        Pod,
    )


TAINT = Taint(key=f"{NODE}/unreachable", effect="NoExecute")


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0.0),
        ([{"operator": "Exists"}], None),
        ([{"key": TAINT.key, "operator": "Exists", "tolerationSeconds": 300}], 300.0),
        ([{"key": TAINT.key, "operator": "Exists", "effect": "NoSchedule"}], 0.0),
        ([{"key": TAINT.key, "operator": "Equal", "value": "x"}], 0.0),
        ([{"key": TAINT.key}], None),
        ([{"operator": "Exists", "tolerationSeconds": 9},
          {"key": TAINT.key, "operator": "Exists", "tolerationSeconds": -1}], 0.0),
        ([{"operator": "Exists", "tolerationSeconds": 9}, {"key": TAINT.key}], 9.0),
    ],
)  # fmt: skip
def test_how_long_a_pod_bears_a_taint(
    tolerations: list[dict[str, Any]], expected: float | None
) -> None:
    assert patience(pod(tolerations=tolerations), TAINT) == expected


def test_pods_that_nobody_else_will_remove() -> None:
    leaving = "2026-01-01T00:00:00Z"
    dead = node("Unknown", [{"key": f"{NODE}/out-of-service", "effect": "NoExecute"}])
    pods = [
        pod("runs"),
        pod("unbound", on="", deletionTimestamp=leaving),
        pod("lost", on="gone"),
        pod("not yet known to be lost", on="missing"),
        pod("stuck", on="dead", deletionTimestamp=leaving),
        pod("stays", on="dead"),
        pod("old", phase="Failed", creationTimestamp="2025-01-01T00:00:00Z"),
        pod("new", phase="Succeeded", creationTimestamp="2025-06-01T00:00:00Z"),
    ]
    found = removals(pods, {"n1": node(), "dead": dead}, {"gone"}, finished_limit=1)
    assert [item.pod.metadata.name for item in found] == ["unbound", "lost", "stuck", "old"]
    assert [bool(item.message) for item in found] == [False, True, True, False]


def test_the_ranges_of_a_cluster() -> None:
    found = NodeRanges("10.42.0.0/16", 24)
    assert (len(found), found[0], found[255]) == (256, "10.42.0.0/24", "10.42.255.0/24")
    small = NodeRanges("10.9.8.0/25", 24)
    assert (len(small), small[0]) == (1, "10.9.8.0/25")
    assert NodeRanges("fd00::/48", 64)[1] == "fd00:0:0:1::/64"
