"""Ways around what one may not do, each of which is closed."""

from base64 import b64encode
from typing import Any

import msgspec
import pytest

from shepherd.api.resource import Object
from shepherd.lib.http import Request, User

ADMIN = User("root", ("system:masters",))
ALICE = User("alice")
CI = "/api/v1/namespaces/ci"
REQUEST = b64encode(b"not one, and not asked of a signer of ours").decode()
# What looks harmless and is not

MERGE = {"content_type": "application/merge-patch+json"}
APPLY = {"content_type": "application/apply-patch+yaml"}


async def test_a_scale_that_is_applied_changes_nothing_but_the_replicas(cluster: Any) -> None:
    where = "/apis/apps/v1/namespaces/ci/deployments"
    labels = {"app": "web"}
    spec = {"containers": [{"name": "a", "image": "b"}]}
    await cluster.ok(
        ADMIN, "POST", where,
        {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels},
         "template": {"metadata": {"labels": labels}, "spec": spec}}},
    )  # fmt: skip
    await cluster.allow("scaler", cluster.rule("get patch", "deployments/scale", "apps"))
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web", "labels": {"mine": "now"}, "finalizers": ["a.io/b"]},
        "spec": {"replicas": 3},
    }
    target = f"{where}/web/scale?fieldManager=me&force=true"
    assert (await cluster.ok(ALICE, "PATCH", target, scale, **APPLY))["spec"]["replicas"] == 3
    metadata = (await cluster.ok(ADMIN, "GET", f"{where}/web"))["metadata"]
    assert "labels" not in metadata
    assert "finalizers" not in metadata


async def test_who_may_impersonate_to_read_may_not_open_a_shell(cluster: Any) -> None:
    mode = "user-info"
    to = cluster.rule(f"impersonate:{mode}", "users", "authentication.k8s.io", "root")
    await cluster.allow("be", to)
    await cluster.allow("on", cluster.rule(f"impersonate-on:{mode}:get", "*"))
    await cluster.give("cluster-admin", user="root")
    exec_, who = f"{CI}/pods/p/exec?command=sh", {"impersonate_user": "root"}
    refusal = await cluster.refused(ALICE, "GET", exec_, **who, upgrade="websocket")
    assert "impersonate-on:user-info:create" in refusal
    await cluster.allow("more", cluster.rule(f"impersonate-on:{mode}:create", "pods/exec"))
    assert (await cluster.ask(ALICE, "GET", exec_, **who, upgrade="websocket"))[0] == 404


async def test_a_policy_reads_nothing_that_its_maker_may_not_read(cluster: Any) -> None:
    group = "admissionregistration.k8s.io"
    kinds = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    await cluster.allow("policies", cluster.rule("create update patch", " ".join(kinds), group))
    policies, bindings = (f"/apis/{group}/v1/{plural}" for plural in kinds)
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
              "operations": ["*"]}]  # fmt: skip
    policy: Object = {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "false", "messageExpression": "params.data.key"}],
        },
    }
    secrets = {"spec": {"paramKind": {"apiVersion": "v1", "kind": "Secret"}}}
    refusal = await cluster.refused(
        ALICE, "POST", policies, policy | {"spec": policy["spec"] | secrets["spec"]}
    )
    assert refusal == (
        f'{kinds[0]}.{group} "p" is forbidden: user alice must have "get" permission on all '
        "objects of the referenced paramKind (kind=Secret, apiVersion=v1)"
    )
    await cluster.ok(ALICE, "POST", policies, policy)
    await cluster.refused(ALICE, "PATCH", f"{policies}/p", secrets, **MERGE)
    await cluster.ok(ADMIN, "PATCH", f"{policies}/p", secrets, **MERGE)
    reference = {"name": "s", "namespace": "ci", "parameterNotFoundAction": "Deny"}
    binding = {
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference},
    }
    refusal = await cluster.refused(ALICE, "POST", bindings, binding)
    assert refusal.endswith(
        'user alice does not have "get" permission on the object referenced by paramRef'
    )
    await cluster.allow("reader", cluster.rule("get", "secrets", names="s"))
    await cluster.ok(ALICE, "POST", bindings, binding)
    other = {"spec": {"paramRef": reference | {"name": "t"}}}
    await cluster.refused(ALICE, "PATCH", f"{bindings}/b", other, **MERGE)


