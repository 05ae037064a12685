"""TaintToleration: pods keep off nodes whose taints they do not tolerate."""

from shepherd.api.placement import untolerated
from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.framework import MAX_SCORE, Check, Grade, Unfit
from shepherd.scheduler.shape import PodInfo

_SOFT = ("PreferNoSchedule",)
_POINTS_OFF = MAX_SCORE // 4
"""For each soft taint that is not tolerated."""


class TaintToleration:
    name = "TaintToleration"

    def filter(self, pod: PodInfo, cache: Cache) -> list[Check]:
        tolerations = pod.shape.spec.tolerations

        def test(node: NodeInfo) -> Unfit | None:
            taint = untolerated(tolerations, node.taints)
            if taint is None:
                return None
            mark = f"{{{taint.key}: {taint.value}}}"
            return Unfit(self.name, f"node(s) had untolerated taint {mark}")

        return [Check(self.name, test)]

    def score(self, pod: PodInfo, cache: Cache) -> list[Grade]:
        tolerations = pod.shape.spec.tolerations

        def score(node: NodeInfo) -> int:
            if not node.taints:
                return MAX_SCORE
            soft = sum(untolerated(tolerations, [t], _SOFT) is not None for t in node.taints)
            return max(0, MAX_SCORE - soft * _POINTS_OFF)

        return [Grade(self.name, score, weight=3)]
