"""The quick way decides as the plain way does."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.scheduler.cycle import Cycle, nodes_to_find
from shepherd.scheduler.framework import Check, Grade, Profile, Reach
from shepherd.scheduler.plugins import DEFAULT_PROFILE
from shepherd.scheduler.shape import PodInfo
from shepherd.testing.scheduling import HOSTNAME, Scene, node, pod

ZONE = "topology.kubernetes.io/zone"


class Plainly:
    """A plugin that declares all it knows to reach everywhere: no ranking may be used."""

    name = "Plainly"

    def filter(self, pod: PodInfo, cache: Any) -> list[Check]:
        return [Check(self.name, lambda node: None, Reach.CLUSTER)]

    def score(self, pod: PodInfo, cache: Any) -> list[Grade]:
        return []


PLAIN = Profile((), (*DEFAULT_PROFILE.filters, Plainly()), DEFAULT_PROFILE.scores)


def on_nodes(*names: str) -> dict[str, Any]:
    """An affinity to nodes by their names."""
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _node(chance: random.Random, index: int) -> Any:
    taint = {"key": "k", "value": "v", "effect": chance.choice(["NoSchedule", "PreferNoSchedule"])}
    return node(
        f"n{index}",
        cpu=str(chance.choice([1, 2, 4])),
        memory=f"{chance.choice([1, 4, 8])}Gi",
        pods=chance.choice([2, 5, 110]),
        labels={ZONE: chance.choice("abc"), "disk": chance.choice(["ssd", "hdd"])},
        taints=[taint] if chance.random() < 0.3 else [],
        unschedulable=chance.random() < 0.1,
    )


def _pod(chance: random.Random, name: str) -> Any:
    ports = [{"containerPort": 80, "hostPort": chance.choice([80, 81]), "protocol": "TCP"}]
    requests = {"cpu": chance.choice(["0", "150m", "1"]), "memory": chance.choice(["64Mi", "1Gi"])}
    container: dict[str, Any] = {"resources": {"requests": requests}}
    if chance.random() < 0.2:
        container["ports"] = ports
    affinity: dict[str, Any] = {}
    if chance.random() < 0.2:
        affinity |= on_nodes(*chance.sample([f"n{index}" for index in range(14)], 2))
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}}
    if chance.random() < 0.1:
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(
        name,
        labels={"app": chance.choice("ab")},
        affinity=affinity or None,
        workload=chance.choice(["", "web", "db"]),
        containers=[container],
        nodeSelector={"disk": "ssd"} if chance.random() < 0.2 else {},
        tolerations=[{"operator": "Exists"}] if chance.random() < 0.2 else [],
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_rankings_choose_what_looking_at_every_node_would(seed: int) -> None:
    """Pods come and go, nodes come, change and go: every decision and every reason agrees."""
    chance = random.Random(seed)
    scene = Scene(*(_node(chance, i) for i in range(12)), seed=seed)
    plain = Cycle(scene.cache, PLAIN)
    placed: list[str] = []
    for step in range(150):
        what = chance.random()
        if what < 0.75:
            info = scene.info(_pod(chance, f"p{step}"))
            quick, slow = scene.cycle.decide(info), plain.decide(info)
            assert quick is slow or quick.message == slow.message  # type: ignore[union-attr]
            if quick is slow:
                scene.cache.place(info, quick.name)  # type: ignore[union-attr]
                placed.append(info.key)
        elif what < 0.9 and placed:
            scene.cache.remove(placed.pop(chance.randrange(len(placed))))
        elif what < 0.95:
            scene.cache.set_node(_node(chance, chance.randrange(14)))
        else:
            scene.cache.remove_node(f"n{chance.randrange(14)}")


def test_a_pod_for_one_node_waits_for_it_whatever_others_there_are() -> None:
    scene = Scene(node("a"), node("b"))
    daemon = pod("p", affinity=on_nodes("c"))
    assert scene.schedule(daemon) == (
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    )
    scene.cache.set_node(node("c"))
    assert scene.schedule(daemon) == "c"


def test_a_node_that_returns_has_its_pods_still() -> None:
    scene = Scene(node("a", cpu="1"))
    scene.put(pod("p", cpu="600m"), "a")
    scene.cache.remove_node("a")
    assert scene.schedule(pod("q", cpu="600m")) == "no nodes available to schedule pods"
    scene.cache.set_node(node("a", cpu="1"))
    assert scene.schedule(pod("q", cpu="600m")) == "0/1 nodes are available: 1 Insufficient cpu."


def test_the_same_seed_decides_the_same() -> None:
    def run() -> list[str]:
        scene = Scene(*(node(f"n{i}") for i in range(9)), seed=7)
        return [scene.schedule(pod(f"p{i}")) for i in range(30)]

    assert run() == run()


def test_a_heartbeat_changes_nothing() -> None:
    scene = Scene(node("a"))
    before = scene.cache.version
    assert scene.cache.set_node(node("a")) is None
    assert scene.cache.version == before


def test_a_big_cluster_is_searched_in_part() -> None:
    assert [nodes_to_find(count) for count in (99, 150, 1000, 5000, 20_000)] == [
        99, 100, 420, 500, 1000,
    ]  # fmt: skip
