"""NodeName: a pod that names its node fits that node alone."""

from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.framework import Check, Unfit
from shepherd.scheduler.shape import PodInfo


class NodeName:
    name = "NodeName"

    def filter(self, pod: PodInfo, cache: Cache) -> list[Check]:
        wanted = pod.pod.spec.node_name
        if not wanted:
            return []
        unfit = Unfit(self.name, "node(s) didn't match the requested node name")

        def test(node: NodeInfo) -> Unfit | None:
            return None if node.name == wanted else unfit

        return [Check(self.name, test)]
