"""`Cache`: the nodes with what is placed on them, pods assumed to be bound included.

A pod counts from the moment it is decided (`assume`), before the API has confirmed it; the next
decision must see it. An assumed pod stays until its binding fails (`forget`) or the informer, which
knows every pending pod and so tells the end of each, says that it is gone; therefore assumptions
need no time-out.
"""

from collections.abc import Callable, Hashable, Mapping
from random import Random
from typing import Any
from weakref import WeakValueDictionary

from shepherd.api.objects.node import Taint
from shepherd.scheduler.objects import Node
from shepherd.scheduler.shape import HostPort, PodInfo, PodTerm, Resources, resources


class NodeInfo:
    """A node and what is placed on it. A node that changes gets a new one."""

    __slots__ = (
        "allocatable", "cpu", "labels", "max_pods", "memory", "name", "node", "pods", "ports",
        "present", "score_cpu", "score_memory", "taints", "tie", "used",
    )  # fmt: skip

    def __init__(self, node: Node, tie: float) -> None:
        self.node = node
        self.name = node.metadata.name
        self.labels = node.metadata.labels
        self.taints: list[Taint] = node.spec.taints
        self.allocatable: Resources = resources(node.status.allocatable)
        self.max_pods = self.allocatable.get("pods", 0)
        self.cpu = self.allocatable.get("cpu", 0)
        self.memory = self.allocatable.get("memory", 0)
        self.tie = tie
        """Drawn once: of nodes with equal scores the one with the least is chosen."""
        self.present = True
        """False once the cache has dropped or replaced it."""
        self.pods: dict[str, PodInfo] = {}
        self.used: Resources = {}
        self.score_cpu = 0
        self.score_memory = 0
        self.ports: dict[HostPort, int] = {}

    def __lt__(self, other: "NodeInfo") -> bool:
        """Should even the ties be equal."""
        return self.name < other.name

    def shares(self, more_cpu: int, more_memory: int) -> tuple[int, int]:
        """Thousandths of the cpu and memory that would be in use, for scoring, with that added."""
        cpu, memory = self.score_cpu + more_cpu, self.score_memory + more_memory
        return (
            cpu * 1000 // self.cpu if cpu < self.cpu else 1000,
            memory * 1000 // self.memory if memory < self.memory else 1000,
        )

    def add(self, pod: PodInfo) -> None:
        self.pods[pod.key] = pod
        self._count(pod, 1)

    def remove(self, pod: PodInfo) -> None:
        del self.pods[pod.key]
        self._count(pod, -1)

    def _count(self, pod: PodInfo, sign: int) -> None:
        shape = pod.shape
        for name, amount in shape.requests.items():
            self.used[name] = self.used.get(name, 0) + sign * amount
        self.score_cpu += sign * shape.score_cpu
        self.score_memory += sign * shape.score_memory
        for port in shape.ports:
            self.ports[port] = self.ports.get(port, 0) + sign
            if not self.ports[port]:
                del self.ports[port]


class Tally:
    """How many placed pods meet a criterion, on each node and in each topology domain.

    The cache keeps it up to date for as long as somebody holds it.
    """

    def __init__(self, matches: Callable[[PodInfo], bool]) -> None:
        self.matches = matches
        self.total = 0
        self.nodes: dict[str, int] = {}
        """By node name; nodes without such pods are absent."""
        self._domains: dict[str, dict[str, int]] = {}

    def domains(self, key: str, nodes: Mapping[str, NodeInfo]) -> dict[str, int]:
        """By the value of the node label `key`; values without such pods are absent."""
        counts = self._domains.get(key)
        if counts is None:
            counts = self._domains[key] = {}
            for name, number in self.nodes.items():
                _increase(counts, nodes[name].labels.get(key), number)
        return counts

    def count(self, node: NodeInfo, number: int) -> None:
        """`number` more (or, negative, fewer) such pods are on `node`."""
        self.total += number
        _increase(self.nodes, node.name, number)
        for key, counts in self._domains.items():
            _increase(counts, node.labels.get(key), number)


def _increase(counts: dict[str, int], key: str | None, number: int) -> None:
    if key is not None:
        counts[key] = counts.get(key, 0) + number
        if not counts[key]:
            del counts[key]


