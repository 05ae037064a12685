"""metrics.k8s.io: what nodes and pods use now, as `kubectl top` and autoscalers ask for it.

The figures are the agents'. They are asked when somebody asks us, and what they said is kept for a
few seconds; a node that does not answer in time is left out, with its pods.
Source: kubernetes-sigs/metrics-server pkg/api, pkg/storage.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec

from shepherd.api import errors
from shepherd.api.kinds import NODE, POD
from shepherd.api.kinds.metrics import GROUP, NODE_METRICS, POD_METRICS
from shepherd.api.meta import split_key
from shepherd.api.objects import Pod
from shepherd.api.objects import decode as view
from shepherd.api.objects.meta import View
from shepherd.api.quantity import NANO, Quantity
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import Request, Response
from shepherd.lib.tasks import all_of
from shepherd.server import proxy, reads
from shepherd.server.codec import decode, encode
from shepherd.server.forms import choose
from shepherd.server.handlers import Call, Handlers, answer
from shepherd.server.selection import select
from shepherd.store.base import Item

_KEPT_SECONDS = 5.0
"""How long an agent's answer, or its silence, is not asked for again."""
_ANSWER_SECONDS = 5.0
"""How long agents may take, all together."""
_CONCURRENT = 64
"""Agents that are asked at the same time."""


class _Cpu(View):
    time: str
    usage_nano_cores: int


class _Memory(View):
    working_set_bytes: int


class _Use(View):
    """What one container, or the node, uses."""

    cpu: _Cpu
    memory: _Memory
    name: str = ""


class _PodReference(View):
    uid: str


class _PodUse(View):
    pod_ref: _PodReference
    containers: list[_Use]


class Summary(View):
    """What an agent says: kubelet's summary, and how long it measured."""

    node: _Use
    pods: list[_PodUse]
    window_seconds: float


@dataclass(slots=True)
class _Asked:
    """What one agent said last."""

    at: float = float("-inf")
    summary: Summary | None = None
    """None: it did not answer."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Metrics:
    """Answers for the two kinds of metrics.k8s.io."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._asked: dict[str, _Asked] = {}
        self._turns = asyncio.Semaphore(_CONCURRENT)

    async def handle(self, call: Call) -> Response:
        """Answer a get or a list. Raises ApiError."""
        of_nodes = call.route.resource is NODE_METRICS
        resource = NODE if of_nodes else POD
        measured = replace(call.route, resource=resource, group="", version="v1")
        if call.route.verb == "get":
            chosen = [await self._handlers.registry.item(measured)]
        elif call.route.verb == "list":
            listing = await reads.list_objects(
                self._handlers.store,
                select(measured, call.query),
                {},
                self._handlers.registry.versions,
            )
            chosen = listing.items
        else:
            raise errors.method_not_allowed(call.request.method)
        items = await (self._nodes(chosen) if of_nodes else self._pods(chosen))
        accept = call.request.headers.get("accept", "")
        form = choose(call.route, accept, call.query.get("includeObject", ""), self._handlers.now)
        if call.route.verb == "list":
            return answer(await form.many(items, {}))
        if not items:
            name = f"{call.route.namespace}/{call.route.name}".lstrip("/")
            raise errors.not_found(GROUP, call.route.resource.kind.lower(), name)
        return answer(form.one(items[0].value, 0))

    async def _nodes(self, nodes: list[Item]) -> list[Item]:
        summaries = await self._ask([split_key(node.key)[2] for node in nodes])
        return [
            Item(node.key, encode(_node_metrics(decode(node.value), summary)), 0)
            for node in nodes
            if (summary := summaries.get(split_key(node.key)[2]))
        ]

    async def _pods(self, pods: list[Item]) -> list[Item]:
        views = [(pod, view(pod.value, Pod)) for pod in pods]
        summaries = await self._ask({pod.spec.node_name for _, pod in views if pod.spec.node_name})
        uses = {
            pod.pod_ref.uid: (pod, summary)
            for summary in summaries.values()
            for pod in summary.pods
            if pod.containers
        }
        return [
            Item(item.key, encode(_pod_metrics(decode(item.value), *uses[pod.metadata.uid])), 0)
            for item, pod in views
            if pod.metadata.uid in uses
        ]

    async def _ask(self, nodes: Iterable[str]) -> dict[str, Summary]:
        """What the agents of these nodes say, without those that do not answer in time."""
        self._asked = {name: one for name, one in self._asked.items() if self._is_kept(one)}
        names = list(nodes)
        until = asyncio.get_running_loop().time() + _ANSWER_SECONDS
        found = await all_of([self._ask_node(name, until) for name in names])
        return {name: one for name, one in zip(names, found, strict=True) if one}

    async def _ask_node(self, node: str, until: float) -> Summary | None:
        asked = self._asked.setdefault(node, _Asked())
        try:
            async with asyncio.timeout_at(until), asked.lock:
                if not self._is_fresh(asked):
                    asked.summary = None
                    try:
                        async with self._turns:
                            asked.summary = await self._fetch(node)
                    finally:
                        asked.at = self._handlers.now()
                return asked.summary
        except TimeoutError:
            return None

    def _is_kept(self, asked: _Asked) -> bool:
        return asked.lock.locked() or self._is_fresh(asked)

    def _is_fresh(self, asked: _Asked) -> bool:
        return 0 <= self._handlers.now() - asked.at < _KEPT_SECONDS

    async def _fetch(self, node: str) -> Summary | None:
        request = Request("GET", "/stats/summary")
        try:
            response = await proxy.ask_agent(self._handlers, node, request)
        except errors.ApiError:
            return None
        if not isinstance(response.body, bytes):  # no agent sends this without its length
            await response.body.aclose()
            return None
        try:
            return msgspec.json.decode(response.body, type=Summary)
        except msgspec.DecodeError:
            return None


def _node_metrics(node: Object, summary: Summary) -> Object:
    return _metrics(NODE_METRICS, node, summary) | {"usage": _usage(summary.node)}


def _pod_metrics(pod: Object, use: _PodUse, summary: Summary) -> Object:
    containers = [{"name": one.name, "usage": _usage(one)} for one in use.containers]
    return _metrics(POD_METRICS, pod, summary) | {"containers": containers}


def _metrics(resource: Resource, measured: Object, summary: Summary) -> Object:
    """What is told of a node or pod besides its use."""
    stamp, metadata = summary.node.cpu.time, measured["metadata"]
    kept = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": kept | {"creationTimestamp": stamp},
        "timestamp": stamp,
        "window": f"{summary.window_seconds:g}s",
    }


def _usage(use: _Use) -> Object:
    return {
        "cpu": str(Quantity(use.cpu.usage_nano_cores)),
        "memory": str(Quantity(use.memory.working_set_bytes * NANO, "binary")),
    }
