"""NodeAffinity: spec.nodeSelector and spec.affinity.nodeAffinity, required and preferred."""

from shepherd.api.placement import required_affinity
from shepherd.api.selectors import node_selector_term
from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.framework import MAX_SCORE, Check, Grade, Unfit
from shepherd.scheduler.shape import PodInfo


class NodeAffinity:
    name = "NodeAffinity"

    def filter(self, pod: PodInfo, cache: Cache) -> list[Check]:
        demand = required_affinity(pod.shape.spec.node_selector, pod.shape.spec.affinity)
        if demand is None:
            return []
        unfit = Unfit(self.name, "node(s) didn't match Pod's node affinity/selector")

        def test(node: NodeInfo) -> Unfit | None:
            return None if demand(node.labels, node.name) else unfit

        return [Check(self.name, test)]

    def score(self, pod: PodInfo, cache: Cache) -> list[Grade]:
        """The share of the preferences' weight that a node meets."""
        affinity = pod.shape.spec.affinity
        if affinity is None or affinity.node_affinity is None:
            return []
        preferred = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
        terms = [
            (term, item.weight)
            for item in preferred
            if (term := node_selector_term(item.preference))
        ]
        total = sum(weight for _, weight in terms)
        if not total:
            return []

        def score(node: NodeInfo) -> int:
            met = sum(weight for term, weight in terms if term(node.labels, node.name))
            return MAX_SCORE * met // total

        return [Grade(self.name, score, weight=2)]
