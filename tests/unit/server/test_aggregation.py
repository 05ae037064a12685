"""Groups that other API servers serve: a small real one over HTTPS, behind an APIService."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from aiohttp import web

from shepherd.api.kinds import ENDPOINTS
from shepherd.api.meta import object_key
from shepherd.api.resource import Object
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, User
from shepherd.server.aggregation.relay import target
from shepherd.server.aggregation.remotes import Remote
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.codec import encode
from shepherd.server.config import ServerConfig
from shepherd.server.pki import Pki
from shepherd.server.reach import Trust
from shepherd.store.base import Put
from shepherd.store.memory import MemoryStore

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GROUP = "/apis/wardle.example.com/v1alpha1"
FISH = f"{GROUP}/namespaces/default/flunders"
RESOURCES = [
    {"name": "flunders", "singularName": "flunder", "namespaced": True, "kind": "Flunder",
     "verbs": ["get", "list", "create"], "shortNames": ["fl"]},
    {"name": "flunders/status", "namespaced": True, "kind": "Flunder", "verbs": ["get"]},
]  # fmt: skip


@dataclass
class Wardle:
    """An API server of another make, by aiohttp alone, which looks at who connects."""

    port: int = 0
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    ill: bool = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.ill:
            raise web.HTTPInternalServerError(text="ill")
        assert request.transport
        subject = request.transport.get_extra_info("peercert")["subject"]
        assert ((("commonName", "front-proxy-client"),)) in subject
        headers = {name.lower(): request.headers.getall(name) for name in request.headers}
        self.asked.append((f"{request.method} {request.path_qs}", headers))
        if request.path == GROUP:
            head = {"kind": "APIResourceList", "apiVersion": "v1"}
            return web.json_response(
                head | {"groupVersion": GROUP.removeprefix("/apis/"), "resources": RESOURCES}
            )
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b'{"type":"ADDED"}\n')
            await asyncio.sleep(3600)
        return web.json_response({"kind": "Flunder", "body": await request.text()}, status=201)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: Any) -> Pki:
    where = tmp_path_factory.mktemp("wardle")
    return Pki.open(where, clock=SystemClock(), hosts=["wardle.default.svc"])


@pytest.fixture
async def wardle(pki: Pki) -> AsyncIterator[Wardle]:
    found = Wardle()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki._path("serving"))
    context.load_verify_locations(cadata=pki.authorities["requestheader-client-ca-file"])
    context.verify_mode = ssl.CERT_REQUIRED
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    found.port = runner.addresses[0][1]
    yield found
    await runner.cleanup()


@pytest.fixture
async def api(api: Any, pki: Pki) -> AsyncIterator[Any]:
    api.store = MemoryStore()
    api.server = ApiServer(
        api.store,
        config=ServerConfig(),
        clock=SystemClock(),
        random=Random(1),
        authenticator=InsecureAuthenticator(),
        front_proxy=pki,
    )
    await api.server.start()
    running = asyncio.create_task(api.server.run())
    yield api
    for body in api.open:
        await body.aclose()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def register(api: Any, wardle: Wardle, pki: Pki) -> None:
    """The Service, where it is, and the APIService."""
    ports = [{"name": "https", "port": 443, "targetPort": 8443}]
    service = {"metadata": {"name": "wardle"}, "spec": {"ports": ports}}
    await api.ok("POST", "/api/v1/namespaces/default/services", service)
    await locate(api, wardle)
    spec = {
        "group": "wardle.example.com",
        "version": "v1alpha1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "service": {"namespace": "default", "name": "wardle"},
        "caBundle": base64.b64encode(pki.ca.encode()).decode(),
    }
    name = "v1alpha1.wardle.example.com"
    await api.ok("POST", SERVICES, {"metadata": {"name": name}, "spec": spec})


async def locate(api: Any, wardle: Wardle) -> None:
    ports = [{"name": "https", "port": wardle.port}]
    subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]
    metadata = {"name": "wardle", "namespace": "default", "uid": "u"}
    found = {"kind": "Endpoints", "apiVersion": "v1", "metadata": metadata, "subsets": subsets}
    await api.store.commit(Put(object_key(ENDPOINTS, "default", "wardle"), encode(found)))


async def condition(api: Any, status: str) -> Object:
    """The Available condition, once it has that status."""
    name = "v1alpha1.wardle.example.com"
    events = await api.watch(f"{SERVICES}?watch=true&fieldSelector=metadata.name={name}")
    while True:
        found = (await events.next())["object"]
        for one in (found.get("status") or {}).get("conditions") or ():
            if one["status"] == status:
                return dict(one)


async def test_requests_are_passed_on_as_whoever_sent_them(
    api: Any, wardle: Wardle, pki: Pki
) -> None:
    await register(api, wardle, pki)
    assert (await condition(api, "True"))["reason"] == "Passed"
    request = Request(
        "POST",
        f"{FISH}/a b",
        [("dryRun", "All")],
        {"content-type": "application/json", "x-remote-user": "root", "authorization": "Bearer x"},
        b'{"kind":"Flunder"}',
        peer=User("ann", ("dev", "ops\nsystem:masters"), "7", {"example.com/team": ("a", "b")}),
    )
    response = await api.server.handle(request)
    assert (response.status, response.body) == (
        201,
        b'{"kind": "Flunder", "body": "{\\"kind\\":\\"Flunder\\"}"}',
    )
    line, headers = wardle.asked[-1]
    assert line == f"POST {FISH}/a%20b?dryRun=All"
    assert headers["x-remote-user"] == ["ann"]
    assert headers["x-remote-uid"] == ["7"]
    assert headers["x-remote-group"] == ["dev", "ops system:masters", "system:authenticated"]
    assert headers["x-remote-extra-example.com%2fteam"] == ["a", "b"]
    assert "authorization" not in headers


async def test_discovery_has_the_group(api: Any, wardle: Wardle, pki: Pki) -> None:
    await register(api, wardle, pki)
    await condition(api, "True")
    groups = {group["name"]: group for group in (await api.ok("GET", "/apis"))["groups"]}
    assert groups["wardle.example.com"]["preferredVersion"]["version"] == "v1alpha1"
    assert (await api.ok("GET", "/apis/wardle.example.com"))["kind"] == "APIGroup"
    assert (await api.ok("GET", GROUP))["resources"] == RESOURCES
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    items = (await api.ok("GET", "/apis", accept=accept))["items"]
    (mine,) = [item for item in items if item["metadata"]["name"] == "wardle.example.com"]
    (version,) = mine["versions"]
    assert version["freshness"] == "Current"
    (flunders,) = version["resources"]
    assert (flunders["resource"], flunders["scope"], flunders["shortNames"]) == (
        "flunders",
        "Namespaced",
        ["fl"],
    )
    assert [one["subresource"] for one in flunders["subresources"]] == ["status"]
    index = await api.ok("GET", "/openapi/v3")
    assert f"apis{GROUP.removeprefix('/apis')}" in index["paths"]
    await api.ok("DELETE", f"{SERVICES}/v1alpha1.wardle.example.com")
    await api.fails(404, "GET", GROUP)
    names = [group["name"] for group in (await api.ok("GET", "/apis"))["groups"]]
    assert "wardle.example.com" not in names


async def test_a_watch_is_a_stream(api: Any, wardle: Wardle, pki: Pki) -> None:
    await register(api, wardle, pki)
    await condition(api, "True")
    events = await api.watch(f"{FISH}?watch=true")
    assert (await events.next())["type"] == "ADDED"


async def test_one_that_is_down_is_said_to_be(api: Any, wardle: Wardle, pki: Pki) -> None:
    await register(api, wardle, pki)
    await condition(api, "True")
    wardle.ill = True
    api.server._remotes.failed(next(iter(api.server._remotes.served.values())))
    found = await condition(api, "False")
    assert found["reason"] == "FailedDiscoveryCheck"
    assert found["message"].startswith("failing or missing response from https://127.0.0.1:")
    status = await api.fails(503, "GET", FISH)
    assert status["reason"] == "ServiceUnavailable"
    assert "apiservice v1alpha1.wardle.example.com is not available: failing" in status["message"]
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    items = (await api.ok("GET", "/apis", accept=accept))["items"]
    (mine,) = [item for item in items if item["metadata"]["name"] == "wardle.example.com"]
    assert mine["versions"][0]["freshness"] == "Stale"
    wardle.ill = False
    await condition(api, "True")
    await api.ok("GET", FISH)


async def test_a_service_that_is_missing(api: Any, wardle: Wardle, pki: Pki) -> None:
    await register(api, wardle, pki)
    await condition(api, "True")
    await api.ok("DELETE", "/api/v1/namespaces/default/services/wardle")
    status = await api.fails(503, "GET", FISH)
    assert 'services "wardle" not found' in status["message"]
    found = await condition(api, "False")
    assert (found["reason"], found["message"]) == (
        "ServiceNotFound",
        'service/wardle in "default" is not present',
    )


async def test_the_servers_own_groups_stay_its_own(api: Any, wardle: Wardle, pki: Pki) -> None:
    await register(api, wardle, pki)
    mine = await api.ok("GET", f"{SERVICES}/v1.apps")
    mine["spec"]["service"] = {"namespace": "default", "name": "wardle"}
    await api.ok("PUT", f"{SERVICES}/v1.apps", mine)
    assert (await api.ok("GET", "/apis/apps/v1"))["resources"][0]["name"] != "flunders"


async def test_other_servers_learn_whom_to_trust(api: Any, pki: Pki) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    data = (await api.ok("GET", path))["data"]
    assert data["client-ca-file"] == pki.ca
    assert data["requestheader-client-ca-file"] not in ("", pki.ca)
    assert data["requestheader-allowed-names"] == '["front-proxy-client"]'
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles"
    role = await api.ok("GET", f"{roles}/extension-apiserver-authentication-reader")
    assert role["rules"][0]["resourceNames"] == ["extension-apiserver-authentication"]


TARGETS = [
    ("GET", GROUP, None),
    ("GET", f"/openapi/v3{GROUP}", None),
    ("GET", f"{GROUP}/fish", ("list", "fish", "", "", "")),
    ("GET", f"{FISH}?watch=1", ("watch", "flunders", "default", "", "")),
    ("DELETE", FISH, ("deletecollection", "flunders", "default", "", "")),
    ("PATCH", f"{FISH}/a/status", ("patch", "flunders", "default", "a", "status")),
    (
        "GET",
        f"{GROUP}/watch/namespaces/default/flunders/a",
        ("watch", "flunders", "default", "a", ""),
    ),
    ("GET", f"{GROUP}/namespaces/a", ("get", "namespaces", "", "a", "")),
]


@pytest.mark.parametrize(("method", "path", "asked"), TARGETS)
def test_what_authorization_is_asked(method: str, path: str, asked: Any) -> None:
    remote = Remote("n", "wardle.example.com", "v1alpha1", "", "", 1, Trust(), (1, 1))
    path, _, query = path.partition("?")
    pairs = [("watch", "1")] if query else []
    route = target(remote, Request(method, path, pairs))
    found = route and (route.verb, route.resource.plural, route.namespace, route.name, route.sub)
    assert found == asked
