"""What an agent may do, by the pods that are bound to its node."""

import json

import pytest

from shepherd.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    EVENT,
    LEASE,
    NODE,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
)
from shepherd.api.kinds.storage import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from shepherd.api.meta import object_key
from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import parse_field_selector
from shepherd.lib.http import User
from shepherd.server.authorization.actions import Action
from shepherd.server.authorization.node import Bound, refusal

N1 = User("system:node:n1", ("system:nodes", "system:authenticated"))

SPEC: Object = {
    "serviceAccountName": "builder",
    "imagePullSecrets": [{"name": "pull"}],
    "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "init-env"}}]}],
    "containers": [
        {
            "name": "c",
            "envFrom": [{"configMapRef": {"name": "env-from"}}],
            "env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}],
        }
    ],
    "volumes": [
        {"name": "a", "secret": {"secretName": "volume"}},
        {"name": "b", "configMap": {"name": "volume"}},
        {"name": "c", "projected": {"sources": [{"secret": {"name": "projected"}}]}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
    ],
}


def pod(name: str, node: str, **spec: object) -> tuple[str, bytes]:
    metadata = {"name": name, "namespace": "default", "uid": name}
    obj = {"metadata": metadata, "spec": {"nodeName": node} | spec}
    return object_key(POD, "default", name), json.dumps(obj).encode()


@pytest.fixture
def bound() -> Bound:
    """p1 on n1 refers to much, p2 on n2 to `other`, p3 waits for a node."""
    bound = Bound()
    bound.put(*pod("p1", "n1", **SPEC))
    bound.put(*pod("p2", "n2", imagePullSecrets=[{"name": "other"}]))
    bound.put(*pod("p3", "", imagePullSecrets=[{"name": "waiting"}]))
    for name, claim in (("v1", "data"), ("v2", "elsewhere")):
        spec = {"claimRef": {"namespace": "default", "name": claim}}
        key = object_key(PERSISTENT_VOLUME, "", name)
        bound.put(key, json.dumps({"metadata": {"name": name}, "spec": spec}).encode())
    return bound


def asked(
    verb: str,
    resource: Resource,
    namespace: str = "",
    name: str = "",
    sub: str = "",
    fields: str = "",
) -> Action:
    selector = parse_field_selector(fields)
    return Action(N1, verb, resource.group, resource.plural, sub, namespace, name, fields=selector)


MAY = [
    asked("list", POD, fields="spec.nodeName=n1"),
    asked("watch", POD, fields="spec.nodeName=n1"),
    asked("get", POD, "default", "p1"),
    asked("watch", POD, "default", "p1", fields="metadata.name=p1"),
    asked("patch", POD, "default", "p1", "status"),
    asked("update", POD, "default", "p1", "status"),
    asked("delete", POD, "default", "p1"),
    asked("delete", POD, "default", "gone"),
    asked("patch", POD, "default", "gone", "status"),
    asked("create", POD, "default", "p1", "eviction"),
    asked("create", NODE),
    asked("get", NODE, name="n1"),
    asked("watch", NODE, name="n1"),
    asked("patch", NODE, name="n1", sub="status"),
    asked("update", NODE, name="n1"),
    asked("update", LEASE, "kube-node-lease", "n1"),
    asked("create", LEASE, "kube-node-lease"),
    asked("create", EVENT, "default"),
    asked("patch", EVENT, "default", "e"),
    asked("watch", SERVICE),
    asked("watch", ENDPOINT_SLICE),
    *(asked("get", SECRET, "default", name)
      for name in ("pull", "init-env", "env", "volume", "projected")),
    *(asked("watch", CONFIG_MAP, "default", name) for name in ("env-from", "volume")),
    asked("get", PERSISTENT_VOLUME_CLAIM, "default", "data"),
    asked("get", PERSISTENT_VOLUME, name="v1"),
    asked("create", SERVICE_ACCOUNT, "default", "builder", "token"),
]  # fmt: skip
_NO_RELATION = "no relationship found between node 'n1' and this object"
_ALL_PODS = "can only list/watch pods with spec.nodeName field selector"
MAY_NOT = [
    (asked("list", POD), _ALL_PODS),
    (asked("list", POD, fields="spec.nodeName=n2"), _ALL_PODS),
    (asked("list", POD, fields="spec.nodeName!=n1"), _ALL_PODS),
    (asked("get", POD, "default", "p2"), _NO_RELATION),
    (asked("patch", POD, "default", "p2", "status"),
     'node "n1" can only update pod status for pods with spec.nodeName set to itself'),
    (asked("patch", POD, "default", "p3", "status"),
     'node "n1" can only update pod status for pods with spec.nodeName set to itself'),
    (asked("delete", POD, "default", "p2"),
     'node "n1" can only delete pods with spec.nodeName set to itself'),
    (asked("patch", POD, "default", "p1"), ""),
    (asked("create", POD, "default"), ""),
    (asked("create", POD, "default", "p1", "binding"), ""),
    (asked("create", POD, "default", "p1", "exec"), ""),
    (asked("get", POD, "default", "p1", "log"), ""),
    (asked("deletecollection", POD, "default"), ""),
    (asked("get", NODE, name="n2"), "node 'n1' cannot read 'n2', only its own Node object"),
    (asked("list", NODE), "node 'n1' cannot read all nodes, only its own Node object"),
    (asked("patch", NODE, name="n2", sub="status"),
     'node "n1" is not allowed to modify node "n2"'),
    (asked("delete", NODE, name="n1"), ""),
    (asked("update", LEASE, "kube-node-lease", "n2"),
     "can only access node lease with the same name as the requesting node"),
    (asked("update", LEASE, "default", "n1"),
     'can only access leases in the "kube-node-lease" system namespace'),
    (asked("list", LEASE, "kube-node-lease"),
     "can only get, create, update, patch, or delete a node lease"),
    (asked("list", SECRET), "No Object name found"),
    (asked("list", SECRET, "default"), "No Object name found"),
    (asked("get", SECRET, "default", "other"), _NO_RELATION),
    (asked("get", SECRET, "default", "waiting"), _NO_RELATION),
    (asked("get", SECRET, "kube-system", "pull"), _NO_RELATION),
    (asked("get", CONFIG_MAP, "default", "pull"), _NO_RELATION),
    (asked("update", SECRET, "default", "pull"), "can only read resources of this type"),
    (asked("get", PERSISTENT_VOLUME_CLAIM, "default", "elsewhere"), _NO_RELATION),
    (asked("get", PERSISTENT_VOLUME, name="v2"), _NO_RELATION),
    (asked("delete", EVENT, "default", "e"), ""),
    (asked("list", DEPLOYMENT), ""),
    (asked("create", SERVICE_ACCOUNT, "default", "default", "token"), _NO_RELATION),
    (asked("create", SERVICE_ACCOUNT, "default", "builder"),
     "can only create token subresource of serviceaccount"),
    (asked("get", SERVICE_ACCOUNT, "default", "builder"),
     "can only create tokens for individual service accounts"),
]  # fmt: skip


def _name(value: object) -> str:
    if isinstance(value, Action):
        return f"{value.verb}-{value.target}-{value.name}"
    return " "


@pytest.mark.parametrize("action", MAY, ids=_name)
def test_a_node_may_do_its_work(bound: Bound, action: Action) -> None:
    assert refusal("n1", action, bound) is None


@pytest.mark.parametrize(("action", "reason"), MAY_NOT, ids=_name)
def test_a_node_may_not_do_anothers_work(bound: Bound, action: Action, reason: str) -> None:
    assert refusal("n1", action, bound) == reason


def test_what_a_node_may_read_follows_its_pods(bound: Bound) -> None:
    def reads(name: str) -> bool:
        return refusal("n1", asked("get", SECRET, "default", name), bound) is None

    late = asked("get", SECRET, "default", "late")
    assert not reads("waiting")
    bound.put(*pod("p3", "n1", imagePullSecrets=[{"name": "waiting"}]))
    assert reads("waiting")
    # An ephemeral container may refer to more than the pod did.
    debug = {"name": "d", "envFrom": [{"secretRef": {"name": "late"}}]}
    bound.put(*pod("p1", "n1", **SPEC, ephemeralContainers=[debug]))
    assert refusal("n1", late, bound) is None
    bound.put(object_key(POD, "default", "p1"), None)
    assert refusal("n1", late, bound) == _NO_RELATION
    # Another pod of the same name, and the same of a volume.
    bound.put(*pod("p3", "n2", imagePullSecrets=[{"name": "waiting"}]))
    assert not reads("waiting")
    bound.put(object_key(PERSISTENT_VOLUME, "", "v1"), None)
    assert refusal("n1", asked("get", PERSISTENT_VOLUME, name="v1"), bound) == _NO_RELATION
