"""Every node and what stands against the pod there: as the scheduler itself decides."""

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.api.resource import Object
from shepherd.scheduler.explain import Objection, explain
from shepherd.testing.scheduling import HOSTNAME, Scene, node, pod

PORT = {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}


def bound(name: str, to: str, **spec: Any) -> Any:
    return pod(name, nodeName=to, **spec)


def test_every_node_is_named_with_all_that_stands_against_it() -> None:
    """kubernetes/kubernetes#91340, #17488: of nine nodes eight fail on ports, one on another
    ground."""
    big = {"ports": [PORT], "resources": {"requests": {"cpu": "1"}}}
    nodes = [*(node(f"n{i}") for i in range(8)), node("small", cpu="100m")]
    there = [bound(f"p{i}", f"n{i}", containers=[big]) for i in range(8)]
    found = explain(pod("p", containers=[big]), nodes, there, {})
    assert len(found) == 9
    assert found["n3"] == [
        Objection(
            "NodePorts",
            "node(s) didn't have free ports for the requested pod ports",
            "80/TCP is held by default/p3",
        )
    ]
    assert found["small"] == [
        Objection("NodeResourcesFit", "Insufficient cpu", "1 cpu asked for, 100m free")
    ]


def test_a_node_that_fits_has_nothing_against_it_and_what_is_missing_is_told_in_figures() -> None:
    nodes = [node("cordoned", unschedulable=True), node("free"), node("full", cpu="1", pods=1)]
    there = [bound("old", "full", containers=[{"resources": {"requests": {"cpu": "600m"}}}])]
    asked = {"resources": {"requests": {"cpu": "600m", "memory": "9Gi"}}}
    found = explain(pod("p", containers=[asked]), nodes, there, {})
    assert [o.plugin for o in found["cordoned"]] == ["NodeUnschedulable", "NodeResourcesFit"]
    assert found["free"][0].detail == "9Gi memory asked for, 8Gi free"
    assert found["full"][0].detail == "1 pods at most"
    assert explain(pod("p"), nodes, there, {})["free"] == []


def _random_pod(chance: random.Random, name: str, **spec: Any) -> Any:
    container: Object = {"resources": {"requests": {"cpu": chance.choice(["0", "150m", "1"])}}}
    if chance.random() < 0.3:
        container["ports"] = [PORT]
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(
        name,
        labels={"app": chance.choice("ab")},
        affinity=apart if chance.random() < 0.2 else None,
        containers=[container],
        nodeSelector={"disk": "ssd"} if chance.random() < 0.2 else {},
        **spec,
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_the_scheduler_counts_the_first_objection_of_each_node(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [
        node(
            f"n{i}",
            cpu=chance.choice(["1", "2"]),
            pods=chance.choice([2, 110]),
            labels={"disk": chance.choice(["ssd", "hdd"])},
            unschedulable=chance.random() < 0.2,
        )
        for i in range(5)
    ]
    scene = Scene(*nodes, seed=seed)
    there: list[Any] = []
    for number in range(20):
        item = _random_pod(chance, f"p{number}")
        objections = explain(item, nodes, there, {})
        decision = scene.schedule(item)
        if decision in objections:
            assert objections[decision] == []
            item.spec.node_name = decision
            there.append(item)
        else:
            counts = Counter(found[0].reason for found in objections.values())
            parts = sorted(f"{number} {reason}" for reason, number in counts.items())
            assert decision == f"0/5 nodes are available: {', '.join(parts)}."