class Cache:
    """Present state for deciding. `watchers` are told of nodes that may suit more pods than before.

    Placing a pod is not told: it makes its node no better, which `cycle` notices by itself.
    """

    def __init__(self, random: Random) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.version = 0
        """Grows with every change."""
        self.watchers: list[Callable[[NodeInfo], None]] = []
        self._random = random
        self._placed: dict[str, tuple[str, PodInfo]] = {}
        self._homeless: dict[str, dict[str, PodInfo]] = {}
        """Pods on nodes that are not known (yet, or any more), by node name."""
        self._domains: dict[str, dict[str, int]] = {}
        self._workloads: WeakValueDictionary[str, Tally] = WeakValueDictionary()
        self._selections: WeakValueDictionary[Hashable, Tally] = WeakValueDictionary()
        self._anti_affinity: dict[PodTerm, Tally] = {}
        """The placed pods that carry a required anti-affinity term; kept while there are any."""

    # Nodes

    def set_node(self, node: Node) -> NodeInfo | None:
        """Add or change a node; None if nothing changed that bears on scheduling."""
        name = node.metadata.name
        known = self.nodes.get(name)
        if known is not None and _same(known.node, node):
            return None
        pods = list(known.pods.values()) if known else self._homeless.pop(name, {}).values()
        if known is not None:
            self._drop(known)
        info = self.nodes[name] = NodeInfo(node, self._random.random())
        for key, counts in self._domains.items():
            _increase(counts, info.labels.get(key), 1)
        for pod in pods:
            self._count(info, pod)
        self._may_suit(info)
        return info

    def remove_node(self, name: str) -> None:
        """Forget a node. Pods that are still placed there count again if it returns."""
        known = self.nodes.get(name)
        if known is not None:
            if known.pods:
                self._homeless[name] = dict(known.pods)
            self._drop(known)
            self.version += 1

    def _drop(self, info: NodeInfo) -> None:
        for pod in list(info.pods.values()):
            self._discount(info, pod)
        for key, counts in self._domains.items():
            _increase(counts, info.labels.get(key), -1)
        info.present = False
        del self.nodes[info.name]

    def domains(self, key: str) -> dict[str, int]:
        """The number of nodes by the value of their label `key`."""
        counts = self._domains.get(key)
        if counts is None:
            counts = self._domains[key] = {}
            for node in self.nodes.values():
                _increase(counts, node.labels.get(key), 1)
        return counts

    # Pods

    def place(self, pod: PodInfo, node_name: str) -> None:
        """Count `pod` on a node: assumed by a decision, or seen to be bound."""
        if (known := self._placed.get(pod.key)) is not None:
            if known[0] == node_name and known[1].counts_as(pod):
                return
            self.remove(pod.key)
        self._placed[pod.key] = (node_name, pod)
        info = self.nodes.get(node_name)
        if info is None:
            self._homeless.setdefault(node_name, {})[pod.key] = pod
        else:
            self._count(info, pod)
            self.version += 1

    def remove(self, key: str) -> NodeInfo | None:
        """The pod is gone, or its binding failed; the node that now has more room."""
        node_name, pod = self._placed.pop(key, ("", None))
        if pod is None:
            return None
        info = self.nodes.get(node_name)
        if info is None:
            del self._homeless[node_name][key]
            if not self._homeless[node_name]:
                del self._homeless[node_name]
            return None
        self._discount(info, pod)
        self._may_suit(info)
        return info

    # Counts

    def workload(self, uid: str) -> Tally:
        """The pods of one controller."""
        return self._tally(self._workloads, uid, lambda pod: pod.shape.workload == uid)

    def selection(self, identity: Hashable, matches: Callable[[PodInfo], bool]) -> Tally:
        """The pods that `matches` chooses; equal choices have equal identities."""
        return self._tally(self._selections, identity, matches)

    def anti_affinity(self, pod: PodInfo) -> dict[PodTerm, Tally]:
        """The anti-affinity terms against `pod` of placed pods, with those pods' counts."""
        return {term: tally for term, tally in self._anti_affinity.items() if term.matches(pod)}

    def _tally(
        self,
        tallies: "WeakValueDictionary[Any, Tally]",
        identity: Hashable,
        matches: Callable[[PodInfo], bool],
    ) -> Tally:
        tally = tallies.get(identity)
        if tally is None:
            tally = tallies[identity] = Tally(matches)
            for node in self.nodes.values():
                if number := sum(map(matches, node.pods.values())):
                    tally.count(node, number)
        return tally

    def _count(self, info: NodeInfo, pod: PodInfo) -> None:
        info.add(pod)
        for term in pod.shape.anti_affinity:
            if term not in self._anti_affinity:
                self._anti_affinity[term] = Tally(lambda pod: False)
        self._tell_tallies(info, pod, 1)

    def _discount(self, info: NodeInfo, pod: PodInfo) -> None:
        info.remove(pod)
        self._tell_tallies(info, pod, -1)
        for term in pod.shape.anti_affinity:
            if not self._anti_affinity[term].total:
                del self._anti_affinity[term]

    def _tell_tallies(self, info: NodeInfo, pod: PodInfo, number: int) -> None:
        if tally := self._workloads.get(pod.shape.workload):
            tally.count(info, number)
        for tally in self._selections.values():
            if tally.matches(pod):
                tally.count(info, number)
        for term in set(pod.shape.anti_affinity):
            self._anti_affinity[term].count(info, number)

    def _may_suit(self, info: NodeInfo) -> None:
        self.version += 1
        for tell in self.watchers:
            tell(info)


def _same(one: Node, other: Node) -> bool:
    """Nothing that bears on scheduling differs (heartbeats change conditions, images...)."""
    return (
        one.metadata.labels == other.metadata.labels
        and one.spec == other.spec
        and one.status == other.status
    )
