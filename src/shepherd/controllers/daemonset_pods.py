"""The pods of a DaemonSet: on which nodes they are to be, and how each is bound to its own. Pure.

Source: kubernetes pkg/controller/daemon/util/daemonset_util.go and NodeShouldRunDaemonPod.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shepherd.api.kinds.daemonsets import DAEMON_SET
from shepherd.api.objects import DaemonSet, Node, Pod, PodSpec, decode
from shepherd.api.placement import (
    NO_EXECUTE,
    NO_SCHEDULE,
    named_nodes,
    required_affinity,
    untolerated,
)
from shepherd.api.resource import Object
from shepherd.controllers.history import POD_REVISION
from shepherd.controllers.templates import name_hash, pod_of

_MAX_NAME = 242
"""Of a DaemonSet's name so much fits into that of a pod."""
_TOLERATED = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
    ("network-unavailable", NO_SCHEDULE),
)
"""Taints node.kubernetes.io/... that daemons bear: they come before all else, and stay to the end,
on a node that is lost too. The last is for those that use the node's own network."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What a DaemonSet wants of a node."""

    run: bool
    """There is to be a pod."""
    stay: bool
    """One that is there already may stay."""


def daemon_spec(template: Object) -> Object:
    """The pod spec of the template, with the tolerations of every daemon."""
    spec: Object = dict(template.get("spec") or {})
    own = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
        for key, effect in _TOLERATED
        if key != "network-unavailable" or spec.get("hostNetwork")
    ]
    given = spec.get("tolerations") or []
    return spec | {"tolerations": [*given, *(item for item in own if item not in given)]}


def new_pod(daemon_set: DaemonSet, hash: str, node: str, present: Iterable[str] = ()) -> Object:
    """The pod for a node, beside those there whose UIDs are in `present`. It is the scheduler that
    binds it, as any other: an affinity leaves it no choice but that node.

    Its name follows from all that, so that trying again makes no second one, if the first try had
    made one after all and its answer was lost.
    """
    owner = daemon_set.metadata
    suffix = name_hash(owner.uid, hash, node, sorted(present))
    name = f"{owner.name[:_MAX_NAME]}-{suffix}"
    pod = pod_of(daemon_set.spec.template, DAEMON_SET, owner, name=name)
    meta, spec = pod["metadata"], daemon_spec(daemon_set.spec.template)
    meta["labels"] = meta.get("labels", {}) | {POD_REVISION: hash}
    affinity = dict(spec.get("affinity") or {})
    this = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity["nodeAffinity"] = (affinity.get("nodeAffinity") or {}) | {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [this]}]
        }
    }
    return pod | {"spec": spec | {"affinity": affinity}}


def node_of(pod: Pod) -> str:
    """The node that a daemon is on, or is meant for; empty if it names none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    named = named_nodes(pod.spec.affinity) or set()
    return min(named) if len(named) == 1 else ""


def fits(template: Object) -> Callable[[Node], Fit]:
    """What a DaemonSet with this template wants of a node, as a function."""
    spec = decode(daemon_spec(template), PodSpec)
    demand = required_affinity(spec.node_selector, spec.affinity)

    def fit(node: Node) -> Fit:
        meta, taints = node.metadata, node.spec.taints
        if spec.node_name not in ("", meta.name):
            return Fit(run=False, stay=False)
        if demand is not None and not demand(meta.labels, meta.name):
            return Fit(run=False, stay=False)
        if untolerated(spec.tolerations, taints) is None:
            return Fit(run=True, stay=True)
        return Fit(run=False, stay=untolerated(spec.tolerations, taints, (NO_EXECUTE,)) is None)

    return fit


def placing(node: Node) -> tuple[Any, ...]:
    """All of a node's changing state that counts here."""
    return node.metadata.labels, node.spec.taints
