"""NodePorts: a host port can be had once on a node."""

from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.framework import Check, Unfit
from shepherd.scheduler.shape import HostPort, PodInfo

_ANY_ADDRESS = "0.0.0.0"


class NodePorts:
    name = "NodePorts"

    def filter(self, pod: PodInfo, cache: Cache) -> list[Check]:
        wanted = pod.shape.ports
        if not wanted:
            return []
        unfit = Unfit(self.name, "node(s) didn't have free ports for the requested pod ports")

        def test(node: NodeInfo) -> Unfit | None:
            clash = any(_clash(port, taken) for taken in node.ports for port in wanted)
            return unfit if clash else None

        def holders(node: NodeInfo) -> str:
            return ", ".join(
                f"{port[2]}/{port[1]} is held by {other.key}"
                for port in wanted
                for other in node.pods.values()
                if any(_clash(port, taken) for taken in other.shape.ports)
            )

        return [Check(self.name, test, detail=holders)]


def _clash(one: HostPort, other: HostPort) -> bool:
    """The same port and protocol, on one address or on every address."""
    if one[1:] != other[1:]:
        return False
    return one[0] == other[0] or _ANY_ADDRESS in (one[0], other[0])