async def test_a_token_is_bound_to_a_pod_of_its_own_account_only(cluster: Any) -> None:
    for name in ("default", "builder"):
        await cluster.ask(ADMIN, "POST", f"{CI}/serviceaccounts", {"metadata": {"name": name}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    await cluster.ok(ADMIN, "POST", f"{CI}/pods", pod)
    request = {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}}
    code, answer = await cluster.ask(ADMIN, "POST", f"{CI}/serviceaccounts/builder/token", request)
    assert (code, answer["message"]) == (
        400,
        'cannot bind token for serviceaccount "builder" to pod running with different '
        "serviceaccount name.",
    )
    await cluster.ok(ADMIN, "POST", f"{CI}/serviceaccounts/default/token", request)


async def test_the_status_of_a_certificate_request_is_the_signers(cluster: Any) -> None:
    group = "certificates.k8s.io"
    where = f"/apis/{group}/v1/certificatesigningrequests"
    spec = {"request": REQUEST, "signerName": "example.com/own", "usages": ["client auth"]}
    await cluster.ok(ADMIN, "POST", where, {"metadata": {"name": "r"}, "spec": spec})
    await cluster.allow("status", cluster.rule("patch", "certificatesigningrequests/status", group))
    failed = {"type": "Failed", "status": "True", "reason": "No", "message": "no"}
    body = {"status": {"conditions": [failed]}}
    refusal = await cluster.refused(ALICE, "PATCH", f"{where}/r/status", body, **MERGE)
    assert 'not permitted to sign requests with signerName "example.com/own"' in refusal
    await cluster.allow("sign", cluster.rule("sign", "signers", group, "example.com/*"))
    approved = {"status": {"conditions": [failed | {"type": "Approved"}]}}
    code, answer = await cluster.ask(ALICE, "PATCH", f"{where}/r/status", approved, **MERGE)
    assert code == 422
    assert "may not add a condition of type 'Approved'" in answer["message"]
    await cluster.ok(ALICE, "PATCH", f"{where}/r/status", body, **MERGE)


async def test_a_body_is_of_what_its_path_says(cluster: Any) -> None:
    """Policies and budgets would judge another object than the one that is meant."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    await cluster.ok(ADMIN, "POST", f"{CI}/pods", pod)
    await cluster.ask(ADMIN, "POST", f"{CI}/serviceaccounts", {"metadata": {"name": "p"}})
    other: Object = {"metadata": {"name": "q"}, "target": {"name": "n"}, "spec": {}}
    for path in ("pods/p/eviction", "pods/p/binding", "serviceaccounts/p/token"):
        code, answer = await cluster.ask(ADMIN, "POST", f"{CI}/{path}", other)
        assert code == 400
        assert "(q) does not match the name on the URL (p)" in answer["message"]


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "0.0.0.0"])
async def test_a_proxy_leads_to_pods_only(cluster: Any, address: str) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    await cluster.ok(ADMIN, "POST", f"{CI}/pods", pod)
    status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    await cluster.ok(ADMIN, "PATCH", f"{CI}/pods/p/status", status, **MERGE)
    code, answer = await cluster.ask(ADMIN, "GET", f"{CI}/pods/p:80/proxy/")
    assert (code, answer["message"]) == (400, "address not allowed")


async def test_a_watch_of_one_secret_shows_that_one(cluster: Any) -> None:
    await cluster.allow("one", cluster.rule("get list watch", "secrets", names="mine"))
    for name in ("mine", "other"):
        await cluster.ok(ADMIN, "POST", f"{CI}/secrets", {"metadata": {"name": name}})
    found = await cluster.ok(ALICE, "GET", f"{CI}/secrets?fieldSelector=metadata.name=mine")
    assert [secret["metadata"]["name"] for secret in found["items"]] == ["mine"]
    await cluster.refused(ALICE, "GET", f"{CI}/secrets?fieldSelector=metadata.name!=mine")
    request = Request("GET", "/api/v1/watch/namespaces/ci/secrets/mine", peer=ALICE)
    response = await cluster.server.handle(request)
    assert not isinstance(response.body, bytes)
    events = [msgspec.json.decode(line) for line in (await anext(response.body)).splitlines()]
    assert [event["object"]["metadata"]["name"] for event in events] == ["mine"]
    await response.body.aclose()


async def test_variables_of_policies_do_not_double_for_ever(cluster: Any) -> None:
    where = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    variables = [{"name": "v0", "expression": "object.data.a"}]
    for at in range(1, 40):
        before = f"variables.v{at - 1}"
        variables.append({"name": f"v{at}", "expression": f"[{before}, {before}]"})
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
              "operations": ["CREATE"]}]  # fmt: skip
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "variables": variables,
        "validations": [{"expression": "size(variables.v39) == 2"}],
    }
    await cluster.ok(ADMIN, "POST", f"{where}ies", {"metadata": {"name": "p"}, "spec": spec})
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    await cluster.ok(ADMIN, "POST", f"{where}ybindings", {"metadata": {"name": "b"}, "spec": bound})
    config = {"metadata": {"name": "c"}, "data": {"a": "x"}}
    code, answer = await cluster.ask(ADMIN, "POST", f"{CI}/configmaps", config)
    assert code == 422
    assert "running out of cost budget" in answer["message"]
