"""Through the whole server: what users may, may not, and are told."""

from typing import Any

from shepherd.api.resource import Object
from shepherd.lib.http import User

ADMIN = User("root", ("system:masters",))
ALICE = User("alice")
BUILDER = User("system:serviceaccount:ci:builder", ("system:serviceaccounts",))
N1 = User("system:node:n1", ("system:nodes",))
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CI = "/api/v1/namespaces/ci"
Cluster = Any


# What is refused, and in which words


async def test_who_is_given_nothing_may_ask_of_themselves_and_discover(cluster: Cluster) -> None:
    for path in (
        "/api",
        "/apis",
        "/apis/apps/v1",
        "/openapi/v3",
        "/version",
        "/shepherd/v1/cluster",
    ):
        assert (await cluster.ask(ALICE, "GET", path))[0] == 200
    who = await cluster.ok(ALICE, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert who["status"]["userInfo"]["username"] == "alice"


async def test_refusals_are_in_upstreams_words(cluster: Cluster) -> None:
    assert await cluster.refused(ALICE, "GET", "/api/v1/pods") == (
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" '
        "at the cluster scope"
    )
    scale = "/apis/apps/v1/namespaces/ci/deployments/web/scale"
    assert await cluster.refused(ALICE, "PUT", scale, {}) == (
        'deployments.apps "web" is forbidden: User "alice" cannot update resource '
        '"deployments/scale" in API group "apps" in the namespace "ci"'
    )
    assert await cluster.refused(BUILDER, "GET", f"{CI}/secrets?watch=1") == (
        'secrets is forbidden: User "system:serviceaccount:ci:builder" cannot watch resource '
        '"secrets" in API group "" in the namespace "ci"'
    )
    assert await cluster.refused(ALICE, "GET", "/metrics") == (
        'forbidden: User "alice" cannot get path "/metrics"'
    )
    assert await cluster.refused(ALICE, "GET", "/api/v1/namespaces/ci") == (
        'namespaces "ci" is forbidden: User "alice" cannot get resource "namespaces" '
        'in API group "" in the namespace "ci"'
    )


async def test_a_role_that_does_not_exist_is_named(cluster: Cluster) -> None:
    await cluster.give("none")
    assert (await cluster.refused(ALICE, "GET", "/api/v1/pods")).endswith(
        'at the cluster scope: rbac: RBAC: clusterrole.rbac.authorization.k8s.io "none" not found'
    )


async def test_anonymous_sees_how_the_server_is_as_long_as_it_is_bound(cluster: Cluster) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert (await cluster.ask(None, "GET", path))[0] == 200
    assert (await cluster.ask(None, "GET", "/api/v1/pods"))[0] == 401
    code, answer = await cluster.ask(None, "POST", "/version")
    assert (code, answer["message"]) == (
        403, 'forbidden: User "system:anonymous" cannot post path "/version"'
    )  # fmt: skip
    await cluster.ok(ADMIN, "DELETE", f"{RBAC}/clusterrolebindings/system:public-info-viewer")
    assert (await cluster.ask(None, "GET", "/version"))[0] == 403
    assert (await cluster.ask(ADMIN, "GET", "/version"))[0] == 200


# What is given


async def test_a_role_counts_from_the_answer_on_and_ends_with_its_binding(
    cluster: Cluster,
) -> None:
    await cluster.give("view", namespace="ci", name="b")
    assert (await cluster.ok(ALICE, "GET", f"{CI}/pods"))["items"] == []
    assert (await cluster.ok(ALICE, "GET", "/api/v1/namespaces/ci"))["metadata"]["name"] == "ci"
    await cluster.refused(ALICE, "GET", f"{CI}/secrets")
    await cluster.refused(ALICE, "GET", "/api/v1/pods")
    await cluster.refused(ALICE, "GET", "/api/v1/namespaces/other/pods")
    await cluster.refused(ALICE, "POST", f"{CI}/configmaps", {"metadata": {"name": "m"}})
    await cluster.give("edit", namespace="ci", name="e")
    await cluster.ok(ALICE, "POST", f"{CI}/configmaps", {"metadata": {"name": "m"}})
    await cluster.ok(ADMIN, "DELETE", f"{RBAC}/namespaces/ci/rolebindings/b")
    await cluster.ok(ADMIN, "DELETE", f"{RBAC}/namespaces/ci/rolebindings/e")
    await cluster.refused(ALICE, "GET", f"{CI}/configmaps/m")


async def test_names_hold_for_lists_of_that_name(cluster: Cluster) -> None:
    await cluster.allow("one", cluster.rule("get list watch delete", "configmaps", names="m"))
    await cluster.ok(ADMIN, "POST", f"{CI}/configmaps", {"metadata": {"name": "m"}})
    await cluster.ok(ALICE, "GET", f"{CI}/configmaps/m")
    found = await cluster.ok(ALICE, "GET", f"{CI}/configmaps?fieldSelector=metadata.name=m")
    assert len(found["items"]) == 1
    await cluster.refused(ALICE, "GET", f"{CI}/configmaps")
    await cluster.refused(ALICE, "GET", f"{CI}/configmaps?fieldSelector=metadata.name!=m")
    await cluster.refused(ALICE, "DELETE", f"{CI}/configmaps")
    await cluster.ok(ALICE, "DELETE", f"{CI}/configmaps/m")


async def test_custom_resources_are_covered_as_soon_as_they_are_served(cluster: Cluster) -> None:
    await cluster.allow("sheep", cluster.rule("list create", "sheep", "example.com"))
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "sheep", "kind": "Sheep", "singular": "sheep"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    crd = {"metadata": {"name": "sheep.example.com"}, "spec": spec}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await cluster.ok(ADMIN, "POST", crds, crd)
    flock = "/apis/example.com/v1/namespaces/ci/sheep"
    body = {"apiVersion": "example.com/v1", "kind": "Sheep", "metadata": {"name": "a"}}
    await cluster.ok(ALICE, "POST", flock, body)
    assert await cluster.refused(ALICE, "DELETE", f"{flock}/a") == (
        'sheep.example.com "a" is forbidden: User "alice" cannot delete resource "sheep" '
        'in API group "example.com" in the namespace "ci"'
    )


async def test_a_group_as_it_is_asked_for_counts(cluster: Cluster) -> None:
    await cluster.allow("new-events", cluster.rule("list", "events", "events.k8s.io"))
    await cluster.ok(ALICE, "GET", "/apis/events.k8s.io/v1/events")
    await cluster.refused(ALICE, "GET", "/api/v1/events")


async def test_an_apply_that_makes_an_object_needs_both_verbs(cluster: Cluster) -> None:
    await cluster.allow("patcher", cluster.rule("patch", "configmaps"))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}}
    target = f"{CI}/configmaps/m?fieldManager=me"
    apply = {"content_type": "application/apply-patch+yaml"}
    assert await cluster.refused(ALICE, "PATCH", target, body, **apply) == (
        'configmaps "m" is forbidden: User "alice" cannot create resource "configmaps" '
        'in API group "" in the namespace "ci"'
    )
    await cluster.ok(ADMIN, "PATCH", target, body, **apply)
    await cluster.ok(ALICE, "PATCH", target, body, **apply)
    await cluster.ok(ADMIN, "DELETE", f"{CI}/configmaps/m")
    await cluster.allow("maker", cluster.rule("create", "configmaps"))
    await cluster.ok(ALICE, "PATCH", target, body, **apply)


