"""Roles and bindings, as they are stored: who is given what."""

import json

import pytest

from shepherd.api.kinds.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from shepherd.api.meta import object_key
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import User
from shepherd.server.authorization.actions import Action, Verdict
from shepherd.server.authorization.rbac import Policy, RbacAuthorizer, decide, known
from shepherd.server.authorization.tracker import Tracker
from shepherd.store.base import Delete, Put
from shepherd.store.feed import History
from shepherd.store.memory import MemoryStore

ALICE = User("alice", ("dev", "system:authenticated"))
BUILDER = User(
    "system:serviceaccount:ci:builder", ("system:serviceaccounts", "system:serviceaccounts:ci")
)
READ_PODS: Object = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


def role(name: str, *rules: Object, namespace: str = "") -> Put:
    resource = ROLE if namespace else CLUSTER_ROLE
    return _put(resource, namespace, name, {"rules": rules})


def binding(name: str, kind: str, role: str, *subjects: Object, namespace: str = "") -> Put:
    resource = ROLE_BINDING if namespace else CLUSTER_ROLE_BINDING
    reference = {"apiGroup": ROLE.group, "kind": kind, "name": role}
    return _put(resource, namespace, name, {"roleRef": reference, "subjects": subjects})


def _put(resource: Resource, namespace: str, name: str, content: Object) -> Put:
    obj = {"metadata": {"name": name, "namespace": namespace}} | content
    return Put(object_key(resource, namespace, name), json.dumps(obj).encode())


def user(name: str) -> Object:
    return {"kind": "User", "name": name}


def group(name: str) -> Object:
    return {"kind": "Group", "name": name}


def account(name: str, namespace: str = "") -> Object:
    return {"kind": "ServiceAccount", "name": name} | (
        {"namespace": namespace} if namespace else {}
    )


def policy(*puts: Put) -> Policy:
    policy = Policy()
    for put in puts:
        policy.put(put.key, put.value)
    return policy


def lists(who: User, namespace: str = "") -> Action:
    return Action(who, "list", "", "pods", namespace=namespace)


@pytest.mark.parametrize(
    ("given", "who", "namespace", "reason"),
    [
        (binding("b", "ClusterRole", "r", user("alice")), ALICE, "",
         'ClusterRoleBinding "b" of ClusterRole "r" to User "alice"'),
        (binding("b", "ClusterRole", "r", user("alice")), ALICE, "any",
         'ClusterRoleBinding "b" of ClusterRole "r" to User "alice"'),
        (binding("b", "ClusterRole", "r", user("bob"), group("dev")), ALICE, "",
         'ClusterRoleBinding "b" of ClusterRole "r" to Group "dev"'),
        (binding("b", "ClusterRole", "r", account("builder", "ci")), BUILDER, "",
         'ClusterRoleBinding "b" of ClusterRole "r" to ServiceAccount "builder/ci"'),
        (binding("b", "ClusterRole", "r", group("system:serviceaccounts:ci")), BUILDER, "x",
         'ClusterRoleBinding "b" of ClusterRole "r" to Group "system:serviceaccounts:ci"'),
        (binding("b", "ClusterRole", "r", user("alice"), namespace="ci"), ALICE, "ci",
         'RoleBinding "b/ci" of ClusterRole "r" to User "alice"'),
        (binding("b", "Role", "r", account("builder"), namespace="ci"), BUILDER, "ci",
         'RoleBinding "b/ci" of Role "r" to ServiceAccount "builder/ci"'),
    ],
)  # fmt: skip
def test_allowed_and_by_what(given: Put, who: User, namespace: str, reason: str) -> None:
    all_roles = (role("r", READ_PODS), role("r", READ_PODS, namespace="ci"))
    verdict = decide(policy(*all_roles, given), lists(who, namespace))
    assert verdict == Verdict(True, f"RBAC: allowed by {reason}")


@pytest.mark.parametrize(
    ("given", "who", "namespace"),
    [
        (binding("b", "ClusterRole", "r", user("alice"), namespace="ci"), ALICE, ""),
        (binding("b", "ClusterRole", "r", user("alice"), namespace="ci"), ALICE, "other"),
        (binding("b", "ClusterRole", "r", group("alice")), ALICE, ""),
        (binding("b", "ClusterRole", "r", user("dev")), ALICE, ""),
        (binding("b", "ClusterRole", "r", account("builder", "other")), BUILDER, ""),
        (binding("b", "ClusterRole", "r"), ALICE, ""),
        (binding("b", "ClusterRole", "nothing", user("alice")), ALICE, ""),
    ],
)
def test_denied(given: Put, who: User, namespace: str) -> None:
    roles = (role("r", READ_PODS), role("nothing"))
    assert decide(policy(*roles, given), lists(who, namespace)) == Verdict(False, "")


def test_a_role_that_is_not_there_is_named() -> None:
    given = (
        binding("b", "ClusterRole", "gone", user("alice")),
        binding("b", "Role", "r", user("alice"), namespace="ci"),
    )
    assert decide(policy(*given), lists(ALICE, "ci")).reason == (
        'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
        'role.rbac.authorization.k8s.io "r" not found]'
    )
    alone = decide(policy(given[0]), lists(ALICE))
    assert alone.reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    assert known(policy(given[0]), ALICE, "ci").problem.endswith('"gone" not found')


def test_an_index_forgets_what_is_gone() -> None:
    given = (role("r", READ_PODS), binding("b", "ClusterRole", "r", user("alice"), group("dev")))
    index = policy(*given)
    assert decide(index, lists(ALICE)).allowed
    index.put(*_changed(binding("b", "ClusterRole", "r", user("bob"))))
    assert not decide(index, lists(ALICE)).allowed
    assert decide(index, lists(User("bob"))).allowed
    index.put(given[0].key, None)
    assert not decide(index, lists(User("bob"))).allowed
    index.put(*_changed(given[0]))
    index.put(given[1].key, None)
    assert not decide(index, lists(User("bob"))).allowed


def _changed(put: Put) -> tuple[str, bytes]:
    return put.key, put.value


async def test_a_decision_knows_every_write_that_was_answered() -> None:
    store = MemoryStore()
    await store.commit(role("r", READ_PODS))
    index = Policy()
    authorizer = RbacAuthorizer(index, Tracker(store, index))
    given = binding("b", "ClusterRole", "r", user("alice"))
    for _ in range(3):
        assert not (await authorizer.decide(lists(ALICE))).allowed
        await store.commit(given)
        assert (await authorizer.decide(lists(ALICE))).allowed
        await store.commit(Delete(given.key))
    await store.close()


async def test_a_tracker_that_fell_behind_begins_anew() -> None:
    store = MemoryStore(history=History(changes=2))
    index = Policy()
    authorizer = RbacAuthorizer(index, Tracker(store, index))
    given = binding("b", "ClusterRole", "r", user("alice"))
    await store.commit(role("r", READ_PODS), given)
    assert (await authorizer.decide(lists(ALICE))).allowed
    await store.commit(Delete(given.key))
    for number in range(20):
        await store.commit(Put(f"pods/default/{number}", b"{}"))
    assert not (await authorizer.decide(lists(ALICE))).allowed
    await store.commit(given)
    assert (await authorizer.decide(lists(ALICE))).allowed
    await store.close()
