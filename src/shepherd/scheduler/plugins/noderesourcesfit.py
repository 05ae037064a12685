"""NodeResourcesFit: a node must have what a pod requests; the least allocated is the best."""

from shepherd.api.quantity import canonical
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

        def missing(node: NodeInfo) -> str:
            if len(node.pods) >= node.max_pods:
                return f"{node.max_pods} pods at most"
            lacks = []
            for resource, amount in pod.shape.requests.items():
                free = node.allocatable.get(resource, 0) - node.used.get(resource, 0)
                if amount > free:
                    asked, left = _text(resource, amount), _text(resource, max(free, 0))
                    lacks.append(f"{asked} {resource} asked for, {left} free")
            return ", ".join(lacks)

        return [Check(self.name, test, detail=missing)]

    def score(self, pod: PodInfo, cache: Cache) -> list[Grade]:
        """LeastAllocated: what share of cpu and memory would be left, on average."""
        more_cpu, more_memory = pod.shape.score_cpu, pod.shape.score_memory

        def score(node: NodeInfo) -> int:
            cpu, memory = node.shares(more_cpu, more_memory)
            return (2 * MAX_SCORE - cpu - memory) // 2

        return [Grade(self.name, score)]


def _text(resource: str, amount: int) -> str:
    """An amount as people write it: `1500m` of cpu, `1536Mi` of memory."""
    if resource == "cpu":
        return canonical(f"{amount}m")
    for suffix, factor in (("Mi", 2**20), ("Ki", 2**10)):
        if amount and amount % factor == 0:
            return canonical(f"{amount // factor}{suffix}")
    return str(amount)