async def test_reading_exec_does_not_open_a_websocket(cluster: Cluster) -> None:
    await cluster.allow("reader", cluster.rule("get", "pods/exec"))
    assert "cannot create resource" in await cluster.refused(ALICE, "GET", f"{CI}/pods/p/exec")


# Nobody gives away what they have not


async def test_a_role_cannot_hold_more_than_its_maker(cluster: Cluster) -> None:
    await cluster.give("admin", namespace="ci")
    roles = f"{RBAC}/namespaces/ci/roles"
    mine = {"metadata": {"name": "mine"}, "rules": [cluster.rule("get list", "pods secrets")]}
    await cluster.ok(ALICE, "POST", roles, mine)
    more = {"metadata": {"name": "more"}, "rules": [cluster.rule("get update", "pods nodes")]}
    assert await cluster.refused(ALICE, "POST", roles, more) == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "alice" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held:\n{APIGroups:[""], Resources:["nodes"], Verbs:["get" "update"]}'
    )
    changed = mine | {"rules": [cluster.rule("*", "*", "*")]}
    await cluster.refused(ALICE, "PUT", f"{roles}/mine", changed)
    applied = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"} | changed
    await cluster.refused(
        ALICE, "PATCH", f"{roles}/mine?fieldManager=me&force=true", applied,
        content_type="application/apply-patch+yaml",
    )  # fmt: skip
    await cluster.ok(ADMIN, "POST", roles, more)
    # Labels of a role that holds more than oneself are not one's own to change either...
    label = {"metadata": {"labels": {"a": "b"}}}
    merge = {"content_type": "application/merge-patch+json"}
    await cluster.refused(ALICE, "PATCH", f"{roles}/more", label, **merge)
    # ...but what the garbage collector needs is.
    await cluster.ok(ALICE, "PATCH", f"{roles}/more", {"metadata": {"finalizers": []}}, **merge)


