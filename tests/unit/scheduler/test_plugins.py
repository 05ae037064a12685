"""What each plugin demands and prefers, with the reasons a user reads."""

from collections import Counter
from typing import Any

import pytest

from shepherd.testing.scheduling import HOSTNAME, Scene, node, pod

ZONE = "topology.kubernetes.io/zone"


def test_a_cordoned_node_takes_no_pod() -> None:
    scene = Scene(node("a", unschedulable=True))
    assert scene.schedule(pod("p")) == "0/1 nodes are available: 1 node(s) were unschedulable."
    tolerant = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    assert scene.schedule(pod("p", tolerations=[tolerant])) == "a"


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "team", "operator": "Equal", "value": "db", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "db"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "team", "value": "web"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "team", "value": "db", "effect": "NoExecute"}, False),
    ],
)
def test_taints_need_a_toleration(toleration: dict[str, str], fits: bool) -> None:
    scene = Scene(node("a", taints=[{"key": "team", "value": "db", "effect": "NoSchedule"}]))
    reason = "0/1 nodes are available: 1 node(s) had untolerated taint {team: db}."
    assert scene.schedule(pod("p", tolerations=[toleration])) == ("a" if fits else reason)


def test_soft_taints_are_avoided_while_there_is_another_node() -> None:
    soft = [{"key": "slow", "value": "", "effect": "PreferNoSchedule"}]
    scene = Scene(node("slow", cpu="64", memory="128Gi", taints=soft), node("quick"))
    assert scene.schedule(pod("p")) == "quick"
    assert scene.schedule(pod("big", cpu="8")) == "slow"


def test_a_node_selector_must_match() -> None:
    scene = Scene(node("a"), node("b", labels={"disk": "ssd"}))
    assert scene.schedule(pod("p", nodeSelector={"disk": "ssd"})) == "b"
    reason = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    assert scene.schedule(pod("q", nodeSelector={"disk": "tape"})) == reason


def test_required_node_affinity_needs_one_term_and_preferred_decides_between_nodes() -> None:
    nodes = [node(f"n{zone}", labels={"zone": zone}) for zone in "123"]
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1", "2"]}]}
    wish = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["2", "3"]}]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": wish}],
        }
    }
    assert Scene(*nodes).schedule(pod("p", affinity=affinity)) == "n2"


def test_requests_count_what_is_placed() -> None:
    scene = Scene(node("a", cpu="1"))
    assert scene.schedule(pod("one", cpu="600m")) == "a"
    assert scene.schedule(pod("two", cpu="600m")) == "0/1 nodes are available: 1 Insufficient cpu."
    scene.cache.remove("default/one")
    assert scene.schedule(pod("two", cpu="600m")) == "a"


def test_extended_resources_and_the_number_of_pods_count() -> None:
    scene = Scene(node("a", pods=1, more={"example.com/gpu": "1"}), node("b"))
    requests = {"example.com/gpu": "1"}
    gpu: dict[str, Any] = {"containers": [{"resources": {"requests": requests}}]}
    assert scene.schedule(pod("one", **gpu)) == "a"
    reason = "0/2 nodes are available: 1 Insufficient example.com/gpu, 1 Too many pods."
    assert scene.schedule(pod("two", **gpu)) == reason


def test_init_containers_and_sidecars_and_overhead_are_counted_at_the_hungriest_moment() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}} | more

    scene = Scene(node("a"))
    item = pod(
        "p",
        containers=[container("300m"), container("200m")],
        initContainers=[
            container("100m"),
            container("50m", restartPolicy="Always"),
            container("800m"),  # beside the sidecar: 850m, more than 500m + 50m
        ],
        overhead={"cpu": "10m"},
    )
    assert scene.info(item).shape.requests == {"cpu": 860}


