"""The loop: take the next pod, decide, assume, bind. All it knows comes from two informers."""

import asyncio
import logging
from random import Random

from shepherd.api.errors import ApiError
from shepherd.api.kinds import NAMESPACE, NODE, POD
from shepherd.api.meta import format_time
from shepherd.api.objects import Namespace
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.informer import Informer
from shepherd.client.recorder import Recorder, reference
from shepherd.lib.clock import Clock
from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.cycle import Cycle, Unplaced
from shepherd.scheduler.framework import Profile
from shepherd.scheduler.objects import Node, Pod
from shepherd.scheduler.plugins import DEFAULT_PROFILE
from shepherd.scheduler.queue import Entry, SchedulingQueue
from shepherd.scheduler.shape import PodInfo, Shapes

_log = logging.getLogger("shepherd.scheduler")

NAME = "default-scheduler"
_MAX_CALLS = 100
"""Bindings and status patches under way at one time."""
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Scheduler:
    """Binds the pending pods that ask for `NAME` to nodes."""

    def __init__(
        self, client: Client, *, clock: Clock, random: Random, profile: Profile = DEFAULT_PROFILE
    ) -> None:
        self._client = client
        self._clock = clock
        self._profile = profile
        self._cache = Cache(random)
        self._cycle = Cycle(self._cache, profile)
        self._shapes = Shapes()
        self._queue = SchedulingQueue(clock)
        self._assumed: set[str] = set()
        """Pods that are counted on a node before the informer has confirmed it."""
        self._calls = asyncio.Semaphore(_MAX_CALLS)
        self._recorder = Recorder(client, NAME, clock=clock)
        self._nodes = Informer(client, NODE, Node, clock=clock, random=random)
        self._pods = Informer(
            client, POD, Pod, clock=clock, random=random, field_selector=_UNFINISHED
        )
        self._namespaces = Informer(client, NAMESPACE, Namespace, clock=clock, random=random)
        self._namespaces.on_change(self._namespace_changed)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            for informer in (self._namespaces, self._nodes, self._pods):
                group.create_task(informer.run())
                await informer.synced()
            while True:
                await self._calls.acquire()
                entry = await self._queue.pop()
                call = group.create_task(self._schedule(entry))
                call.add_done_callback(lambda _: self._calls.release())
                await asyncio.sleep(0)

    # What happened

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        """Its labels may bear on pod affinity."""
        if old and new and old.metadata.labels != new.metadata.labels:
            for pod in list(self._pods.all()):
                if pod.metadata.namespace == new.metadata.name:
                    self._pod_changed(pod, pod)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._cache.remove_node(old.metadata.name)
            self._queue.wake(lambda unplaced: unplaced.helped_by_pods)
        elif (node := self._cache.set_node(new)) is not None:
            self._wake_for(node)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        key = pod.metadata.key
        if new is None or new.finished:
            self._forget(key)
        elif new.spec.node_name:
            self._queue.remove(key)
            self._assumed.discard(key)
            self._cache.place(self._info(new), new.spec.node_name)
            self._queue.wake(lambda unplaced: unplaced.helped_by_pods)
        elif new.spec.scheduler_name != NAME or new.metadata.deletion_timestamp:
            self._queue.remove(key)
        else:
            self._queue.put(self._info(new))

    def _forget(self, key: str) -> None:
        """The pod needs no node any more; others may want its place."""
        self._queue.remove(key)
        self._assumed.discard(key)
        if (node := self._cache.remove(key)) is not None:
            self._wake_for(node)

    def _wake_for(self, node: NodeInfo) -> None:
        self._queue.wake(lambda unplaced: unplaced.helped_by_pods or unplaced.helped_by_node(node))

    def _info(self, pod: Pod) -> PodInfo:
        namespace = self._namespaces.get(pod.metadata.namespace)
        labels = namespace.metadata.labels if namespace else {}
        return PodInfo(pod.metadata.key, pod, self._shapes.of(pod), labels)

    # What to do

    async def _schedule(self, entry: Entry) -> None:
        """Decide (nothing happens between a decision and its assumption), then tell the API."""
        pod = entry.info.pod
        if gates := [unfit for plugin in self._profile.gates if (unfit := plugin.gate(pod))]:
            self._queue.remove(entry.info.key)  # it is put in again when it changes
            await self._set_condition(pod, "SchedulingGated", gates[0].reason)
            return
        decision = self._cycle.decide(entry.info)
        if isinstance(decision, Unplaced):
            self._queue.park(entry, decision)
            about = reference(POD, pod.metadata)
            self._recorder.event(about, "Warning", "FailedScheduling", decision.message)
            await self._set_condition(pod, "Unschedulable", decision.message)
        else:
            self._assumed.add(entry.info.key)
            self._cache.place(entry.info, decision.name)
            await self._bind(entry, decision.name)

    async def _bind(self, entry: Entry, node: str) -> None:
        meta = entry.info.pod.metadata
        binding: Object = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create(POD, binding, meta.namespace, sub="binding", name=meta.name)
        except (ApiError, ConnectionError) as error:
            self._binding_failed(entry, error)
        else:
            message = f"Successfully assigned {meta.key} to {node}"
            self._recorder.event(reference(POD, meta), "Normal", "Scheduled", message)

    def _binding_failed(self, entry: Entry, error: Exception) -> None:
        """Try again later, unless the informer says that the pod is bound or gone after all."""
        key = entry.info.key
        if key in self._assumed:
            self._assumed.discard(key)
            if (node := self._cache.remove(key)) is not None:
                self._wake_for(node)
        self._queue.retry(entry)
        if not (isinstance(error, ApiError) and error.code == 404):
            _log.warning("binding %s: %s", key, error)
            about = reference(POD, entry.info.pod.metadata)
            message = f"binding rejected: {error}"
            self._recorder.event(about, "Warning", "FailedScheduling", message)

    async def _set_condition(self, pod: Pod, reason: str, message: str) -> None:
        """PodScheduled=False says why a pod is pending. Written only when it changes."""
        since = format_time(self._clock.now())
        for known in pod.status.conditions:
            if known.type == "PodScheduled" and known.status == "False":
                if (known.reason, known.message) == (reason, message):
                    return
                since = known.last_transition_time or since
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }
        meta = pod.metadata
        patch: Object = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                POD, meta.name, meta.namespace, patch, type="strategic", sub="status"
            )
        except (ApiError, ConnectionError) as error:
            _log.debug("status of %s: %s", meta.key, error)
