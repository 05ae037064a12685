"""The Node authorizer: an agent does what its node needs, and reads what its pods refer to.

What needs the request's body is judged by the NodeRestriction admission plugin
(`server.noderestriction`). Source: kubernetes plugin/pkg/auth/authorizer/node; "Using Node
Authorization".
"""

from collections.abc import Callable

import msgspec

from shepherd.api.kinds import CONFIG_MAP, LEASE, NODE, POD, SECRET, SERVICE_ACCOUNT
from shepherd.api.kinds.storage import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from shepherd.api.meta import object_key, split_key
from shepherd.api.objects import Pod, decode
from shepherd.api.objects.meta import View
from shepherd.api.references import Reference, references
from shepherd.lib.http import User
from shepherd.server.auth import NODE_USER_PREFIX, NODES_GROUP
from shepherd.server.authorization.actions import Action, Known, Verdict
from shepherd.server.authorization.policy import NODE_RULES
from shepherd.server.authorization.rbac import permits
from shepherd.server.authorization.tracker import Tracker

_LEASE_NAMESPACE = "kube-node-lease"
_READ = ("get", "list", "watch")
_CHANGE = ("update", "patch")


class _HeadMetadata(View):
    uid: str = ""


class _HeadSpec(View):
    node_name: str = ""
    ephemeral_containers: list[msgspec.Raw] = msgspec.field(default_factory=list)


class _Head(View):
    """What decides whether a pod may have come to refer to other things."""

    metadata: _HeadMetadata = msgspec.field(default_factory=_HeadMetadata)
    spec: _HeadSpec = msgspec.field(default_factory=_HeadSpec)


class _ClaimRef(View):
    namespace: str = ""
    name: str = ""


class _VolumeSpec(View):
    claim_ref: _ClaimRef = msgspec.field(default_factory=_ClaimRef)


class _Volume(View):
    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)


class _BoundPod:
    """A pod of a node. What it refers to is read when it is first asked for."""

    def __init__(self, head: _Head, value: bytes) -> None:
        self.head = head
        self._value = value
        self._references: set[Reference] | None = None

    def renew(self, value: bytes) -> None:
        """Its state is another, but it refers to the same."""
        if self._references is None:
            self._value = value  # the store no longer holds the old one, nor shall this

    @property
    def references(self) -> set[Reference]:
        if self._references is None:
            self._references, self._value = _references(decode(self._value, Pod)), b""
        return self._references


def _references(pod: Pod) -> set[Reference]:
    """All that a node may touch for a pod's sake."""
    namespace = pod.metadata.namespace
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return references(pod) | {
        Reference(SERVICE_ACCOUNT.kind, namespace, pod.spec.service_account_name),
        *(_claim(namespace, claim.claim_name) for claim in claims if claim),
    }


class Bound:
    """What is bound to nodes: their pods, and what those refer to. An `Index`."""

    storages = (POD.storage, PERSISTENT_VOLUME.storage)

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, _BoundPod]] = {}
        """By node, then by key."""
        self._nodes: dict[str, str] = {}
        """Of every pod, by key; empty for one that waits for a node."""
        self._claims: dict[str, Reference] = {}
        """By which claim each volume is used."""

    def put(self, key: str, value: bytes | None) -> None:
        storage, _, name = split_key(key)
        if storage == POD.storage:
            self._put_pod(key, value)
        elif value is None:
            self._claims.pop(name, None)
        else:
            claim = decode(value, _Volume).spec.claim_ref
            self._claims[name] = _claim(claim.namespace, claim.name)

    def _put_pod(self, key: str, value: bytes | None) -> None:
        there = self._pods.get(self._nodes.pop(key, ""), {})
        before = there.pop(key, None)
        if value is None:
            return
        head = decode(value, _Head)
        node = self._nodes[key] = head.spec.node_name
        if not node:
            return
        if before and before.head == head:
            before.renew(value)
        else:
            before = _BoundPod(head, value)
        self._pods.setdefault(node, {})[key] = before

    def clear(self) -> None:
        for known in (self._pods, self._nodes, self._claims):
            known.clear()

    def node_of(self, namespace: str, name: str) -> str | None:
        """Where a pod runs; empty: nowhere yet; None: there is no such pod."""
        return self._nodes.get(object_key(POD, namespace, name))

    def relates(self, node: str, wanted: Reference) -> bool:
        """Whether a pod of the node refers to it: one look-up for each pod that a node has."""
        if wanted.kind == PERSISTENT_VOLUME.kind:
            claim = self._claims.get(wanted.name)
            return claim is not None and self.relates(node, claim)
        return any(wanted in pod.references for pod in self._pods.get(node, {}).values())


def _claim(namespace: str, name: str) -> Reference:
    return Reference(PERSISTENT_VOLUME_CLAIM.kind, namespace, name)


