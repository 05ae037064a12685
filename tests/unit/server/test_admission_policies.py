"""Validating and mutating admission policies: expressions that judge and rewrite writes."""

from typing import Any

import pytest

from shepherd.api.resource import Object
from shepherd.lib.http import User
from shepherd.server.authorization.actions import Action, Known, Verdict

KINDS = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
    "operations": ["CREATE", "UPDATE"],
}


async def policy(api: Any, name: str = "p", *, binding: Object | None = None, **spec: Any) -> None:
    """A policy and its binding."""
    kind = "mutating" if "mutations" in spec else "validating"
    found = {"matchConstraints": {"resourceRules": [RULE]}} | spec
    await api.ok(
        "POST", f"{KINDS}/{kind}admissionpolicies", {"metadata": {"name": name}, "spec": found}
    )
    bound: Object = {"policyName": name}
    if kind == "validating":
        bound["validationActions"] = ["Deny"]
    await api.ok(
        "POST",
        f"{KINDS}/{kind}admissionpolicybindings",
        {"metadata": {"name": f"{name}-b"}, "spec": bound | (binding or {})},
    )


def config(name: str = "c", **data: str) -> Object:
    return {"metadata": {"name": name, "labels": {"team": "a"}}, "data": data}


async def test_a_policy_denies_what_its_expression_refuses(api: Any) -> None:
    await policy(api, validations=[{"expression": "object.data.a != 'bad'"}])
    await api.ok("POST", MAPS, config(a="good"))
    status = await api.fails(422, "PUT", f"{MAPS}/c", config(a="bad"))
    assert status["message"] == (
        "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p-b' denied "
        "request: failed expression: object.data.a != 'bad'"
    )
    assert status["reason"] == "Invalid"
    assert status["details"]["causes"][0]["message"].startswith("ValidatingAdmissionPolicy 'p'")
    await api.ok("DELETE", f"{KINDS}/validatingadmissionpolicybindings/p-b")
    await api.ok("PUT", f"{MAPS}/c", config(a="bad"))


async def test_messages_reasons_and_variables(api: Any) -> None:
    await policy(
        api,
        variables=[
            {"name": "limit", "expression": "3"},
            {"name": "count", "expression": "size(object.data)"},
            {"name": "fits", "expression": "variables.count <= variables.limit"},
            {"name": "never", "expression": "object.none"},
        ],
        validations=[
            {
                "expression": "variables.fits",
                "messageExpression": "'at most ' + string(variables.limit) + ' keys'",
                "reason": "Forbidden",
            },
            {"expression": "!has(object.data.x)", "message": "no x"},
        ],
    )
    status = await api.fails(403, "POST", MAPS, config(a="", b="", c="", d=""))
    assert status["message"].endswith("denied request: at most 3 keys")
    assert status["reason"] == "Forbidden"
    status = await api.fails(422, "POST", MAPS, config(x=""))
    assert status["message"].endswith("denied request: no x")


async def test_a_policy_may_only_warn(api: Any) -> None:
    await policy(
        api,
        validations=[{"expression": "false", "message": "mind this"}],
        binding={"validationActions": ["Warn", "Audit"]},
    )
    answer = await api.ask("POST", MAPS, config())
    assert answer.code == 201
    assert "policy 'p' with binding 'p-b': mind this" in answer.headers["warning"].lower()


async def test_an_expression_that_fails(api: Any) -> None:
    """failurePolicy decides."""
    await policy(api, validations=[{"expression": "object.data.none == 'x'"}])
    status = await api.fails(422, "POST", MAPS, config())
    assert status["message"].endswith("resulted in error: no such key: none")
    await api.ok("DELETE", f"{KINDS}/validatingadmissionpolicies/p")
    await policy(
        api,
        "q",
        failurePolicy="Ignore",
        validations=[{"expression": "object.data.none == 'x'"}],
    )
    await api.ok("POST", MAPS, config())


