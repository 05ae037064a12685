"""The decision: which node for a pod. It depends on the pod and the cache alone.

The plain way, looking at every node for every pod, decides a few hundred pods a second on 5,000
nodes. But most pods are copies, and placing a pod makes a node no better for any pod. So for each
shape of pod the nodes stand in a heap by score; the one on top is scored anew, and if it has kept
its score it is the best, else it sinks to its new place. Nodes that got better (a pod left, the
node changed) are entered anew. The result is the plain way's, to the tie. (docs/adr/0008)

Pods whose rules look beyond the node (pod affinity, hard spreading) take the plain way, over as
many nodes as upstream looks at.
"""

import heapq
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.framework import Check, Grade, Profile, Reach, Unfit
from shepherd.scheduler.shape import PodInfo

_MAX_PROGRAMS = 64


@dataclass(frozen=True, slots=True)
class Unplaced:
    """No node can take the pod: every node's first reason against it."""

    nodes: int
    reasons: Counter[Unfit]
    checks: Sequence[Check]

    def helped_by_node(self, node: NodeInfo) -> bool:
        """Whether `node` may be able to take the pod now."""
        near = (check for check in self.checks if check.reach is Reach.NODE)
        return all(check.test(node) is None for check in near)

    @property
    def helped_by_pods(self) -> bool:
        """Whether a pod that is placed or goes away anywhere may change the answer."""
        return any(check.reach is Reach.CLUSTER for check in self.checks)

    @property
    def message(self) -> str:
        """In the form of upstream's FitError; the counts sum to the number of nodes."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        counts: Counter[str] = Counter()
        for unfit, number in self.reasons.items():
            counts[unfit.reason] += number
        parts = sorted(f"{number} {reason}" for reason, number in counts.items())
        return f"0/{self.nodes} nodes are available: {', '.join(parts)}."


_Entry = tuple[int, float, NodeInfo]
"""(-score, tie, node): the least is the best."""


class Ranking:
    """The nodes that fit, best first, under rules of `Reach.NODE`."""

    def __init__(self, checks: Sequence[Check], grades: Sequence[Grade]) -> None:
        self._tests = [check.test for check in checks]
        self._grades = [(grade.score, grade.weight) for grade in grades]
        self._heap: list[_Entry] = []
        self._valid: dict[str, _Entry] = {}
        """By node name: its one entry of the heap that counts. Scores there are upper bounds."""

    def enter(self, node: NodeInfo) -> None:
        """A node that is new, or may suit better than before."""
        if self._fits(node):
            heapq.heappush(self._heap, self._entry(node, self.score(node)))
        else:
            self._valid.pop(node.name, None)
        if len(self._heap) > 2 * len(self._valid) + 64:  # mostly entries that no longer count
            self._heap = sorted(self._valid.values())

    def best(self) -> tuple[int, NodeInfo] | None:
        """The best score and its node, if any fits."""
        heap, valid = self._heap, self._valid
        while heap:
            entry = heap[0]
            node = entry[2]
            if valid.get(node.name) is not entry:
                heapq.heappop(heap)
            elif (score := self.score(node)) != -entry[0]:
                heapq.heapreplace(heap, self._entry(node, score))
            elif node.present and self._fits(node):
                return score, node
            else:
                heapq.heappop(heap)
                del valid[node.name]
        return None

    def score(self, node: NodeInfo) -> int:
        total = 0
        for score, weight in self._grades:  # the hottest loop: no generator, no list
            total += weight * score(node)
        return total

    def _entry(self, node: NodeInfo, score: int) -> _Entry:
        entry = self._valid[node.name] = (-score, node.tie, node)
        return entry

    def _fits(self, node: NodeInfo) -> bool:
        return all(test(node) is None for test in self._tests)


class Program:
    """What the plugins demand and prefer for one shape of pod, ready to be applied to nodes."""

    def __init__(
        self, checks: list[Check], grades: list[Grade], cache: Cache, named: set[str] | None
    ) -> None:
        self.checks = checks
        self._cache = cache
        self._named = named
        """The only nodes to look at, by name; None: all."""
        reaches = [check.reach for check in checks] + [grade.reach for grade in grades]
        self.ranked = Reach.CLUSTER not in reaches
        """All rules allow rankings: one for each combination of the domains that grades look at."""
        self.better = {node.name: node for node in self.nodes()} if self.ranked else {}
        """The nodes that the rankings must be told of, by name."""
        self.unplaced: tuple[int, Unplaced] | None = None
        """The last answer, if it was that, and the cache's version then."""
        self._node_grades = [grade for grade in grades if grade.reach is Reach.NODE]
        self._wide_grades = [grade for grade in grades if grade.reach is not Reach.NODE]
        self._keys = sorted({key for grade in grades for key in grade.keys})
        self._rankings: dict[tuple[str, ...], Ranking] = {}

    def nodes(self) -> list[NodeInfo]:
        """Those that can be fit at all."""
        known = self._cache.nodes
        if self._named is None:
            return list(known.values())
        return [known[name] for name in sorted(self._named) if name in known]

    def may_suit(self, node: NodeInfo) -> None:
        """A node is new, or better than before."""
        if self.ranked and (self._named is None or node.name in self._named):
            self.better[node.name] = node

    def best(self) -> NodeInfo | None:
        """The best node, by the rankings."""
        for node in self.better.values():
            domains = tuple([node.labels.get(key, "") for key in self._keys])
            ranking = self._rankings.get(domains)
            if ranking is None:
                ranking = self._rankings[domains] = Ranking(self.checks, self._node_grades)
            ranking.enter(node)
        self.better.clear()
        tops = [top for ranking in self._rankings.values() if (top := ranking.best())]
        return min(
            [(-score - self._wide_score(node), node.tie, node) for score, node in tops],
            default=(0, 0.0, None),
        )[2]

    def search(self, nodes: Sequence[NodeInfo]) -> NodeInfo | None:
        """The best of some nodes, the plain way."""
        score = Ranking(self.checks, self._node_grades).score
        ranked = [(-score(node) - self._wide_score(node), node.tie, node) for node in nodes]
        return min(ranked, default=(0, 0.0, None))[2]

    def unfit(self, node: NodeInfo) -> Unfit | None:
        """The first objection to a node."""
        for check in self.checks:
            if unfit := check.test(node):
                return unfit
        return None

    def _wide_score(self, node: NodeInfo) -> int:
        return sum([grade.score(node) * grade.weight for grade in self._wide_grades])


