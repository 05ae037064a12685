"""As somebody else: who may take on whose name, through the whole server."""

from typing import Any

from shepherd.api.resource import Object
from shepherd.lib.http import User

ADMIN = User("root", ("system:masters",))
ALICE = User("alice")
BUILDER = User("system:serviceaccount:ci:builder", ("system:serviceaccounts",))

Cluster = Any


async def test_impersonation_needs_the_verb_for_each_thing_taken_on(cluster: Cluster) -> None:
    await cluster.give("view", user="bob")
    as_bob = {"impersonate_user": "bob"}
    # Two ways lead there; what the first lacks is told, as upstream does.
    assert await cluster.refused(ALICE, "GET", "/api/v1/pods", **as_bob) == (
        'pods is forbidden: User "alice" cannot impersonate-on:user-info:list resource "pods" '
        'in API group "" at the cluster scope'
    )
    await cluster.allow("be-bob", cluster.rule("impersonate", "users", names="bob"))
    await cluster.ok(ALICE, "GET", "/api/v1/pods", **as_bob)
    assert 'User "bob" cannot list resource "secrets"' in await cluster.refused(
        ALICE, "GET", "/api/v1/secrets", **as_bob
    )
    more: list[tuple[dict[str, str], Object]] = [
        ({"impersonate_group": "dev, ops"}, cluster.rule("impersonate", "groups", names="dev ops")),
        ({"impersonate_uid": "7"}, cluster.rule("impersonate", "uids", "authentication.k8s.io")),
        ({"impersonate_extra_scopes": "all"},
         cluster.rule("impersonate", "userextras/scopes", "authentication.k8s.io", names="all")),
    ]  # fmt: skip
    for number, (header, needed) in enumerate(more):
        await cluster.refused(ALICE, "GET", "/api/v1/pods", **as_bob, **header)
        await cluster.allow(f"more-{number}", needed)
        await cluster.ok(ALICE, "GET", "/api/v1/pods", **as_bob, **header)


async def test_impersonation_can_be_given_for_some_requests_only(cluster: Cluster) -> None:
    """KEP-5284"""
    await cluster.give("cluster-admin", user="bob")
    as_bob = {"impersonate_user": "bob"}
    await cluster.allow("on", cluster.rule("impersonate-on:user-info:list", "pods"))
    assert await cluster.refused(ALICE, "GET", "/api/v1/pods", **as_bob) == (
        'users.authentication.k8s.io "bob" is forbidden: User "alice" cannot '
        'impersonate:user-info resource "users" in API group "authentication.k8s.io" '
        "at the cluster scope"
    )
    await cluster.allow(
        "bob", cluster.rule("impersonate:user-info", "users", "authentication.k8s.io")
    )
    await cluster.ok(ALICE, "GET", "/api/v1/pods", **as_bob)
    await cluster.refused(ALICE, "GET", "/api/v1/secrets", **as_bob)
    await cluster.refused(
        ALICE, "GET", "/api/v1/pods", **as_bob, impersonate_group="system:masters"
    )
    # Users of other kinds have modes of their own.
    for name in ("system:node:n1", BUILDER.name):
        await cluster.refused(ALICE, "GET", "/api/v1/pods", impersonate_user=name)


async def test_a_pod_can_be_allowed_to_act_as_its_node(cluster: Cluster) -> None:
    """KEP-5284"""
    mode = "associated-node"
    await cluster.allow(
        "as-node",
        cluster.rule(f"impersonate:{mode}", "nodes", "authentication.k8s.io"),
        cluster.rule(f"impersonate-on:{mode}:list", "pods"),
    )
    await cluster.give("as-node", user=BUILDER.name, name="builder")
    extra: dict[str, tuple[str, ...]] = {"authentication.kubernetes.io/node-name": ("n1",)}
    there = User(BUILDER.name, BUILDER.groups, extra=extra)
    pods = "/api/v1/pods?fieldSelector=spec.nodeName=n1"
    await cluster.ok(there, "GET", pods, impersonate_user="system:node:n1")
    await cluster.refused(there, "GET", pods, impersonate_user="system:node:n2")
    await cluster.refused(BUILDER, "GET", pods, impersonate_user="system:node:n1")


async def test_administrators_are_whom_they_like(cluster: Cluster) -> None:
    headers = {
        "impersonate_user": "bob",
        "impersonate_group": "dev, ops",
        "impersonate_uid": "7",
        "impersonate_extra_a%2fb": "c, d",
    }
    reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    who = await cluster.ok(ADMIN, "POST", reviews, {}, **headers)
    assert who["status"]["userInfo"] == {
        "username": "bob",
        "uid": "7",
        "groups": ["dev", "ops", "system:authenticated"],
        "extra": {"a/b": ["c", "d"]},
    }
    account = {"impersonate_user": "system:serviceaccount:ci:builder"}
    who = await cluster.ok(ADMIN, "POST", reviews, {}, **account)
    assert who["status"]["userInfo"]["groups"] == [
        "system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"
    ]  # fmt: skip
    node = {"impersonate_user": "system:node:n1"}
    who = await cluster.ok(ADMIN, "POST", reviews, {}, **node)
    assert who["status"]["userInfo"]["groups"] == ["system:nodes", "system:authenticated"]
    code, answer = await cluster.ask(ADMIN, "GET", "/api", impersonate_group="dev")
    assert (code, answer["message"]) == (
        400, "requested impersonate-group without impersonating a user name"
    )  # fmt: skip