async def test_escalate_lets_more_be_given(cluster: Cluster) -> None:
    await cluster.allow(
        "maker", cluster.rule("create update", "roles", "rbac.authorization.k8s.io")
    )
    roles = f"{RBAC}/namespaces/ci/roles"
    role = {"metadata": {"name": "r"}, "rules": [cluster.rule("get", "pods")]}
    await cluster.refused(ALICE, "POST", roles, role)
    await cluster.allow("escalator", cluster.rule("escalate", "roles", "rbac.authorization.k8s.io"))
    await cluster.ok(ALICE, "POST", roles, role)


async def test_a_binding_cannot_give_more_than_its_maker_has(cluster: Cluster) -> None:
    await cluster.give("admin", namespace="ci")
    bindings = f"{RBAC}/namespaces/ci/rolebindings"

    def binding(role: str, name: str, kind: str = "ClusterRole") -> Object:
        subject = {"kind": "ServiceAccount", "name": "builder", "namespace": "ci"}
        reference = {"kind": kind, "name": role}
        return {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}

    await cluster.ok(ALICE, "POST", bindings, binding("edit", "a"))
    await cluster.ok(BUILDER, "GET", f"{CI}/secrets")
    refusal = await cluster.refused(ALICE, "POST", bindings, binding("cluster-admin", "b"))
    assert refusal == (
        'rolebindings.rbac.authorization.k8s.io "b" is forbidden: user "alice" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held:\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n'
        '{NonResourceURLs:["*"], Verbs:["*"]}'
    )
    code, answer = await cluster.ask(ALICE, "POST", bindings, binding("none", "c", "Role"))
    assert (code, answer["message"]) == (
        404, 'roles.rbac.authorization.k8s.io "none" not found'
    )  # fmt: skip
    bind = cluster.rule("bind", "clusterroles", "rbac.authorization.k8s.io", names="cluster-admin")
    await cluster.allow("binder", bind)
    await cluster.ok(ALICE, "POST", bindings, binding("cluster-admin", "b"))
    await cluster.refused(ALICE, "POST", f"{RBAC}/clusterrolebindings", binding("view", "d"))