async def test_parameters(api: Any) -> None:
    """One evaluation for each; the binding says where they are."""
    for name, limit in (("small", "1"), ("large", "2")):
        made = config(name, limit=limit) | {"metadata": {"name": name, "labels": {"of": "limits"}}}
        await api.ok("POST", MAPS, made)
    await policy(
        api,
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        validations=[{"expression": "size(object.data) <= int(params.data.limit)"}],
        binding={
            "paramRef": {
                "selector": {"matchLabels": {"of": "limits"}},
                "namespace": "default",
                "parameterNotFoundAction": "Deny",
            }
        },
    )
    await api.ok("POST", MAPS, config(a=""))
    await api.fails(422, "POST", MAPS, config("d", a="", b=""))
    await api.ok("DELETE", f"{MAPS}/small")
    await api.ok("POST", MAPS, config("d", a="", b=""))
    await api.ok("DELETE", f"{MAPS}/large")
    status = await api.fails(422, "POST", MAPS, config("e"))
    assert status["message"].endswith(
        "failed to configure binding: no params found for policy binding with `Deny` "
        "parameterNotFoundAction"
    )


MATCHING: list[tuple[Object, Object, bool]] = [
    ({}, {}, True),
    ({}, {"matchResources": {"objectSelector": {"matchLabels": {"team": "b"}}}}, False),
    ({}, {"matchResources": {"resourceRules": [RULE | {"operations": ["DELETE"]}]}}, False),
    ({}, {"matchResources": {"resourceRules": [RULE | {"resourceNames": ["c"]}]}}, True),
    ({}, {"matchResources": {"excludeResourceRules": [RULE]}}, False),
    (
        {"matchConstraints": {"resourceRules": [RULE], "excludeResourceRules": [RULE]}},
        {},
        False,
    ),
    ({"matchConditions": [{"name": "n", "expression": "request.name == 'other'"}]}, {}, False),
    (
        {
            "matchConditions": [
                {"name": "n", "expression": "namespaceObject.metadata.name == 'default'"}
            ]
        },
        {},
        True,
    ),
]


@pytest.mark.parametrize(("spec", "binding", "meant"), MATCHING)
async def test_which_writes_are_meant(api: Any, spec: Object, binding: Object, meant: bool) -> None:
    await policy(api, validations=[{"expression": "false"}], binding=binding, **spec)
    answer = await api.ask("POST", MAPS, config())
    assert answer.code == (422 if meant else 201)


async def test_a_delete_has_only_an_old_object(api: Any) -> None:
    await policy(
        api,
        matchConstraints={"resourceRules": [RULE | {"operations": ["DELETE"]}]},
        validations=[{"expression": "object == null && oldObject.data.keep != 'yes'"}],
    )
    await api.ok("POST", MAPS, config(keep="yes"))
    await api.fails(422, "DELETE", f"{MAPS}/c")
    await api.ok("POST", MAPS, config("d", keep="no"))
    await api.ok("DELETE", f"{MAPS}/d")


WRONG: list[tuple[Object, str]] = [
    ({"validations": [{"expression": "object."}]}, "spec.validations[0].expression"),
    ({"validations": [{"expression": "'a'"}]}, "spec.validations[0].expression"),
    ({"validations": [{"expression": "nobody.a"}]}, "spec.validations[0].expression"),
    (
        {"validations": [{"expression": "true", "messageExpression": "1"}]},
        "spec.validations[0].messageExpression",
    ),
    ({"validations": [{"expression": "true", "reason": "Gone"}]}, "spec.validations[0].reason"),
    (
        {
            "validations": [{"expression": "true"}],
            "matchConditions": [{"name": "n", "expression": "variables.a"}],
        },
        "spec.matchConditions[0].expression",
    ),
    (
        {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "1"}}]},
        "spec.mutations[0].jsonPatch.expression",
    ),
    ({"mutations": [{"patchType": "JSONPatch"}]}, "spec.mutations[0].jsonPatch"),
]


@pytest.mark.parametrize(("spec", "field"), WRONG)
async def test_wrong_expressions_are_refused_at_once(api: Any, spec: Object, field: str) -> None:
    kind = "mutating" if "mutations" in spec else "validating"
    found = {"matchConstraints": {"resourceRules": [RULE]}, "reinvocationPolicy": "Never"} | spec
    if kind == "validating":
        found.pop("reinvocationPolicy")
    made = {"metadata": {"name": "p"}, "spec": found}
    status = await api.fails(422, "POST", f"{KINDS}/{kind}admissionpolicies", made)
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]


# -- mutations ---------------------------------------------------------------------------------


def apply(expression: str) -> Object:
    return {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": expression},
    }


def patch(expression: str) -> Object:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


