"""TaintToleration: pods keep off nodes whose taints they do not tolerate."""

from collections.abc import Sequence

from shepherd.api.objects.node import Taint
from shepherd.api.objects.pod import Toleration
from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.framework import MAX_SCORE, Check, Grade, Unfit
from shepherd.scheduler.shape import PodInfo

_HARD = ("NoSchedule", "NoExecute")
_POINTS_OFF = MAX_SCORE // 4
"""For each soft taint that is not tolerated."""


class TaintToleration:
    name = "TaintToleration"

    def filter(self, pod: PodInfo, cache: Cache) -> list[Check]:
        tolerations = pod.shape.spec.tolerations

        def test(node: NodeInfo) -> Unfit | None:
            for taint in node.taints:
                if taint.effect in _HARD and not tolerates(tolerations, taint):
                    mark = f"{{{taint.key}: {taint.value}}}"
                    return Unfit(self.name, f"node(s) had untolerated taint {mark}")
            return None

        return [Check(self.name, test)]

    def score(self, pod: PodInfo, cache: Cache) -> list[Grade]:
        tolerations = pod.shape.spec.tolerations

        def score(node: NodeInfo) -> int:
            if not node.taints:
                return MAX_SCORE
            soft = sum(
                taint.effect == "PreferNoSchedule" and not tolerates(tolerations, taint)
                for taint in node.taints
            )
            return max(0, MAX_SCORE - soft * _POINTS_OFF)

        return [Grade(self.name, score, weight=3)]


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations covers the taint (core/v1 Toleration.ToleratesTaint)."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Lt" | "Gt":
            return _compares(toleration, taint)
    return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """`Gt`, `Lt`: the taint's value as a number, against the toleration's."""
    try:
        bound, value = int(toleration.value), int(taint.value)
    except ValueError:
        return False
    return value > bound if toleration.operator == "Gt" else value < bound
