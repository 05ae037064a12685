"""NodeResourcesFit: a node must have what a pod requests; the least allocated is the best."""

from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.framework import MAX_SCORE, Check, Grade, Unfit
from shepherd.scheduler.shape import PodInfo


class NodeResourcesFit:
    name = "NodeResourcesFit"

    def filter(self, pod: PodInfo, cache: Cache) -> list[Check]:
        full = Unfit(self.name, "Too many pods")
        requests = [
            (resource, amount, Unfit(self.name, f"Insufficient {resource}"))
            for resource, amount in pod.shape.requests.items()
        ]

        def test(node: NodeInfo) -> Unfit | None:
            if len(node.pods) >= node.max_pods:
                return full
            for resource, amount, unfit in requests:
                free = node.allocatable.get(resource, 0) - node.used.get(resource, 0)
                if amount > free:
                    return unfit
            return None

        return [Check(self.name, test)]

    def score(self, pod: PodInfo, cache: Cache) -> list[Grade]:
        """LeastAllocated: what share of cpu and memory would be left, on average."""
        more_cpu, more_memory = pod.shape.score_cpu, pod.shape.score_memory

        def score(node: NodeInfo) -> int:
            cpu, memory = node.shares(more_cpu, more_memory)
            return (2 * MAX_SCORE - cpu - memory) // 2

        return [Grade(self.name, score)]
