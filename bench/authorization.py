"""What a decision costs: the chain of authorizers over many bindings, one process, no API.

Every namespace has a binding of `edit` to its own service account; a request is decided for one of
them, for one that has no rights there, for a node that reads one of its pods' secrets, and with a
pod written before each decision, so that there is something to catch up with.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from random import Random

from bench.report import Row
from shepherd.api.kinds import POD
from shepherd.api.kinds.rbac import ROLE_BINDING
from shepherd.api.meta import object_key
from shepherd.api.resource import Object
from shepherd.lib.http import User
from shepherd.server.authorization.actions import Action
from shepherd.server.authorization.chain import authorizer
from shepherd.server.authorization.reconcile import lay_policy
from shepherd.store.base import Put
from shepherd.store.memory import MemoryStore

NAMESPACES = 2_000
PODS = 110
DECISIONS = 20_000
NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))


def _account(namespace: str) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    name = f"system:serviceaccount:{namespace}:robot"
    return User(name, (*groups, "system:authenticated"))


def _binding(namespace: str) -> Put:
    reference = {"kind": "ClusterRole", "name": "edit"}
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": namespace}
    obj = {"metadata": {"name": "edit"}, "roleRef": reference, "subjects": [subject]}
    return Put(object_key(ROLE_BINDING, namespace, "edit"), json.dumps(obj).encode())


def _pod(name: str, node: str) -> Put:
    metadata = {"name": name, "namespace": "ns-1", "uid": name}
    volume = {"name": "s", "secret": {"secretName": f"secret-{name}"}}
    obj: Object = {"metadata": metadata, "spec": {"nodeName": node, "volumes": [volume]}}
    return Put(object_key(POD, "ns-1", name), json.dumps(obj).encode())


async def _filled() -> MemoryStore:
    store = MemoryStore()
    await lay_policy(store, 0.0, Random(1))
    await store.commit(*(_binding(f"ns-{number}") for number in range(NAMESPACES)))
    await store.commit(*(_pod(f"p-{number}", "n1") for number in range(PODS)))
    return store


async def _rows() -> list[Row]:
    store = await _filled()
    chain = authorizer(store)

    async def decide(action: Action, allowed: bool) -> None:
        assert (await chain.decide(action)).allowed is allowed

    async def after_a_write(action: Action) -> None:
        await store.commit(_pod("p-0", "n1"))
        await decide(action, True)

    own = Action(_account("ns-1"), "create", "apps", "deployments", namespace="ns-1")
    other = Action(_account("ns-2"), "create", "apps", "deployments", namespace="ns-1")
    secret = Action(NODE, "get", "", "secrets", namespace="ns-1", name="secret-p-7")
    note = f"{NAMESPACES:,} bindings"
    return [
        await _cost("allowed by a role", lambda: decide(own, True), note),
        await _cost("denied", lambda: decide(other, False), note),
        await _cost("a pod's secret, for its node", lambda: decide(secret, True), f"{PODS} pods"),
        await _cost("write a pod, then allowed", lambda: after_a_write(own), note),
    ]


async def _cost(name: str, once: Callable[[], Awaitable[None]], note: str) -> Row:
    await once()
    begun = time.process_time()
    for _ in range(DECISIONS):
        await once()
    return Row(f"decision, {name}", 1e6 * (time.process_time() - begun) / DECISIONS, "µs", "", note)


def measure() -> list[Row]:
    return asyncio.run(_rows())
