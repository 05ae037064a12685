"""NodeResourcesBalancedAllocation: cpu and memory of a node should run out together."""

from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.framework import MAX_SCORE, Grade
from shepherd.scheduler.shape import PodInfo


class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"

    def score(self, pod: PodInfo, cache: Cache) -> list[Grade]:
        """How near the shares of cpu and memory would be (one minus their standard deviation).

        Alone this may rise when a pod is placed. Together with NodeResourcesFit's LeastAllocated it
        cannot, as `Reach.NODE` demands: the sum is MAX_SCORE * 2 less the larger share. For that to
        hold to the last digit one of the halves rounds up and the other down, and both have the
        same weight.
        """
        more_cpu, more_memory = pod.shape.score_cpu, pod.shape.score_memory

        def score(node: NodeInfo) -> int:
            cpu, memory = node.shares(more_cpu, more_memory)
            return (2 * MAX_SCORE - abs(cpu - memory) + 1) // 2

        return [Grade(self.name, score)]
