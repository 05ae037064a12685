"""Admission webhooks: who is asked about which write, and what the answers do to it."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shepherd.api.kinds import ENDPOINTS
from shepherd.api.meta import object_key
from shepherd.api.resource import Object
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response
from shepherd.lib.httpd import serve
from shepherd.server.codec import encode
from shepherd.server.pki import Pki
from shepherd.store.base import Put

KINDS = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}

Judge = Callable[[Object], Object]
"""From the request of a review to what the response says."""


class Hooks:
    """A real HTTPS server that answers reviews by their path."""

    def __init__(self, api: Any, port: int, bundle: str) -> None:
        self.api = api
        self.port = port
        self.bundle = bundle
        self.judges: dict[str, Judge] = {}
        self.asked: list[tuple[str, Object]] = []

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    async def register(self, mutating: bool = False, **judges: Judge) -> None:
        """One webhook for each judge; `configure` it first to have more said of it."""
        for name, judge in judges.items():
            await self.configure(name, judge, mutating=mutating)

    async def configure(self, name: str, judge: Judge, mutating: bool = False, **more: Any) -> None:
        self.judges[name] = judge
        kind = "Mutating" if mutating else "Validating"
        url = f"https://localhost:{self.port}/{name}"
        webhook = {
            "name": f"{name}.example.com",
            "clientConfig": {"url": url, "caBundle": self.bundle},
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        found = {"metadata": {"name": name}, "webhooks": [webhook | more]}
        await self.api.ok("POST", f"{KINDS}/{kind.lower()}webhookconfigurations", found)

    async def handle(self, request: Request) -> Response:
        review = msgspec.json.decode(request.body)
        name = request.path.strip("/")
        self.asked.append((name, review["request"]))
        said = self.judges[name](review["request"])
        review["response"] = {"uid": review["request"]["uid"], "allowed": True} | said
        return Response(200, {"content-type": "application/json"}, msgspec.json.encode(review))


@pytest.fixture(scope="module")
def pki(tmp_path_factory: Any) -> Pki:
    where: Path = tmp_path_factory.mktemp("hooks")
    return Pki.open(where, clock=SystemClock(), hosts=["hook.default.svc"])


@pytest.fixture
async def hooks(api: Any, pki: Pki) -> AsyncIterator[Hooks]:
    bundle = base64.b64encode(pki.ca.encode()).decode()
    found = Hooks(api, 0, bundle)
    httpd = await serve(found.handle, "127.0.0.1", 0, ssl=pki.serving_context())
    found.port = httpd.port
    yield found
    await httpd.close(0)
    await api.server._reach.close()


def allow(request: Object) -> Object:
    return {}


def patch(*operations: Object) -> Judge:
    text = base64.b64encode(msgspec.json.encode(operations)).decode()
    return lambda request: {"patch": text, "patchType": "JSONPatch"}


def put(key: str, value: str) -> Judge:
    return patch({"op": "add", "path": f"/data/{key}", "value": value})


def config(name: str = "c", **data: str) -> Object:
    return {"metadata": {"name": name}, "data": {"a": "1"} | data}


async def test_a_validating_webhook_sees_the_write_and_may_refuse_it(
    api: Any, hooks: Hooks
) -> None:
    def judge(request: Object) -> Object:
        if (request["object"] or {}).get("data", {}).get("a") == "bad":
            return {"allowed": False, "status": {"message": "a is bad", "code": 418}}
        return {"warnings": ["look at a"], "auditAnnotations": {"x": "y"}}

    await hooks.register(judge=judge)
    answer = await api.ask("POST", f"{MAPS}?fieldManager=me", config())
    assert (answer.code, answer.headers["warning"]) == (201, '299 - "look at a"')
    status = await api.fails(418, "PUT", f"{MAPS}/c", config(a="bad"))
    assert status["message"] == (
        'admission webhook "judge.example.com" denied the request: a is bad'
    )
    assert (await api.ok("GET", f"{MAPS}/c"))["data"] == {"a": "1"}
    await api.ok("DELETE", f"{MAPS}/c")
    first, second, third = (request for _, request in hooks.asked)
    assert first["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert first["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (first["operation"], first["name"], first["namespace"]) == ("CREATE", "c", "default")
    assert (first["oldObject"], first["dryRun"]) == (None, False)
    assert first["options"]["fieldManager"] == "me"
    assert first["userInfo"]["username"] == "admin"
    assert second["oldObject"]["data"] == {"a": "1"}
    assert second["oldObject"]["metadata"]["resourceVersion"]
    assert (third["operation"], third["object"], third["oldObject"]["data"]) == (
        "DELETE",
        None,
        {"a": "1"},
    )


async def test_mutating_webhooks_rewrite_one_after_another(api: Any, hooks: Hooks) -> None:
    def second(request: Object) -> Object:
        assert request["object"]["data"]["first"] == "1"
        return put("second", "2")(request)

    await hooks.register(mutating=True, a=put("first", "1"), b=second)
    made = await api.ok("POST", MAPS, config())
    assert made["data"] == {"a": "1", "first": "1", "second": "2"}
    changed = await api.ok(
        "PATCH", f"{MAPS}/c", {"data": {"a": None, "first": None}},
        content_type="application/merge-patch+json",
    )  # fmt: skip
    assert changed["data"] == {"first": "1", "second": "2"}


async def test_a_mutation_is_checked_like_any_write(api: Any, hooks: Hooks) -> None:
    """It may not change what a client cannot, and what it leaves must be valid."""
    uid = patch(
        {"op": "replace", "path": "/metadata/uid", "value": "x"},
        {"op": "add", "path": "/unknown", "value": 1},
    )
    await hooks.register(mutating=True, uid=uid)
    made = await api.ok("POST", MAPS, config())
    assert made["metadata"]["uid"] != "x"
    assert "unknown" not in made
    hooks.judges["uid"] = put("not a key!", "x")
    await api.fails(422, "POST", MAPS, config("d"))
    hooks.judges["uid"] = patch({"op": "remove", "path": "/none"})
    status = await api.fails(500, "POST", MAPS, config("d"))
    assert 'patch of admission webhook "uid.example.com" cannot be applied' in status["message"]


async def test_a_webhook_is_asked_again_when_others_changed_the_object(
    api: Any, hooks: Hooks
) -> None:
    def count(request: Object) -> Object:
        return put("seen", str(len(request["object"]["data"])))(request)

    await hooks.configure("a", count, mutating=True, reinvocationPolicy="IfNeeded")
    await hooks.configure("b", put("b", "1"), mutating=True)
    made = await api.ok("POST", MAPS, config())
    assert hooks.paths() == ["a", "b", "a"]
    assert made["data"] == {"a": "1", "b": "1", "seen": "3"}


MATCHING: list[tuple[Object, bool]] = [
    ({}, True),
    ({"rules": [RULE | {"operations": ["UPDATE"]}]}, False),
    ({"rules": [RULE | {"resources": ["*"]}]}, True),
    ({"rules": [RULE | {"resources": ["configmaps/status"]}]}, False),
    ({"rules": [RULE | {"apiGroups": ["apps"]}]}, False),
    ({"rules": [RULE | {"scope": "Cluster"}]}, False),
    ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
    ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, False),
    ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
    ({"objectSelector": {"matchLabels": {"app": "no"}}}, False),
    ({"matchConditions": [{"name": "n", "expression": "object.data.a == '1'"}]}, True),
    ({"matchConditions": [{"name": "n", "expression": "request.operation == 'DELETE'"}]}, False),
    (
        {
            "failurePolicy": "Ignore",
            "matchConditions": [{"name": "n", "expression": "object.data.none == '1'"}],
        },
        False,
    ),
]


@pytest.mark.parametrize(("more", "asked"), MATCHING)
async def test_who_is_asked(api: Any, hooks: Hooks, more: Object, asked: bool) -> None:
    await hooks.configure("hook", allow, **more)
    made = config() | {"metadata": {"name": "c", "labels": {"app": "web"}}}
    await api.ok("POST", MAPS, made)
    assert bool(hooks.asked) is asked


async def test_a_condition_that_fails_refuses_the_write(api: Any, hooks: Hooks) -> None:
    conditions = [{"name": "n", "expression": "object.data.none == '1'"}]
    await hooks.configure("hook", allow, matchConditions=conditions)
    status = await api.fails(403, "POST", MAPS, config())
    assert "no such key: none" in status["message"]
    assert not hooks.asked


async def test_a_webhook_that_fails(api: Any, hooks: Hooks) -> None:
    """Its failurePolicy decides, whatever way it fails."""

    def answer(request: Object) -> Object:
        return {"uid": "another"}

    await hooks.configure("hook", answer)
    status = await api.fails(500, "POST", MAPS, config())
    assert status["message"].startswith(
        'Internal error occurred: failed calling webhook "hook.example.com": '
        "received invalid webhook response: expected response.uid="
    )
    closed = {"url": "https://127.0.0.1:1/x", "caBundle": hooks.bundle}
    await hooks.configure("closed", allow, clientConfig=closed, failurePolicy="Ignore")
    await api.ok("DELETE", f"{KINDS}/validatingwebhookconfigurations/hook")
    await api.ok("POST", MAPS, config())
    wrong = {"url": f"https://localhost:{hooks.port}/x"}
    await hooks.configure("untrusted", allow, clientConfig=wrong)
    status = await api.fails(500, "POST", MAPS, config("d"))
    assert "certificate is not trusted" in status["message"]


async def test_a_webhook_that_is_slow_is_given_up(api: Any, hooks: Hooks) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # and never answers
        writer.close()

    silent = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{silent.sockets[0].getsockname()[1]}/x"
    config_of = {"url": url, "caBundle": hooks.bundle}
    await hooks.configure("slow", allow, clientConfig=config_of, timeoutSeconds=1)
    status = await api.fails(500, "POST", MAPS, config())
    assert "context deadline exceeded" in status["message"]
    silent.close()


async def test_a_service_is_reached_at_its_endpoints(api: Any, hooks: Hooks) -> None:
    """The certificate must be of <service>.<namespace>.svc; the port is the service's."""
    ports = [{"name": "tls", "port": 443, "targetPort": 8443}]
    service = {"metadata": {"name": "hook"}, "spec": {"ports": ports}}
    reference = {"namespace": "default", "name": "hook", "path": "/hook"}
    where = {"service": reference, "caBundle": hooks.bundle}
    await hooks.configure("hook", allow, clientConfig=where)
    status = await api.fails(500, "POST", MAPS, config())
    assert (
        'https://hook.default.svc:443/hook?timeout=10s": services "hook" not found'
        in (status["message"])
    )
    await api.ok("POST", "/api/v1/namespaces/default/services", service)
    status = await api.fails(500, "POST", MAPS, config())
    assert 'no endpoints available for service "hook"' in status["message"]
    await endpoints(api, "hook", hooks.port)
    await api.ok("POST", MAPS, config())
    assert hooks.paths() == ["hook"]


