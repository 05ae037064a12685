"""`Shape`: what a pod asks of a node. Pods of one template share one.

Most pods are copies. What plugins derive from a pod's spec, and the ranking of nodes that `cycle`
keeps, is therefore kept once for a shape and not for each pod.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shepherd.api.objects.meta import ObjectMeta
from shepherd.api.objects.pod import Affinity, PodAffinity, PodAffinityTerm
from shepherd.api.placement import named_nodes
from shepherd.api.quantity import millis, whole
from shepherd.api.selectors import NOTHING, Requirement, Selector, selector_of
from shepherd.scheduler.objects import Amounts, Container, Pod, PodSpec

HostPort = tuple[str, str, int]
"""(address, protocol, port); the address 0.0.0.0 is every address."""
Resources = dict[str, int]
"""Amounts by resource: cpu in thousandths of a core, all else in whole units."""

# What a container without a request counts for in scores, so that many such pods spread
# (upstream pkg/scheduler/util/pod_resources.go).
DEFAULT_CPU_MILLIS = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024

_MAX_SHAPES = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Compared by identity: `Shapes` gives equal pods the same one."""

    spec: PodSpec
    workload: str
    """The UID of the pod's controller, or empty."""
    requests: Resources
    score_cpu: int
    """Requests for scoring: with defaults where a container asks nothing."""
    score_memory: int
    ports: tuple[HostPort, ...]
    affinity: tuple["PodTerm", ...]
    """Required pod affinity."""
    anti_affinity: tuple["PodTerm", ...]
    """Required pod anti-affinity."""
    nodes: set[str] | None
    """The only nodes that can be fit, by name; None: any may be."""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods that a (anti-)affinity term means, and the node label that says what "near" is.

    The selectors are compared by their texts.
    """

    topology_key: str
    namespaces: frozenset[str]
    selectors: tuple[str, str]
    labels_match: Callable[[Mapping[str, str]], bool] = field(compare=False)
    namespace_matches: Callable[[Mapping[str, str]], bool] = field(compare=False)

    def matches(self, pod: "PodInfo") -> bool:
        in_reach = pod.namespace in self.namespaces or self.namespace_matches(pod.namespace_labels)
        return in_reach and self.labels_match(pod.labels)


def pod_term(term: PodAffinityTerm, meta: ObjectMeta) -> PodTerm:
    """A term of the pod with the metadata `meta`."""
    selector = with_label_keys(
        selector_of(term.label_selector),
        meta.labels,
        same=term.match_label_keys,
        different=term.mismatch_label_keys,
    )
    own = () if term.namespaces or term.namespace_selector else (meta.namespace,)
    spaces = selector_of(term.namespace_selector)
    texts = str(selector), "" if spaces is NOTHING else f"({spaces})"
    namespaces = frozenset((*term.namespaces, *own))
    return PodTerm(term.topology_key, namespaces, texts, selector.matches, spaces.matches)


def with_label_keys(
    selector: Selector,
    labels: Mapping[str, str],
    *,
    same: Sequence[str],
    different: Sequence[str] = (),
) -> Selector:
    """`selector`, and of the labels with these keys the value that the pod itself has, or not."""
    if selector is NOTHING:
        return selector
    more = [
        Requirement(key, operator, frozenset({labels[key]}))
        for operator, keys in (("in", same), ("notin", different))
        for key in keys
        if key in labels
    ]
    return Selector((*selector.requirements, *more))


class Shapes:
    """Finds the shape of a pod. Remembers the most recently used ones."""

    def __init__(self) -> None:
        self._shapes: OrderedDict[bytes, Shape] = OrderedDict()
        self._encoder = msgspec.msgpack.Encoder()

    def of(self, pod: Pod) -> Shape:
        """The shape of `pod`. Raises QuantityError for a malformed request."""
        spec, meta = pod.spec, pod.metadata
        controller = meta.controller
        workload = controller.uid if controller else ""
        parts: list[Any] = [
            workload,
            spec.containers,
            spec.init_containers,
            spec.overhead,
            spec.host_network,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
        ]
        if spec.affinity or spec.topology_spread_constraints:
            parts += (meta.namespace, meta.labels)  # their selectors may look at the pod itself
        key = self._encoder.encode(parts)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _shape(spec, workload, meta)
            if len(self._shapes) > _MAX_SHAPES:
                self._shapes.popitem(last=False)
        else:
            self._shapes.move_to_end(key)
        return shape


@dataclass(slots=True, eq=False)
class PodInfo:
    """A pod with its shape."""

    key: str
    """`namespace/name`."""
    pod: Pod
    shape: Shape
    namespace_labels: Mapping[str, str] = field(default_factory=dict)

    def counts_as(self, other: "PodInfo") -> bool:
        """No rule can tell this state of a placed pod from the other."""
        same_labels = self.labels == other.labels
        same_namespace = self.namespace_labels == other.namespace_labels
        return self.shape is other.shape and same_labels and same_namespace

    @property
    def labels(self) -> dict[str, str]:
        return self.pod.metadata.labels

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace


def _shape(spec: PodSpec, workload: str, meta: ObjectMeta) -> Shape:
    requests = _pod_requests(spec, {})
    scored = _pod_requests(spec, {"cpu": DEFAULT_CPU_MILLIS, "memory": DEFAULT_MEMORY_BYTES})
    affinity = spec.affinity or Affinity()
    return Shape(
        spec=spec,
        workload=workload,
        requests={name: amount for name, amount in requests.items() if amount},
        score_cpu=scored.get("cpu", 0),
        score_memory=scored.get("memory", 0),
        ports=_host_ports(spec),
        affinity=_required(affinity.pod_affinity, meta),
        anti_affinity=_required(affinity.pod_anti_affinity, meta),
        nodes=named_nodes(spec.affinity),
    )


def _required(affinity: PodAffinity | None, meta: ObjectMeta) -> tuple[PodTerm, ...]:
    if affinity is None:
        return ()
    terms = affinity.required_during_scheduling_ignored_during_execution
    return tuple(pod_term(term, meta) for term in terms)


def _pod_requests(spec: PodSpec, default: Resources) -> Resources:
    """What the pod needs at its hungriest moment.

    Either all containers with all sidecars, or one init container with the sidecars that started
    before it; plus the overhead (upstream component-helpers `resource.PodRequests`).
    """
    running: Resources = {}
    for container in spec.containers:
        _add(running, _requests(container, default))
    sidecars: Resources = {}
    initialising: Resources = {}
    for container in spec.init_containers:
        request = _requests(container, default)
        if container.restart_policy == "Always":
            _add(sidecars, request)
            _raise(initialising, sidecars)
        else:
            _add(request, sidecars)
            _raise(initialising, request)
    _add(running, sidecars)
    _raise(running, initialising)
    _add(running, resources(spec.overhead))
    return running


def _requests(container: Container, default: Resources) -> Resources:
    return default | resources(container.resources.requests)


def _add(total: Resources, more: Resources) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Resources, floor: Resources) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)


def resources(amounts: Amounts) -> Resources:
    """Quantities as numbers."""
    return {
        name: millis(amount) if name == "cpu" else whole(amount) for name, amount in amounts.items()
    }


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    return tuple(
        (port.host_ip or "0.0.0.0", port.protocol, port.host_port)
        for container in (*spec.containers, *spec.init_containers)
        for port in container.ports
        if port.host_port
    )