def test_a_host_port_can_be_had_once_on_a_node() -> None:
    def item(name: str, address: str, protocol: str = "TCP") -> Any:
        port = {"containerPort": 80, "hostPort": 80, "hostIP": address, "protocol": protocol}
        return pod(name, containers=[{"ports": [port]}])

    scene = Scene(node("a"))
    assert scene.schedule(item("one", "127.0.0.1")) == "a"
    assert scene.schedule(item("other-address", "10.0.0.1")) == "a"
    assert scene.schedule(item("other-protocol", "", "UDP")) == "a"
    reason = "node(s) didn't have free ports for the requested pod ports"
    assert scene.schedule(item("every-address", "")) == f"0/1 nodes are available: 1 {reason}."


def test_counts_of_reasons_sum_to_the_nodes() -> None:
    """kubernetes/kubernetes#91340: of nine nodes eight fail on ports and one on other grounds."""
    port = {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}
    scene = Scene(*(node(f"n{i}") for i in range(8)), node("small", cpu="100m"))
    taken = {"ports": [port], "resources": {"requests": {"cpu": "1"}}}
    for i in range(8):
        scene.put(pod(f"p{i}", containers=[taken]), f"n{i}")
    assert scene.schedule(pod("p", containers=[taken])) == (
        "0/9 nodes are available: 1 Insufficient cpu, "
        "8 node(s) didn't have free ports for the requested pod ports."
    )


def test_no_nodes_have_words_of_their_own() -> None:
    assert Scene().schedule(pod("p")) == "no nodes available to schedule pods"


def test_the_least_allocated_and_most_balanced_node_is_chosen() -> None:
    scene = Scene(node("busy"), node("idle"))
    scene.put(pod("p", cpu="2"), "busy")
    assert scene.schedule(pod("q")) == "idle"
    scene = Scene(node("cpu-bound", cpu="2", memory="8Gi"), node("even"))
    scene.put(pod("p", cpu="1", memory="100Mi"), "cpu-bound")
    assert scene.schedule(pod("q", cpu="500m")) == "even"


def test_pods_of_a_workload_spread_over_nodes_and_zones() -> None:
    nodes = [node(f"n{i}", labels={ZONE: f"z{i % 2}"}) for i in range(4)]
    scene = Scene(*nodes)
    scene.put(pod("load", cpu="2", memory="4Gi"), "n0")
    placed = Counter(scene.schedule(pod(f"p{i}", workload="web")) for i in range(8))
    assert placed == {"n0": 2, "n1": 2, "n2": 2, "n3": 2}


def test_two_workloads_spread_apart() -> None:
    scene = Scene(*(node(f"n{i}") for i in range(5)))
    for workload in ("web", "db"):
        placed = Counter(
            scene.schedule(pod(f"{workload}-{i}", workload=workload)) for i in range(50)
        )
        assert set(placed.values()) == {10}


def _spread(key: str, when: str = "DoNotSchedule", skew: int = 1) -> dict[str, Any]:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {"labels": {"app": "web"}, "topologySpreadConstraints": [constraint]}


def test_a_hard_spread_constraint_holds_the_skew() -> None:
    scene = Scene(
        node("a1", labels={ZONE: "a"}), node("a2", labels={ZONE: "a"}),
        node("b", labels={ZONE: "b"}, pods=2), node("nowhere"),
    )  # fmt: skip
    for i in range(4):
        scene.schedule(pod(f"p{i}", **_spread(ZONE)))
    assert len(scene.cache.nodes["b"].pods) == 2
    assert scene.schedule(pod("p4", **_spread(ZONE))) in {"a1", "a2"}
    assert scene.schedule(pod("p5", **_spread(ZONE))) == (
        "0/4 nodes are available: 1 Too many pods, "
        "1 node(s) didn't match pod topology spread constraints (missing required label), "
        "2 node(s) didn't match pod topology spread constraints."
    )


def test_a_soft_spread_constraint_prefers() -> None:
    scene = Scene(node("a"), node("b"))
    scene.put(pod("load", cpu="2", memory="4Gi"), "b")
    soft = _spread(HOSTNAME, "ScheduleAnyway")
    assert {scene.schedule(pod(f"p{i}", **soft)) for i in range(2)} == {"a", "b"}


