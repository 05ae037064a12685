"""Node lifecycle: a node whose Lease is not renewed is marked, tainted, and its pods are unready.

Source: kubernetes pkg/controller/nodelifecycle. Time is measured by our own monotonic clock from
renewals that we saw, never by comparing time stamps of two machines.
"""

from dataclasses import dataclass

from shepherd.api.errors import ApiError
from shepherd.api.kinds import NODE, POD
from shepherd.api.meta import format_time
from shepherd.api.objects import Lease, Node, Pod, Taint
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.recorder import Recorder, reference
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers import conditions
from shepherd.controllers.attention import Attention
from shepherd.controllers.informers import Informers
from shepherd.lib.clock import Clock
from shepherd.lib.tasks import all_of

LEASE_NAMESPACE = "kube-node-lease"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_BY_CONDITION = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OURS = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_BY_CONDITION.values()}
_JUDGED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class TaintKey:
    """What identifies a taint on a node."""

    key: str
    effect: str


def wanted_taints(node: Node, *, evict: bool) -> list[TaintKey]:
    """The taints that a node's state calls for; NoExecute, which drives pods away, if `evict`."""
    found = []
    ready = conditions.find(node.status.conditions, "Ready")
    if ready is None or ready.status != "True":
        key = UNREACHABLE if ready and ready.status == "Unknown" else NOT_READY
        found.append(TaintKey(key, "NoSchedule"))
        if evict and ready:
            found.append(TaintKey(key, "NoExecute"))
    found += [
        TaintKey(_BY_CONDITION[condition.type], "NoSchedule")
        for condition in node.status.conditions
        if condition.status == "True" and condition.type in _BY_CONDITION
    ]
    if node.spec.unschedulable:
        found.append(TaintKey(UNSCHEDULABLE, "NoSchedule"))
    return found


def new_taints(node: Node, *, evict: bool, now: float) -> list[Object] | None:
    """The node's whole list of taints, users' own ones untouched; None if it is right already."""
    wanted = wanted_taints(node, evict=evict)
    present = [TaintKey(t.key, t.effect) for t in node.spec.taints]
    if {t for t in present if t.key in _OURS} == set(wanted):
        return None
    kept = [t for t in node.spec.taints
            if t.key not in _OURS or TaintKey(t.key, t.effect) in wanted]  # fmt: skip
    added = [t for t in wanted if t not in present]
    return [_taint(t) for t in kept] + [
        {"key": t.key, "effect": t.effect, "timeAdded": format_time(now)} for t in added
    ]


def _taint(taint: Taint) -> Object:
    obj: Object = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        obj["value"] = taint.value
    if taint.time_added:
        obj["timeAdded"] = taint.time_added
    return obj


def unknown_conditions(node: Node, now: float) -> list[Object]:
    """What to write into the conditions of a node that has gone silent."""
    return [
        {
            "type": judged,
            "status": "Unknown",
            "reason": "NodeStatusUnknown" if old else "NodeStatusNeverUpdated",
            "message": f"Kubelet {'stopped posting' if old else 'never posted'} node status.",
            "lastTransitionTime": format_time(now),
        }
        for judged in _JUDGED
        if not (old := conditions.find(node.status.conditions, judged)) or old.status != "Unknown"
    ]


class NodeLifecycle:
    """Judges nodes by their silence. While every node is silent none is evicted from: it is then
    more likely that the network, or we, have failed than that all of them died."""

    name = "node-lifecycle"

    def __init__(
        self,
        client: Client,
        informers: Informers,
        nodes: Writer[Node],
        recorder: Recorder,
        attention: Attention,
        *,
        clock: Clock,
        grace_seconds: float,
    ) -> None:
        self._client = client
        self._informers = informers
        self._nodes = nodes
        self._recorder = recorder
        self._attention = attention
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._heard: dict[str, float] = {}
        """When each node last gave a sign of life, on the monotonic clock."""

    def connect(self, queue: WorkQueue) -> None:
        def lease_changed(old: Lease | None, new: Lease | None) -> None:
            if new and new.metadata.namespace == LEASE_NAMESPACE:
                renewed = old is None or old.spec.renew_time != new.spec.renew_time
                if renewed and new.metadata.name in self._heard:
                    self._heard[new.metadata.name] = self._clock.monotonic()

        def node_changed(old: Node | None, new: Node | None) -> None:
            if new is None:
                assert old is not None
                self._heard.pop(old.metadata.name, None)
                queue.add(old.metadata.name)
                return
            reported = old is None or old.status.conditions != new.status.conditions
            if new.metadata.name not in self._heard or (reported and new.ready):
                self._heard[new.metadata.name] = self._clock.monotonic()
            queue.add(new.metadata.name)

        def pod_changed(old: Pod | None, new: Pod | None) -> None:
            # A pod that was bound to a silent node, or claims to be ready there.
            if new and new.spec.node_name and new.ready and self._is_silent(new.spec.node_name):
                queue.add(new.spec.node_name)

        self._informers.nodes.on_change(node_changed)
        self._informers.leases.on_change(lease_changed)
        self._informers.pods.on_change(pod_changed)

    def _silence(self, name: str) -> float:
        """How long we have listened to a node in vain, in seconds."""
        return self._clock.monotonic() - max(self._heard.get(name, 0.0), self._attention.since())

    def _is_silent(self, name: str) -> bool:
        return name in self._heard and self._silence(name) >= self._grace_seconds

    async def reconcile(self, key: str) -> float | None:
        node = self._informers.nodes.get(key)
        if node is None:
            return None
        silence = self._silence(key)
        if silence >= self._grace_seconds:
            node = await self._mark_unknown(node)
            await self._mark_pods(node)
        taints = new_taints(node, evict=not self._all_lost(), now=self._clock.now())
        if taints is not None:
            version = node.metadata.resource_version
            patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}
            await self._nodes.patch(node.metadata, patch)
        return max(self._grace_seconds - silence, self._grace_seconds / 8)

    def _all_lost(self) -> bool:
        return all(self._is_silent(node.metadata.name) for node in self._informers.nodes.all())

    async def _mark_unknown(self, node: Node) -> Node:
        written = unknown_conditions(node, self._clock.now())
        if not written:
            return node
        text = f"Node {node.metadata.name} status is now: NodeNotReady"
        self._recorder.event(reference(NODE, node.metadata), "Normal", "NodeNotReady", text)
        patch = {"status": {"conditions": written}}
        return await self._nodes.patch(node.metadata, patch, type="strategic", sub="status")

    async def _mark_pods(self, node: Node) -> None:
        """The node's pods are no longer ready, so that no Service sends them anything."""
        pods = self._informers.pods.by_index("node", node.metadata.name)
        await all_of(self._mark_pod(pod) for pod in pods if pod.ready)

    async def _mark_pod(self, pod: Pod) -> None:
        condition = {
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": format_time(self._clock.now()),
        }
        patch = {
            "metadata": {"uid": pod.metadata.uid},
            "status": {"conditions": [condition]},
        }
        meta = pod.metadata
        try:
            await self._client.patch(
                POD, meta.name, meta.namespace, patch, type="strategic", sub="status"
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise
        else:
            self._recorder.event(
                reference(POD, meta), "Warning", "NodeNotReady", "Node is not ready"
            )
