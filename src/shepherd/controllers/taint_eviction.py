"""Taint eviction: a pod leaves a node whose NoExecute taints it does not (or no longer) tolerate.

Source: kubernetes pkg/controller/tainteviction. The toleration time runs on our own monotonic
clock from when we saw the taint.
"""

from collections.abc import Iterable

from shepherd.api.kinds import POD
from shepherd.api.objects import Node, Pod, Taint
from shepherd.api.placement import NO_EXECUTE, tolerates
from shepherd.client.recorder import Recorder, reference
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.attention import Attention
from shepherd.controllers.informers import Informers
from shepherd.lib.clock import Clock

TaintId = tuple[str, str]


def patience(pod: Pod, taint: Taint) -> float | None:
    """How many seconds a pod bears a NoExecute taint: 0 not at all, None for ever."""
    matching = [t.toleration_seconds for t in pod.spec.tolerations if tolerates(t, taint)]
    if not matching:
        return 0.0
    limits = [float(max(seconds, 0)) for seconds in matching if seconds is not None]
    return min(limits, default=None)


def evicting(node: Node) -> list[Taint]:
    """Its NoExecute taints."""
    return [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]


class TaintEviction:
    """Deletes pods through the API, with their grace period. Those of a dead node so become
    Terminating, and whoever owns them makes new ones elsewhere."""

    name = "taint-eviction"

    def __init__(
        self,
        informers: Informers,
        pods: Writer[Pod],
        recorder: Recorder,
        attention: Attention,
        *,
        clock: Clock,
    ) -> None:
        self._informers = informers
        self._pods = pods
        self._recorder = recorder
        self._attention = attention
        self._clock = clock
        self._seen: dict[str, dict[TaintId, float]] = {}
        """Of each node with NoExecute taints: since when, on the monotonic clock."""
        self._arrived: dict[str, float] = {}
        """By UID, pods that came to a node that had such taints already: their time runs from
        then."""

    def connect(self, queue: WorkQueue) -> None:
        def node_changed(old: Node | None, new: Node | None) -> None:
            name = (new or old or Node()).metadata.name
            before = self._seen.pop(name, {})
            taints = evicting(new) if new else []
            if taints:
                now = self._clock.monotonic()
                ids = [(taint.key, taint.value) for taint in taints]
                self._seen[name] = {item: before.get(item, now) for item in ids}
            if self._seen.get(name, {}) != before:
                for pod in self._informers.pods.by_index("node", name):
                    queue.add(pod.metadata.key)

        def pod_changed(old: Pod | None, new: Pod | None) -> None:
            if new is None:
                self._arrived.pop((old or Pod()).metadata.uid, None)
            elif new.spec.node_name in self._seen:
                if old is None or not old.spec.node_name:
                    self._arrived[new.metadata.uid] = self._clock.monotonic()
                queue.add(new.metadata.key)

        self._informers.nodes.on_change(node_changed)
        self._informers.pods.on_change(pod_changed)

    async def reconcile(self, key: str) -> float | None:
        pod = self._informers.pods.get(key)
        node = self._informers.nodes.get(pod.spec.node_name) if pod else None
        if pod is None or node is None or pod.finished or pod.metadata.deletion_timestamp:
            return None
        left = self._left(pod, evicting(node))
        if left is None or left > 0:
            return left
        text = f"Marking for deletion Pod {pod.metadata.key}"
        self._recorder.event(reference(POD, pod.metadata), "Normal", "TaintManagerEviction", text)
        await self._pods.delete(pod.metadata)
        return None

    def _left(self, pod: Pod, taints: Iterable[Taint]) -> float | None:
        """The seconds that the pod may stay; None for ever."""
        now = self._clock.monotonic()
        earliest = max(self._attention.since(), self._arrived.get(pod.metadata.uid, 0.0))
        seen = self._seen.get(pod.spec.node_name, {})
        waits = [
            max(seen.get((taint.key, taint.value), now), earliest) + seconds - now
            for taint in taints
            if (seconds := patience(pod, taint)) is not None
        ]
        return min(waits, default=None)