def _affinity(kind: str, key: str, app: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_anti_affinity_keeps_pods_apart_and_is_mutual() -> None:
    scene = Scene(node("a"), node("b"))
    apart = _affinity("podAntiAffinity", HOSTNAME, "web")
    placed = [scene.schedule(pod(f"p{i}", labels={"app": "web"}, affinity=apart)) for i in range(3)]
    assert set(placed[:2]) == {"a", "b"}
    assert placed[2] == "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    assert scene.schedule(pod("plain", labels={"app": "web"})) == (
        "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    )
    assert scene.schedule(pod("other", labels={"app": "db"})) in {"a", "b"}
    scene.cache.remove("default/p0")
    assert scene.schedule(pod("plain", labels={"app": "web"})) == placed[0]


def test_affinity_follows_and_the_first_of_its_kind_may_go_anywhere() -> None:
    scene = Scene(node("a1", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"}), node("none"))
    near = _affinity("podAffinity", ZONE, "web")
    reason = "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."
    assert scene.schedule(pod("client", affinity=near)) == reason
    first = scene.schedule(pod("web-0", labels={"app": "web"}, affinity=near))
    assert first in {"a1", "b1"}
    assert scene.schedule(pod("web-1", labels={"app": "web"}, affinity=near)) == first
    assert scene.schedule(pod("client", affinity=near)) == first


def test_preferred_pod_affinity_and_anti_affinity_decide_between_nodes() -> None:
    def prefer(kind: str) -> dict[str, Any]:
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
        wish = [{"weight": 50, "podAffinityTerm": term}]
        return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": wish}}}

    scene = Scene(node("a"), node("b"))
    scene.put(pod("web", labels={"app": "web"}), "a")
    assert scene.schedule(pod("near", **prefer("podAffinity"))) == "a"
    assert scene.schedule(pod("far", **prefer("podAntiAffinity"))) == "b"


def test_affinity_looks_into_its_own_namespace_unless_told_otherwise() -> None:
    scene = Scene(node("a"), node("b"))
    scene.put(pod("web", labels={"app": "web"}, namespace="other"), "a")
    apart = _affinity("podAntiAffinity", HOSTNAME, "web")
    scene.put(pod("load", cpu="2", memory="4Gi"), "b")
    assert scene.schedule(pod("p", affinity=apart)) == "a"
    term = apart["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    term["namespaceSelector"] = {}
    assert scene.schedule(pod("q", affinity=apart)) == "b"
    term["namespaceSelector"] = {"matchLabels": {"team": "blue"}}
    assert scene.schedule(pod("r", affinity=apart)) == "a"
    scene.namespaces["other"] = {"team": "blue"}
    scene.put(pod("web", labels={"app": "web"}, namespace="other"), "a")
    assert scene.schedule(pod("s", affinity=apart)) == "b"


def test_match_label_keys_narrow_a_constraint_to_the_pods_own_revision() -> None:
    """The old pods of a rolling update do not count."""
    spread = _spread(HOSTNAME)
    spread["topologySpreadConstraints"][0]["matchLabelKeys"] = ["hash"]
    scene = Scene(node("a"), node("b"))
    for i in range(3):
        scene.put(pod(f"old{i}", labels={"app": "web", "hash": "1"}), "a")
    spread["labels"] = {"app": "web", "hash": "2"}
    assert {scene.schedule(pod(f"new{i}", **spread)) for i in range(2)} == {"a", "b"}


def test_node_policies_say_which_nodes_count_for_the_skew() -> None:
    tainted = node("b", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    spread = _spread(HOSTNAME)
    scene = Scene(node("a"), tainted)
    assert scene.schedule(pod("p0", **spread)) == "a"
    assert scene.schedule(pod("p1", **spread)) == (
        "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) had untolerated taint {k: v}."
    )
    spread["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = "Honor"
    assert scene.schedule(pod("p1", **spread)) == "a"