class Cycle:
    """Decides for pod after pod. Placing what was decided is the caller's business."""

    def __init__(self, cache: Cache, profile: Profile) -> None:
        self._cache = cache
        self._profile = profile
        self._programs: OrderedDict[object, Program] = OrderedDict()
        self._next = 0
        """Where the next search begins, so that all nodes get their turn."""
        cache.watchers.append(self._may_suit)

    def decide(self, pod: PodInfo) -> NodeInfo | Unplaced:
        """The node for `pod`, or why there is none."""
        program = self._program(pod)
        node = program.best() if program.ranked else self._search(program)
        if node is not None:
            return node
        version = self._cache.version
        if program.unplaced is None or program.unplaced[0] != version:
            program.unplaced = version, self._diagnose(program)
        return program.unplaced[1]

    def _program(self, pod: PodInfo) -> Program:
        key = (pod.shape, pod.pod.spec.node_name, *self._cache.anti_affinity(pod).values())
        program = self._programs.get(key)
        if program is None:
            cache, profile = self._cache, self._profile
            checks = profile.checks(pod, cache)
            grades = [grade for plugin in profile.scores for grade in plugin.score(pod, cache)]
            program = Program(checks, grades, cache, pod.shape.nodes)
            self._programs[key] = program
            if len(self._programs) > _MAX_PROGRAMS:
                self._programs.popitem(last=False)
        else:
            self._programs.move_to_end(key)
        return program

    def _may_suit(self, node: NodeInfo) -> None:
        for program in self._programs.values():
            program.may_suit(node)

    def _search(self, program: Program) -> NodeInfo | None:
        nodes = program.nodes()
        wanted = nodes_to_find(len(nodes))
        fit: list[NodeInfo] = []
        start, looked = self._next, 0
        while looked < len(nodes) and len(fit) < wanted:
            node = nodes[(start + looked) % len(nodes)]
            looked += 1
            if program.unfit(node) is None:
                fit.append(node)
        self._next = (start + looked) % max(1, len(nodes))
        return program.search(fit)

    def _diagnose(self, program: Program) -> Unplaced:
        reasons: Counter[Unfit] = Counter()
        for node in self._cache.nodes.values():
            if unfit := program.unfit(node):
                reasons[unfit] += 1
        return Unplaced(len(self._cache.nodes), reasons, program.checks)


def nodes_to_find(nodes: int) -> int:
    """How many nodes that fit are enough (upstream Scheduler.numFeasibleNodesToFind)."""
    if nodes < 100:
        return nodes
    percent = max(5, 50 - nodes // 125)
    return max(100, nodes * percent // 100)
