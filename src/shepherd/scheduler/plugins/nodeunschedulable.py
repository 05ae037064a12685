"""NodeUnschedulable: cordoned nodes take no pods."""

from shepherd.api.objects.node import Taint
from shepherd.api.placement import untolerated
from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.framework import Check, Unfit
from shepherd.scheduler.shape import PodInfo

_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable:
    name = "NodeUnschedulable"

    def filter(self, pod: PodInfo, cache: Cache) -> list[Check]:
        if not untolerated(pod.shape.spec.tolerations, [_TAINT]):
            return []
        unfit = Unfit(self.name, "node(s) were unschedulable")

        def test(node: NodeInfo) -> Unfit | None:
            return unfit if node.node.spec.unschedulable else None

        return [Check(self.name, test)]
