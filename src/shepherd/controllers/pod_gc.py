"""Pod GC: removes pods that nobody else will: finished ones beyond a limit, and those whose node is
gone for good.

Source: kubernetes pkg/controller/podgc.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from shepherd.api.errors import ApiError
from shepherd.api.kinds import NODE, POD
from shepherd.api.meta import format_time
from shepherd.api.objects import Node, Pod
from shepherd.client.base import Client
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.informers import Informers
from shepherd.controllers.pods import created_at
from shepherd.lib.clock import Clock
from shepherd.lib.tasks import all_of

PERIOD_SECONDS = 20.0
QUARANTINE_SECONDS = 40.0
"""How long a node must be missing before its pods are taken for lost."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_BATCH = 50


@dataclass(frozen=True, slots=True)
class Removal:
    """A pod to remove at once, without asking any node. With a reason it is marked Failed before,
    so that who watches it sees why it ended."""

    pod: Pod
    message: str = ""


def removals(
    pods: Iterable[Pod], nodes: dict[str, Node], lost: set[str], finished_limit: int
) -> list[Removal]:
    """What is to go now. `lost` are the names of nodes that are known to exist no longer."""
    found = []
    finished = []
    for pod in pods:
        name = pod.spec.node_name
        node = nodes.get(name)
        if pod.metadata.deletion_timestamp and not name:
            found.append(Removal(pod))
        elif name in lost:
            found.append(Removal(pod, "PodGC: node no longer exists"))
        elif pod.metadata.deletion_timestamp and node and _out_of_service(node):
            found.append(Removal(pod, "PodGC: node is out of service"))
        elif pod.finished and not pod.metadata.deletion_timestamp:
            finished.append(pod)
    finished.sort(key=created_at)
    surplus = finished[: max(len(finished) - finished_limit, 0)]
    return found + [Removal(pod) for pod in surplus]


def _out_of_service(node: Node) -> bool:
    return not node.ready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def failed(now: float, message: str) -> dict[str, object]:
    """The status of a pod that was lost with its node."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": message,
        "lastTransitionTime": format_time(now),
    }
    return {"status": {"phase": "Failed", "conditions": [condition]}}


class PodGc:
    """Looks at all pods every 20 s. A node that is missing is asked for at the API itself before
    any pod of it is removed."""

    name = "pod-garbage-collector"

    def __init__(
        self,
        client: Client,
        informers: Informers,
        pods: Writer[Pod],
        *,
        clock: Clock,
        finished_limit: int,
    ) -> None:
        self._client = client
        self._informers = informers
        self._pods = pods
        self._clock = clock
        self._finished_limit = finished_limit
        self._missing: dict[str, float] = {}
        """Nodes that pods name and nobody knows: since when, on the monotonic clock."""

    def connect(self, queue: WorkQueue) -> None:
        queue.add("all pods")

    async def reconcile(self, key: str) -> float | None:
        nodes = {node.metadata.name: node for node in self._informers.nodes.all()}
        lost = await self._lost(nodes)
        pods = list(self._informers.pods.all())
        plan = removals(pods, nodes, lost, self._finished_limit)
        for at in range(0, len(plan), _BATCH):
            await all_of(self._remove(item) for item in plan[at : at + _BATCH])
        return PERIOD_SECONDS

    async def _lost(self, nodes: dict[str, Node]) -> set[str]:
        """Nodes that pods name and that have been missing for the whole quarantine."""
        named = {pod.spec.node_name for pod in self._informers.pods.all() if pod.spec.node_name}
        now = self._clock.monotonic()
        self._missing = {name: self._missing.get(name, now) for name in named - nodes.keys()}
        due = [n for n, since in self._missing.items() if now - since >= QUARANTINE_SECONDS]
        return {name for name in due if not await self._exists(name)}

    async def _exists(self, name: str) -> bool:
        try:
            await self._client.get(NODE, name)
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        return True

    async def _remove(self, item: Removal) -> None:
        meta = item.pod.metadata
        try:
            if item.message and not item.pod.finished:
                patch = failed(self._clock.now(), item.message) | {"metadata": {"uid": meta.uid}}
                await self._client.patch(
                    POD, meta.name, meta.namespace, patch, type="strategic", sub="status"
                )
        except ApiError as error:
            if error.code not in (404, 409):
                raise
        await self._pods.delete(meta, grace_seconds=0)