async def test_only_who_may_all_makes_an_aggregated_role(cluster: Cluster) -> None:
    await cluster.allow(
        "maker", cluster.rule("create", "clusterroles", "rbac.authorization.k8s.io")
    )
    role = {
        "metadata": {"name": "all"},
        "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    }
    assert (await cluster.refused(ALICE, "POST", f"{RBAC}/clusterroles", role)).endswith(
        "must have cluster-admin privileges to use an aggregationRule"
    )
    await cluster.give("cluster-admin")
    await cluster.ok(ALICE, "POST", f"{RBAC}/clusterroles", role)


async def test_which_role_is_bound_does_not_change(cluster: Cluster) -> None:
    await cluster.give("view", name="b")
    change = {"roleRef": {"kind": "ClusterRole", "name": "edit"}}
    code, answer = await cluster.ask(
        ADMIN, "PATCH", f"{RBAC}/clusterrolebindings/b", change,
        content_type="application/merge-patch+json",
    )  # fmt: skip
    assert code == 422
    assert "cannot change roleRef" in answer["message"]


async def test_who_approves_certificates_is_said_by_signer(cluster: Cluster) -> None:
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    group = "certificates.k8s.io"
    await cluster.allow(
        "approvals", cluster.rule("update", "certificatesigningrequests/approval", group)
    )
    spec = {"signerName": "example.com/own", "request": "eA==", "usages": ["client auth"]}
    made = await cluster.ok(ADMIN, "POST", requests, {"metadata": {"name": "r"}, "spec": spec})
    approved = {"type": "Approved", "status": "True", "reason": "Mine"}
    body = made | {"status": {"conditions": [approved]}}
    assert (await cluster.refused(ALICE, "PUT", f"{requests}/r/approval", body)).endswith(
        'user not permitted to approve requests with signerName "example.com/own"'
    )
    await cluster.allow("signer", cluster.rule("approve", "signers", group, names="example.com/*"))
    await cluster.ok(ALICE, "PUT", f"{requests}/r/approval", body)


# Asked beforehand


async def test_reviews_answer_as_requests_are(cluster: Cluster) -> None:
    await cluster.give("view", namespace="ci", name="b")
    authorization = "/apis/authorization.k8s.io/v1"

    async def may(verb: str, **asked: str) -> Object:
        spec = {"resourceAttributes": {"verb": verb} | asked}
        made = await cluster.ok(
            ALICE, "POST", f"{authorization}/selfsubjectaccessreviews", {"spec": spec}
        )
        status: Object = made["status"]
        return status

    assert await may("list", resource="pods", namespace="ci") == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "b/ci" of ClusterRole "view" to User "alice"',
    }
    assert await may("list", resource="pods") == {"allowed": False}
    assert await may("get", resource="pods", subresource="log", namespace="ci") == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "b/ci" of ClusterRole "view" to User "alice"',
    }
    assert not (await may("*", resource="*", group="*"))["allowed"]
    review = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}, "user": "m"}}
    reviews = f"{authorization}/subjectaccessreviews"
    await cluster.refused(ALICE, "POST", reviews, review)
    assert (await cluster.ok(ADMIN, "POST", reviews, review))["status"] == {"allowed": False}
    review["spec"]["groups"] = ["system:monitoring"]
    assert (await cluster.ok(ADMIN, "POST", reviews, review))["status"]["allowed"]


async def test_what_a_user_may_is_listed(cluster: Cluster) -> None:
    await cluster.allow("own", cluster.rule("get", "configmaps", names="m"))
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    body = {"spec": {"namespace": "ci"}}
    status = (await cluster.ok(ALICE, "POST", reviews, body))["status"]
    assert cluster.rule("get", "configmaps", names="m") in status["resourceRules"]
    assert {"nonResourceURLs": ["/shepherd/v1/cluster"], "verbs": ["get"]} in (
        status["nonResourceRules"]
    )
    assert status["incomplete"] is False
    everything = (await cluster.ok(ADMIN, "POST", reviews, body))["status"]["resourceRules"]
    assert cluster.rule("*", "*", "*") in everything
    assert (await cluster.ok(N1, "POST", reviews, body))["status"]["incomplete"] is True


# Nodes


async def test_a_node_is_told_why_not(cluster: Cluster) -> None:
    assert await cluster.refused(N1, "GET", f"{CI}/secrets/s") == (
        'secrets "s" is forbidden: User "system:node:n1" cannot get resource "secrets" '
        'in API group "" in the namespace "ci": node: no relationship found between node '
        "'n1' and this object"
    )


async def test_a_node_reads_what_a_pod_refers_to_as_soon_as_it_is_bound(
    cluster: Cluster,
) -> None:
    await cluster.ok(ADMIN, "POST", f"{CI}/secrets", {"metadata": {"name": "s"}})
    container = {"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    await cluster.ok(ADMIN, "POST", f"{CI}/pods", pod)
    await cluster.refused(N1, "GET", f"{CI}/secrets/s")
    target = {"target": {"kind": "Node", "name": "n1"}, "metadata": {"name": "p"}}
    await cluster.ok(ADMIN, "POST", f"{CI}/pods/p/binding", target)
    await cluster.ok(N1, "GET", f"{CI}/secrets/s")
    found = await cluster.ok(N1, "GET", "/api/v1/pods?fieldSelector=spec.nodeName=n1")
    assert [item["metadata"]["name"] for item in found["items"]] == ["p"]
    await cluster.refused(N1, "GET", "/api/v1/pods")


async def test_a_node_does_not_untaint_itself(cluster: Cluster) -> None:
    node = {"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    await cluster.ok(N1, "POST", "/api/v1/nodes", node)
    merge = {"content_type": "application/merge-patch+json"}
    change: Object = {"spec": {"taints": []}}
    assert 'node "n1" is not allowed to modify taints' in await cluster.refused(
        N1, "PATCH", "/api/v1/nodes/n1", change, **merge
    )
    await cluster.ok(ADMIN, "PATCH", "/api/v1/nodes/n1", change, **merge)