async def endpoints(api: Any, name: str, port: int) -> None:
    """Of a service on this machine, which the API itself would not take."""
    subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "tls", "port": port}]}]
    metadata = {"name": name, "namespace": "default", "uid": "u"}
    found = {"kind": "Endpoints", "apiVersion": "v1", "metadata": metadata, "subsets": subsets}
    await api.store.commit(Put(object_key(ENDPOINTS, "default", name), encode(found)))


async def test_dry_runs_reach_only_those_that_bear_them(api: Any, hooks: Hooks) -> None:
    await hooks.register(hook=allow)
    await api.ok("POST", f"{MAPS}?dryRun=All", config())
    assert hooks.asked[0][1]["dryRun"] is True
    assert hooks.asked[0][1]["options"]["dryRun"] == ["All"]


async def test_status_and_scale_are_judged_as_what_they_are(api: Any, hooks: Hooks) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    rules = [rule | {"resources": ["deployments/scale", "*/status"]}]
    await hooks.configure("hook", allow, rules=rules)
    labels = {"app": "w"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    await api.ok("POST", path, {"metadata": {"name": "w"}, "spec": spec})
    merge = {"content_type": "application/merge-patch+json"}
    await api.ok("PATCH", f"{path}/w/scale", {"spec": {"replicas": 3}}, **merge)
    await api.ok("PATCH", f"{path}/w/status", {"status": {"replicas": 3}}, **merge)
    scale, status = (request for _, request in hooks.asked)
    assert scale["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (scale["subResource"], scale["object"]["spec"]) == ("scale", {"replicas": 3})
    assert (status["subResource"], status["object"]["status"]) == ("status", {"replicas": 3})


async def test_configurations_are_judged_by_none(api: Any, hooks: Hooks) -> None:
    """So one that refuses everything can be removed, and holds until then."""

    def refuse(request: Object) -> Object:
        return {"allowed": False}

    everything = RULE | {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    await hooks.configure("refuse", refuse, rules=[everything])
    status = await api.fails(400, "POST", MAPS, config())
    assert status["message"].endswith("denied the request without explanation")
    await hooks.register(other=allow)
    await api.ok("DELETE", f"{KINDS}/validatingwebhookconfigurations/refuse")
    await api.ok("POST", MAPS, config())


async def test_a_configuration_that_was_not_stored_does_nothing(api: Any, hooks: Hooks) -> None:
    await hooks.register(hook=allow)
    path = f"{KINDS}/validatingwebhookconfigurations"
    found = await api.ok("GET", f"{path}/hook")
    await api.ok("PUT", f"{path}/hook?dryRun=All", found | {"webhooks": []})
    await api.ok("POST", MAPS, config())
    assert hooks.paths() == ["hook"]


async def test_another_version_of_a_custom_resource_is_meant_too(api: Any, hooks: Hooks) -> None:
    """matchPolicy Equivalent: the webhook sees the version that it knows, and patches that."""
    version = {
        "name": "v1", "served": True, "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
            }
        },
    }  # fmt: skip
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "tubes", "kind": "Tube"},
        "versions": [version, version | {"name": "v2", "storage": False}],
    }
    crd = {"metadata": {"name": "tubes.example.com"}, "spec": spec}
    await api.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    rules = [RULE | {"apiGroups": ["example.com"], "resources": ["tubes"]}]
    change = patch({"op": "add", "path": "/spec/a", "value": "new"})
    await hooks.configure("hook", change, mutating=True, rules=rules)
    path = "/apis/example.com/v2/namespaces/default/tubes"
    made = await api.ok("POST", path, {"metadata": {"name": "t"}, "spec": {"a": "old"}})
    assert (made["apiVersion"], made["spec"]) == ("example.com/v2", {"a": "new"})
    request = hooks.asked[0][1]
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
    assert request["object"]["apiVersion"] == "example.com/v1"
    await hooks.configure("exact", allow, rules=rules, matchPolicy="Exact")
    await api.ok("POST", path, {"metadata": {"name": "u"}, "spec": {}})
    assert "exact" not in hooks.paths()