class NodeAuthorizer:
    """An `Authorizer` of agents, by the pods that are bound to their nodes."""

    def __init__(self, bound: Bound, tracker: Tracker) -> None:
        self._bound = bound
        self._tracker = tracker

    async def decide(self, action: Action) -> Verdict:
        if NODES_GROUP not in action.user.groups:
            return Verdict(False)
        if not action.user.name.startswith(NODE_USER_PREFIX):
            return Verdict(False, f'unknown node for user "{action.user.name}"')
        await self._tracker.catch_up()
        problem = refusal(action.user.name.removeprefix(NODE_USER_PREFIX), action, self._bound)
        return Verdict(problem is None, problem or "")

    async def rules(self, user: User, namespace: str) -> Known:
        if NODES_GROUP not in user.groups:
            return Known([])
        return Known([], "node authorizer does not support user rule resolution")


_Refusal = str | None
"""Why a node may not do it (empty: nothing says that it may); None: it may."""


def refusal(node: str, action: Action, bound: Bound) -> _Refusal:
    """Whether the agent of that node may do it."""
    judge = None if action.path else _JUDGES.get((action.group, action.resource))
    if judge:
        return judge(node, action, bound)
    return None if any(permits(rule, action) for rule in NODE_RULES) else ""


def _reading(kind: str) -> "_Judge":
    """The judge of a kind of which a node reads what its pods refer to, one by one."""

    def judge(node: str, action: Action, bound: Bound) -> _Refusal:
        if action.verb not in _READ:
            return "can only read resources of this type"
        if action.subresource:
            return "cannot read subresource"
        return _related(node, kind, action, bound)

    return judge


def _related(node: str, kind: str, action: Action, bound: Bound) -> _Refusal:
    if not action.name:
        return "No Object name found"
    if bound.relates(node, Reference(kind, action.namespace, action.name)):
        return None
    return _unrelated(node)


def _unrelated(node: str) -> str:
    return f"no relationship found between node '{node}' and this object"


def _of_account(node: str, action: Action, bound: Bound) -> _Refusal:
    if action.verb != "create" or not action.name:
        return "can only create tokens for individual service accounts"
    if action.subresource != "token":
        return "can only create token subresource of serviceaccount"
    return _related(node, SERVICE_ACCOUNT.kind, action, bound)


def _of_lease(node: str, action: Action, bound: Bound) -> _Refusal:
    if action.verb not in ("get", "create", "update", "patch", "delete"):
        return "can only get, create, update, patch, or delete a node lease"
    if action.namespace != _LEASE_NAMESPACE:
        return f'can only access leases in the "{_LEASE_NAMESPACE}" system namespace'
    if action.verb != "create" and action.name != node:  # a new one's name is in the body
        return "can only access node lease with the same name as the requesting node"
    return None


def _of_node(node: str, action: Action, bound: Bound) -> _Refusal:
    if action.verb in _READ and not action.subresource:
        if action.name == node:
            return None
        other = f"'{action.name}'" if action.name else "all nodes"
        return f"node '{node}' cannot read {other}, only its own Node object"
    if action.verb == "create" and not action.subresource:
        return None  # its name stands in the body
    if action.verb in _CHANGE and action.subresource in ("", "status"):
        own = action.name == node
        return None if own else f'node "{node}" is not allowed to modify node "{action.name}"'
    return ""


def _of_pod(node: str, action: Action, bound: Bound) -> _Refusal:
    there = bound.node_of(action.namespace, action.name)
    asked = (action.verb, action.subresource)
    if asked == ("get", ""):
        return None if there == node else _unrelated(node)
    if action.verb in ("list", "watch"):
        if there == node or action.fields.exact("spec.nodeName") == node:
            return None
        return "can only list/watch pods with spec.nodeName field selector"
    doing = _TO_PODS.get(asked)
    if doing is None:
        return ""
    # A pod that is gone is for the registry to tell: 404.
    own = there in (None, node)
    return None if own else f'node "{node}" can only {doing} pods with spec.nodeName set to itself'


_TO_PODS = {
    ("delete", ""): "delete",
    ("create", "eviction"): "evict",
    ("update", "status"): "update pod status for",
    ("patch", "status"): "update pod status for",
}

_Judge = Callable[[str, Action, Bound], _Refusal]
_JUDGES: dict[tuple[str, str], _Judge] = {
    (POD.group, POD.plural): _of_pod,
    (NODE.group, NODE.plural): _of_node,
    (LEASE.group, LEASE.plural): _of_lease,
    (SERVICE_ACCOUNT.group, SERVICE_ACCOUNT.plural): _of_account,
} | {
    (resource.group, resource.plural): _reading(resource.kind)
    for resource in (SECRET, CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME)
}
"""Who judges what of the kinds that are not the same for all nodes; by group and plural."""
