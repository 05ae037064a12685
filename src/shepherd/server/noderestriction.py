"""The NodeRestriction admission plugin: of what an agent writes, what needs the body to be judged.

A node that could label or untaint itself could draw pods, and with them their secrets, to itself.
The rest is the Node authorizer's. Source: kubernetes plugin/pkg/admission/noderestriction,
kubelet/pkg/apis (well_known_labels.go).
"""

from shepherd.api import errors
from shepherd.api.kinds import LEASE, NODE
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import User
from shepherd.server.auth import NODE_USER_PREFIX, NODES_GROUP

_ITS_OWN = {
    "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
}  # fmt: skip
"""Labels of Kubernetes' own names that a node may give itself."""
_ITS_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESTRICTED = "node-restriction.kubernetes.io"


def node_restriction(resource: Resource, obj: Object, old: Object | None, user: User) -> None:
    """Judge a create (`old` is None) or an update. Raises ApiError 403."""
    if NODES_GROUP not in user.groups or resource not in (NODE, LEASE):
        return
    metadata = obj["metadata"]
    node, name = user.name.removeprefix(NODE_USER_PREFIX), metadata.get("name", "")
    detail = ""
    if name != node and resource is NODE:
        detail = f'node "{node}" is not allowed to modify node "{name}"'
    elif name != node:
        detail = "can only access node lease with the same name as the requesting node"
    elif resource is NODE:
        detail = _overreach(node, obj, old)
    if detail:
        raise errors.forbidden(resource.group, resource.plural, name, detail)


def _overreach(node: str, obj: Object, old: Object | None) -> str:
    """What a node must not change of its own Node; empty if nothing."""
    if old is not None and _taints(obj) != _taints(old):
        return f'node "{node}" is not allowed to modify taints'
    if labels := ", ".join(forbidden_labels(_labels(obj), _labels(old or {}))):
        if old is None:
            return f'node "{node}" is not allowed to set the following labels: {labels}'
        return f"is not allowed to modify labels: {labels}"
    return ""


def _taints(node: Object) -> list[Object]:
    taints: list[Object] = (node.get("spec") or {}).get("taints") or []
    return taints


def _labels(node: Object) -> dict[str, str]:
    labels: dict[str, str] = (node.get("metadata") or {}).get("labels") or {}
    return labels


def forbidden_labels(new: dict[str, str], old: dict[str, str]) -> list[str]:
    """The labels that differ and that a node may not change, sorted."""
    changed = {label for label, _ in new.items() ^ old.items()}
    return sorted(label for label in changed if not _may_label(label))


def _may_label(label: str) -> bool:
    domain = label.rpartition("/")[0]
    if _within(domain, _RESTRICTED):
        return False
    kubernetes = _within(domain, "kubernetes.io") or _within(domain, "k8s.io")
    allowed = label in _ITS_OWN or any(_within(domain, one) for one in _ITS_OWN_DOMAINS)
    return not kubernetes or allowed


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")
