"""The roles of every cluster: what people expect of them, and that a start puts them right."""

import copy
from random import Random

import pytest

from shepherd.api.kinds.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from shepherd.api.meta import object_key
from shepherd.api.objects import decode
from shepherd.api.objects.rbac import Role
from shepherd.api.rbac import allows, allows_path
from shepherd.api.resource import Object
from shepherd.server import codec
from shepherd.server.authorization.policy import cluster_role_bindings, cluster_roles
from shepherd.server.authorization.reconcile import lay_policy, reconciled
from shepherd.store.base import Put
from shepherd.store.memory import MemoryStore

ROLES = {obj["metadata"]["name"]: decode(obj, Role) for obj in cluster_roles()}
_RBAC = "rbac.authorization.k8s.io"


def may(role: str, verb: str, group: str, resource: str, name: str = "") -> bool:
    return any(allows(rule, verb, group, resource, name) for rule in ROLES[role].rules)


@pytest.mark.parametrize(
    ("roles", "verb", "group", "resource"),
    [
        ("view edit admin", "list", "", "pods"),
        ("view edit admin", "get", "", "pods/log"),
        ("view edit admin", "watch", "apps", "statefulsets"),
        ("view edit admin", "get", "", "configmaps"),
        ("view edit admin", "list", "discovery.k8s.io", "endpointslices"),
        ("view edit admin", "get", "apps", "deployments/scale"),
        ("view edit admin", "list", "metrics.k8s.io", "pods"),
        ("view edit admin", "get", "", "namespaces"),
        ("edit admin", "get", "", "secrets"),
        ("edit admin", "create", "", "secrets"),
        ("edit admin", "create", "", "pods"),
        ("edit admin", "delete", "apps", "deployments"),
        ("edit admin", "patch", "apps", "deployments/scale"),
        ("edit admin", "create", "", "pods/exec"),
        ("edit admin", "create", "", "pods/eviction"),
        ("edit admin", "create", "", "serviceaccounts/token"),
        ("edit admin", "impersonate", "", "serviceaccounts"),
        ("edit admin", "create", "batch", "jobs"),
        ("edit admin", "update", "coordination.k8s.io", "leases"),
        ("admin", "create", _RBAC, "rolebindings"),
        ("admin", "update", _RBAC, "roles"),
        ("admin", "create", "authorization.k8s.io", "localsubjectaccessreviews"),
        ("", "update", "", "resourcequotas"),
        ("", "update", "", "endpoints"),
        ("", "update", "", "namespaces"),
        ("", "update", "", "pods/status"),
        ("", "create", _RBAC, "clusterroles"),
        ("", "bind", _RBAC, "roles"),
        ("", "escalate", _RBAC, "roles"),
        ("", "list", "", "nodes"),
        ("", "create", "example.com", "widgets"),
    ],
)
def test_view_edit_admin(roles: str, verb: str, group: str, resource: str) -> None:
    everyone = ("view", "edit", "admin")
    assert [role for role in everyone if may(role, verb, group, resource)] == roles.split()
    assert may("cluster-admin", verb, group, resource)


def test_others() -> None:
    assert may("system:auth-delegator", "create", "authentication.k8s.io", "tokenreviews")
    assert not may("system:auth-delegator", "list", "", "pods")
    signer = ("approve", "certificates.k8s.io", "signers")
    approver = "system:certificates.k8s.io:kubelet-serving-approver"
    assert may(approver, *signer, "kubernetes.io/kubelet-serving")
    assert not may(approver, *signer, "kubernetes.io/kube-apiserver-client")
    for role, path, expected in (
        ("system:public-info-viewer", "/version", True),
        ("system:public-info-viewer", "/api", False),
        ("system:discovery", "/apis/apps/v1", True),
        ("system:monitoring", "/metrics", True),
    ):
        found = any(allows_path(rule, "get", path) for rule in ROLES[role].rules)
        assert found is expected, (role, path)


@pytest.mark.parametrize("obj", cluster_roles(), ids=lambda obj: obj["metadata"]["name"])
def test_roles_are_valid(obj: Object) -> None:
    defaulted = copy.deepcopy(obj)
    CLUSTER_ROLE.default(defaulted)
    assert (CLUSTER_ROLE.validate(defaulted), defaulted) == ([], obj)


@pytest.mark.parametrize("obj", cluster_role_bindings(), ids=lambda obj: obj["metadata"]["name"])
def test_bindings_are_valid_and_of_roles_that_are_there(obj: Object) -> None:
    defaulted = copy.deepcopy(obj)
    CLUSTER_ROLE_BINDING.default(defaulted)
    assert (CLUSTER_ROLE_BINDING.validate(defaulted), defaulted) == ([], obj)
    assert obj["roleRef"]["name"] in ROLES


async def test_a_start_writes_what_is_missing_and_nothing_else() -> None:
    store = MemoryStore()
    await lay_policy(store, 0.0, Random(1))
    first = store.revision
    await lay_policy(store, 0.0, Random(2))
    assert store.revision == first == 1
    await store.close()


async def test_a_start_gives_back_what_was_taken_and_keeps_what_was_added() -> None:
    store = MemoryStore()
    await lay_policy(store, 0.0, Random(1))
    key = object_key(CLUSTER_ROLE, "", "system:discovery")
    own = {"nonResourceURLs": ["/own"], "verbs": ["get"]}

    async def stored() -> Object:
        item = await store.get(key)
        assert item
        return codec.decode(item.value)

    role = await stored()
    await store.commit(Put(key, codec.encode(role | {"rules": [own]})))
    await lay_policy(store, 0.0, Random(2))
    assert (await stored())["rules"] == [own, *role["rules"]]
    assert (await stored())["metadata"] == role["metadata"]
    await store.close()


def test_what_is_not_to_be_updated_is_left_alone() -> None:
    [wanted] = [one for one in cluster_roles() if one["metadata"]["name"] == "system:discovery"]
    there = copy.deepcopy(wanted) | {"rules": []}
    assert reconciled(there, wanted) == wanted
    there["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = "false"
    assert reconciled(there, wanted) is None


def test_a_binding_keeps_its_subjects_and_gets_back_those_it_lost() -> None:
    bindings = {one["metadata"]["name"]: one for one in cluster_role_bindings()}
    wanted = bindings["system:public-info-viewer"]
    mine = {"apiGroup": _RBAC, "kind": "User", "name": "me"}
    changed = reconciled(copy.deepcopy(wanted) | {"subjects": [mine]}, wanted)
    assert changed
    assert changed["subjects"] == [mine, *wanted["subjects"]]
