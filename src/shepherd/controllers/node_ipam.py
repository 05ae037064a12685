"""Node IPAM: each node gets a range of the pod network for its own pods.

Source: kubernetes pkg/controller/nodeipam (RangeAllocator).
"""

import ipaddress

from shepherd.api.kinds import NODE
from shepherd.api.objects import Node
from shepherd.client.recorder import Recorder, reference
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.informers import Informers

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class NodeRanges:
    """The parts of a cluster's pod network, each of `prefix` length, by number."""

    def __init__(self, cluster: str, prefix: int) -> None:
        self._network: Network = ipaddress.ip_network(cluster)
        self._prefix = max(prefix, self._network.prefixlen)

    def __len__(self) -> int:
        return int(2 ** (self._prefix - self._network.prefixlen))

    def __getitem__(self, number: int) -> str:
        size = 2 ** (self._network.max_prefixlen - self._prefix)
        return f"{self._network.network_address + number * size}/{self._prefix}"


class NodeIpam:
    """Gives ranges round robin, so that one is reused as late as possible. What is taken is read
    from the nodes: a node that goes frees its own, and a restart loses nothing."""

    name = "node-ipam"

    def __init__(
        self, informers: Informers, nodes: Writer[Node], recorder: Recorder, *, ranges: NodeRanges
    ) -> None:
        self._informers = informers
        self._nodes = nodes
        self._recorder = recorder
        self._ranges = ranges
        self._next = 0
        self._taken: dict[str, str] = {}
        """Range -> node."""
        self._waiting: set[str] = set()
        """Nodes that came when all was taken."""

    def connect(self, queue: WorkQueue) -> None:
        def node_changed(old: Node | None, new: Node | None) -> None:
            kept = new.spec.pod_cidr if new else ""
            if old and old.spec.pod_cidr != kept and self._taken.pop(old.spec.pod_cidr, None):
                while self._waiting:
                    queue.add(self._waiting.pop())
            if new and new.spec.pod_cidr:
                self._taken[new.spec.pod_cidr] = new.metadata.name
            elif new and not (old and old.spec == new.spec):
                queue.add(new.metadata.name)

        self._informers.nodes.on_change(node_changed)

    async def reconcile(self, key: str) -> float | None:
        node = self._informers.nodes.get(key)
        if node is None or node.spec.pod_cidr or node.metadata.deletion_timestamp:
            return None
        found = self._free()
        if found is None:
            text = f"Node {key} status is now: CIDRNotAvailable"
            about = reference(NODE, node.metadata)
            self._recorder.event(about, "Normal", "CIDRNotAvailable", text)
            self._waiting.add(key)
            return None
        self._taken[found] = key
        try:
            patch = {"spec": {"podCIDR": found, "podCIDRs": [found]}}
            await self._nodes.patch(node.metadata, patch)
        except BaseException:
            # If the write came through after all, the watch takes the range again.
            self._taken.pop(found, None)
            raise
        return None

    def _free(self) -> str | None:
        for offset in range(len(self._ranges)):
            at = (self._next + offset) % len(self._ranges)
            found = self._ranges[at]
            if found not in self._taken:
                self._next = at + 1
                return found
        return None
