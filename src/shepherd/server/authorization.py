"""What a user may do, until there is RBAC: administrators everything, nodes what a node needs.

Source: Kubernetes documentation, "Using Node Authorization"; upstream's node authorizer and its
NodeRestriction admission plugin, whose checks that need no request body are made here as well (the
others in `admission`).
"""

import msgspec

from shepherd.api import errors
from shepherd.api.kinds import EVENT, LEASE, NODE, POD, SERVICE_ACCOUNT
from shepherd.api.meta import object_key
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import User
from shepherd.server.auth import ADMIN_GROUP, NODE_USER_PREFIX, NODES_GROUP
from shepherd.store.base import Store

_LEASE_NAMESPACE = "kube-node-lease"
_READ = ("get", "list", "watch")
_CHANGE = ("update", "patch")
_READABLE = ("services", "endpoints", "endpointslices.discovery.k8s.io", "namespaces", "nodes")
_READABLE_BY_NAMESPACE = ("configmaps", "secrets")
_FOR_EVERYONE = (
    "selfsubjectreviews.authentication.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
)
"""What everyone may ask of themselves (upstream's system:basic-user)."""
_FOR_NODES = (
    "certificatesigningrequests.certificates.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "tokenreviews.authentication.k8s.io",
)
"""What nodes may create besides (upstream's system:node)."""
_DOCUMENTS = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*",
              "/readyz", "/version", "/version/"]  # fmt: skip


class BuiltinAuthorizer:
    """`Authorizer` with fixed rules. Pods are looked up in `store`: a node touches only its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def authorize(
        self,
        user: User,
        verb: str,
        resource: Resource,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
    ) -> None:
        if self.is_admin(user) or (verb == "create" and resource.storage in _FOR_EVERYONE):
            return
        refusal = ""
        if NODES_GROUP in user.groups and user.name.startswith(NODE_USER_PREFIX):
            node = user.name.removeprefix(NODE_USER_PREFIX)
            if resource is POD and verb not in _READ:
                there = await self._node_of(namespace, name)
                refusal = _pod_refusal(node, verb, subresource, there)
            else:
                refusal = _node_refusal(node, verb, resource, namespace, name, subresource)
            if not refusal:
                return
        detail = _cannot(user, verb, resource, namespace, subresource)
        raise errors.forbidden(
            resource.group, resource.plural, name, f"{detail}: {refusal}" if refusal else detail
        )

    def is_admin(self, user: User) -> bool:
        return ADMIN_GROUP in user.groups

    def rules(self, user: User) -> Object:
        if self.is_admin(user):
            return {
                "resourceRules": [_rule("*", "*", "*")],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }
        rules = [_rule(name, "create") for name in _FOR_EVERYONE]
        if NODES_GROUP in user.groups:
            rules += [_rule(name, "create") for name in _FOR_NODES]
            readable = ("pods", *_READABLE, *_READABLE_BY_NAMESPACE)
            rules += [_rule(name, *_READ) for name in readable]
            rules += [_rule(*rule) for rule in _OWN_OF_NODES]
        return {
            "resourceRules": rules,
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": _DOCUMENTS}],
        }

    async def _node_of(self, namespace: str, name: str) -> str | None:
        """The node that a pod is bound to; None = there is no such pod."""
        item = await self._store.get(object_key(POD, namespace, name))
        return msgspec.json.decode(item.value, type=_Pod).spec.node_name if item else None


_OWN_OF_NODES = (
    ("nodes", "create", "update", "patch"),
    ("nodes/status", "update", "patch"),
    ("pods", "delete"),
    ("pods/status", "update", "patch"),
    ("leases.coordination.k8s.io", "get", "create", "update", "patch", "delete"),
    ("events", "create", "update", "patch"),
    ("serviceaccounts/token", "create"),
)
"""Resource and verbs of what nodes may do to what is theirs."""


def _rule(name: str, *verbs: str) -> Object:
    """A rule of a rules review; `name` as in `leases.coordination.k8s.io`, or `*` for all."""
    plural, _, group = name.partition(".")
    groups = ["*"] if name == "*" else [group]
    return {"verbs": list(dict.fromkeys(verbs)), "apiGroups": groups, "resources": [plural]}


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    spec: _PodSpec


def _pod_refusal(node: str, verb: str, subresource: str, there: str | None) -> str:
    """Why a node may not write a pod that is bound to node `there`; "" = it may."""
    status = subresource == "status" and verb in _CHANGE
    delete = not subresource and verb == "delete"
    if not status and not delete:
        return "a node can only report the status of pods and delete them"
    # A pod that is gone is for the registry to tell: 404.
    if there not in (None, node):
        return f'node "{node}" can only change pods with spec.nodeName set to itself'
    return ""


def _node_refusal(
    node: str, verb: str, resource: Resource, namespace: str, name: str, subresource: str
) -> str:
    """Why a node may not do this to anything but a pod's content; "" = it may."""
    if verb in _READ and not subresource:
        if resource is POD or resource.storage in _READABLE:
            return ""
        if resource.storage in _READABLE_BY_NAMESPACE:
            return "" if namespace else "a node can only read this in one namespace"
    if resource is NODE:
        return _own_node_refusal(node, verb, name, subresource)
    if resource is LEASE:
        return _lease_refusal(node, verb, namespace, name)
    if resource is EVENT and verb in ("create", *_CHANGE):
        return ""
    if resource is SERVICE_ACCOUNT and subresource == "token" and verb == "create":
        return ""  # which pods it may ask for is judged with the request's body
    if resource.storage in _FOR_NODES and (verb == "create" or verb in _READ) and not subresource:
        return ""
    return "nodes have no part in this"


def _own_node_refusal(node: str, verb: str, name: str, subresource: str) -> str:
    if verb == "create" and not subresource:
        return ""  # its name stands in the body
    if verb in _CHANGE and subresource in ("", "status"):
        own = name == node
        return "" if own else f'node "{node}" is not allowed to modify node "{name}"'
    return "a node can only register itself and report its status"


def _lease_refusal(node: str, verb: str, namespace: str, name: str) -> str:
    if verb not in ("get", "create", "update", "patch", "delete"):
        return "can only get, create, update, patch, or delete a node lease"
    if namespace != _LEASE_NAMESPACE:
        return f'can only access leases in the "{_LEASE_NAMESPACE}" system namespace'
    if verb != "create" and name != node:
        return "can only access node lease with the same name as the requesting node"
    return ""


def _cannot(user: User, verb: str, resource: Resource, namespace: str, subresource: str) -> str:
    """Upstream's words (apiserver endpoints/handlers/responsewriters)."""
    target = f"{resource.plural}/{subresource}" if subresource else resource.plural
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return (
        f'User "{user.name}" cannot {verb} resource "{target}" '
        f'in API group "{resource.group}" {where}'
    )
