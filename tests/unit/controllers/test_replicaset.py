"""Which pods a ReplicaSet makes and gives up."""

from typing import Any

import pytest

from shepherd.api.objects import Pod, ReplicaSet, decode
from shepherd.controllers.pods import deletion_order
from shepherd.controllers.replicaset import creation_pause, scaling, status_of

NOW = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""


def pod(name: str, *, node: str = "n1", phase: str = "Running", ready: str = "23:00:00",
        born: str = "22:00:00", cost: str = "", restarts: int = 0, **meta: Any) -> Pod:  # fmt: skip
    since = f"2025-12-31T{ready}Z"
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}] if ready else []
    key = "controller.kubernetes.io/pod-deletion-cost"
    body = {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": f"2025-12-31T{born}Z",
            "annotations": {key: cost} if cost else {},
            **meta,
        },
        "spec": {"nodeName": node, "containers": []},
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{"name": "c", "restartCount": restarts}],
        },
    }
    return decode(body, Pod)


def replica_set(replicas: int, **spec: Any) -> ReplicaSet:
    template = {"metadata": {"labels": {"app": "web"}}}
    meta = {"name": "web", "namespace": "default", "uid": "rs", "generation": 4}
    return decode(
        {"metadata": meta, "spec": {"replicas": replicas, "template": template} | spec}, ReplicaSet
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod("a", node=""), pod("b", phase="Pending", ready="")),
        (pod("a", phase="Pending", ready=""), pod("b", phase="Unknown", ready="")),
        (pod("a", phase="Unknown", ready=""), pod("b", ready="")),
        (pod("a", ready="", cost="100"), pod("b")),
        (pod("a", cost="-5"), pod("b")),
        (pod("a", cost="not a number"), pod("b", cost="1")),
        (pod("a", ready="23:30:00"), pod("b", ready="23:00:00")),
        (pod("a", restarts=3), pod("b", restarts=1)),
        (pod("a", born="22:30:00"), pod("b", born="22:00:00")),
    ],
    ids=["unassigned", "pending", "unknown", "unready", "cost", "bad cost", "younger readiness",
         "restarts", "younger"],
)  # fmt: skip
def test_what_matters_least_goes_first(first: Pod, second: Pod) -> None:
    assert deletion_order([second, first], [])[0] is first


def test_a_crowded_node_gives_up_first_also_for_siblings() -> None:
    a, b = pod("a", node="n1"), pod("b", node="n2")
    sibling = pod("c", node="n2")
    assert deletion_order([a, b], [a, b, sibling])[0] is b


def test_finished_pods_and_those_under_deletion_do_not_count() -> None:
    pods = [
        pod("runs"),
        pod("failed", phase="Failed"),
        pod("done", phase="Succeeded"),
        pod("leaving", deletionTimestamp="2026-01-01T00:00:00Z"),
    ]
    assert scaling(replica_set(3), pods, [], NOW).create == 2
    assert [p.metadata.name for p in scaling(replica_set(0), pods, [], NOW).delete] == ["runs"]


def test_one_round_of_failures_is_forgiven_and_more_slow_creation_down() -> None:
    def failed(count: int) -> list[Pod]:
        return [pod(f"p{n}", phase="Failed", born="23:59:59") for n in range(count)]

    assert creation_pause(10, failed(9), NOW) == 0.0
    pauses = [creation_pause(1, failed(count), NOW) for count in (1, 2, 3, 5, 20)]
    assert pauses == [0.0, 1.0, 3.0, 15.0, 299.0]
    plan = scaling(replica_set(1), failed(3), [], NOW)
    assert (plan.create, plan.again) == (0, 3.0)
    assert creation_pause(1, [pod("old", phase="Failed", born="22:59:00")], NOW) == 0.0


def test_availability_counts_from_readiness_and_tells_when_it_changes() -> None:
    pods = [pod("old", ready="23:00:00"), pod("new", ready="23:59:50"), pod("none", ready="")]
    status, again = status_of(replica_set(3, minReadySeconds=30), pods, "", NOW)
    assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (3, 2, 1)
    assert status["observedGeneration"] == 4
    assert status["fullyLabeledReplicas"] == 0
    assert again == 20.0