async def test_an_apply_configuration_is_merged(api: Any) -> None:
    rule = RULE | {"apiGroups": ["apps"], "resources": ["deployments"]}
    expression = """Object{
        metadata: Object.metadata{labels: {"seen": "yes", "from": object.metadata.name}},
        spec: Object.spec{
            template: Object.spec.template{
                spec: Object.spec.template.spec{
                    containers: [Object.spec.template.spec.containers{name: "side", image: "s"}]
                }
            }
        }
    }"""
    await policy(api, mutations=[apply(expression)], matchConstraints={"resourceRules": [rule]})
    labels = {"app": "w"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    made = await api.ok("POST", DEPLOYMENTS, {"metadata": {"name": "w"}, "spec": spec})
    containers = made["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["c", "side"]
    assert containers[1]["imagePullPolicy"] == "Always", "defaults are filled in"
    assert made["metadata"]["labels"] == {"seen": "yes", "from": "w"}


async def test_json_patches_of_several_mutations_see_each_other(api: Any) -> None:
    first = """[JSONPatch{op: "add", path: "/data/" + jsonpatch.escapeKey("a/b"), value: "1"},
                JSONPatch{op: "add", path: "/data/n", value: string(size(object.data))}]"""
    second = """object.data.n == "1" ? [JSONPatch{op: "remove", path: "/data/n"}] : []"""
    tested = """[JSONPatch{op: "test", path: "/data/none", value: "x"},
                 JSONPatch{op: "add", path: "/data/never", value: "x"}]"""
    rule = {"resourceRules": [RULE | {"resources": ["configmaps"]}]}
    slash = 'path: "/data/" + jsonpatch.escapeKey("a/b")'
    first = first.replace(slash, 'path: "/data/" + jsonpatch.escapeKey("a.b")')
    await policy(api, mutations=[patch(first), patch(second), patch(tested)], matchConstraints=rule)
    made = await api.ok("POST", MAPS, config(x="y"))
    assert made["data"] == {"x": "y", "a.b": "1"}


async def test_a_policy_is_asked_again_when_others_changed_the_object(api: Any) -> None:
    count = 'Object{data: {"count": string(size(object.data))}}'
    await policy(api, "a", mutations=[apply(count)], reinvocationPolicy="IfNeeded")
    await policy(api, "b", mutations=[apply('Object{data: {"b": ""}}')])
    made = await api.ok("POST", MAPS, config(x=""))
    assert made["data"] == {"x": "", "b": "", "count": "3"}


async def test_a_mutation_that_fails_refuses_the_write(api: Any) -> None:
    await policy(api, mutations=[apply("Object{data: {'a': object.data.none}}")])
    status = await api.fails(403, "POST", MAPS, config())
    assert status["message"] == ("policy 'p' with binding 'p-b' denied request: no such key: none")


@pytest.mark.parametrize("expression", ["[1]", "dyn(1)", "[JSONPatch{op: 'none', path: '/a'}]"])
async def test_a_patch_that_is_none_refuses_the_write(api: Any, expression: str) -> None:
    await policy(api, mutations=[patch(expression)])
    status = await api.fails(403, "POST", MAPS, config())
    assert "policy 'p' with binding 'p-b' denied request: JSON Patch: " in status["message"]


async def test_policies_judge_no_policies(api: Any) -> None:
    """So one that refuses everything can be removed."""
    everything = RULE | {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    rules = {"resourceRules": [everything | {"operations": ["*"]}]}
    await policy(api, validations=[{"expression": "false"}], matchConstraints=rules)
    await api.fails(422, "POST", MAPS, config())
    await api.ok("DELETE", f"{KINDS}/validatingadmissionpolicies/p")
    await api.ok("POST", MAPS, config())


REQUESTS: list[tuple[str, str, Any, str]] = [
    ("pods/exec", "p/exec?command=sh&container=c", None, "object.command == ['sh']"),
    ("pods/portforward", "p/portforward?ports=80", None, "object.ports == [80]"),
    ("pods/proxy", "p/proxy/a/b", None, "object.path == 'a/b'"),
    ("pods/binding", "p/binding", {"target": {"name": "n"}}, "object.target.name == 'n'"),
    ("*/eviction", "p/eviction", {}, "request.kind.kind == 'Eviction'"),
]


@pytest.mark.parametrize(("resource", "path", "body", "condition"), REQUESTS)
async def test_what_is_done_with_a_pod_can_be_refused(
    api: Any, resource: str, path: str, body: Any, condition: str
) -> None:
    rule = RULE | {"resources": [resource], "operations": ["CONNECT", "CREATE"]}
    await policy(
        api,
        matchConstraints={"resourceRules": [rule]},
        validations=[{"expression": f"!({condition})", "reason": "Forbidden"}],
    )
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await api.ok("POST", pods, {"metadata": {"name": "p"}, "spec": spec})
    method = "GET" if body is None else "POST"
    status = await api.fails(403, method, f"{pods}/{path}", body)
    assert status["message"].startswith("pods \"p\" is forbidden: ValidatingAdmissionPolicy 'p'")


class Rules:
    """Ann may do what is written here; service accounts may do nothing."""

    def __init__(self) -> None:
        self.asked: list[Action] = []

    async def decide(self, action: Action) -> Verdict:
        self.asked.append(action)
        allowed = (
            action.user.name, action.verb, action.target,
        ) == ("admin", "approve", "certs/final")  # fmt: skip
        return Verdict(allowed or action.path == "/open", "" if allowed else "no rule")

    async def rules(self, user: User, namespace: str) -> Known:
        return Known([])


FINAL = "authorizer.group('x').resource('certs').subresource('final').namespace('n').name('m')"
QUESTIONS = [
    (f"{FINAL}.check('approve').allowed()", True),
    (f"{FINAL}.check('deny').allowed()", False),
    (f"{FINAL}.check('deny').reason() == 'no rule'", True),
    (f"object.data.a == 'x' && !{FINAL}.check('deny').allowed()", True),
    ("authorizer.path('/open').check('get').allowed()", True),
    ("authorizer.serviceAccount('n', 's').path('/x').check('get').allowed()", False),
    ("authorizer.requestResource.check('extra').allowed()", False),
]


@pytest.mark.parametrize(("expression", "holds"), QUESTIONS)
async def test_expressions_may_ask_the_authorizer(api: Any, expression: str, holds: bool) -> None:
    rules = Rules()
    api.server._dynamic._authorizer = rules
    await policy(api, validations=[{"expression": expression}])
    answer = await api.ask("POST", MAPS, config(a="x"))
    assert answer.code == (201 if holds else 422), answer.body
    (action,) = rules.asked
    if "serviceAccount" in expression:
        assert action.user.name == "system:serviceaccount:n:s"
        assert "system:serviceaccounts:n" in action.user.groups
    if "requestResource" in expression:
        assert (action.resource, action.namespace, action.name) == ("configmaps", "default", "c")
    if "certs" in expression:
        assert (action.group, action.namespace, action.name) == ("x", "n", "m")


async def test_conditions_of_webhooks_may_ask_the_authorizer(api: Any) -> None:
    """Who may break glass passes by the webhook, which is not there."""
    api.server._dynamic._authorizer = Rules()
    may = "authorizer.group('').resource('certs').subresource('final').check('approve').allowed()"
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "break-glass", "expression": f"!{may}"}],
    }
    found = {"metadata": {"name": "hook"}, "webhooks": [webhook]}
    await api.ok("POST", f"{KINDS}/validatingwebhookconfigurations", found)
    await api.ok("POST", MAPS, config())


async def test_a_long_chain_of_variables_is_answered(api: Any) -> None:
    """Each asks for the one above it: how deep is not limited by our stack."""
    first = {"name": "v0", "expression": "1"}
    rest = [
        {"name": f"v{index}", "expression": f"variables.v{index - 1}"} for index in range(1, 1200)
    ]
    last = {"expression": "variables.v1199 == 1"}
    await policy(api, variables=[first, *rest], validations=[last])
    await api.ok("POST", MAPS, config())


@pytest.mark.parametrize("second", ["variables.first", "variables.second"])
async def test_variables_that_ask_for_each_other_are_an_error(api: Any, second: str) -> None:
    variables = [
        {"name": "first", "expression": "variables.second"},
        {"name": "second", "expression": second},
    ]
    await policy(api, variables=variables, validations=[{"expression": "variables.second == 1"}])
    status = await api.fails(422, "POST", MAPS, config())
    assert "fails to evaluate" in status["message"]
