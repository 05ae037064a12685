"""Discovery, version, health, and what agents ask about the cluster."""

import gzip
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from shepherd.api.errors import unauthorized
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, User
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.memory import MemoryStore

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


async def test_the_aggregated_form_names_everything(api: Any) -> None:
    core = await api.ask("GET", "/api", accept=AGGREGATED)
    assert core.headers["content-type"] == (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    (group,) = core.json["items"]
    resources = {entry["resource"]: entry for entry in group["versions"][0]["resources"]}
    pods = resources["pods"]
    assert pods["shortNames"] == ["po"]
    assert pods["categories"] == ["all"]
    assert pods["scope"] == "Namespaced"
    assert pods["responseKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert {sub["subresource"] for sub in pods["subresources"]} >= {"status", "log", "binding"}
    assert resources["nodes"]["scope"] == "Cluster"
    groups = (await api.ok("GET", "/apis", accept=AGGREGATED))["items"]
    assert {group["metadata"]["name"] for group in groups} >= {"apps", "events.k8s.io"}


async def test_the_old_form_still_works(api: Any) -> None:
    assert (await api.ok("GET", "/api"))["versions"] == ["v1"]
    groups = (await api.ok("GET", "/apis"))["groups"]
    apps = next(group for group in groups if group["name"] == "apps")
    assert apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert (await api.ok("GET", "/apis/apps"))["kind"] == "APIGroup"
    listed = await api.ok("GET", "/apis/apps/v1")
    assert listed["groupVersion"] == "apps/v1"
    entries = {entry["name"]: entry for entry in listed["resources"]}
    assert entries["deployments"]["singularName"] == "deployment"
    assert entries["deployments/scale"]["kind"] == "Scale"
    assert entries["deployments/scale"]["group"] == "autoscaling"
    assert "pods/log" in {entry["name"] for entry in (await api.ok("GET", "/api/v1"))["resources"]}


@pytest.mark.parametrize(
    "path",
    ["/", "/nothing", "/apis/none.io", "/apis/none.io/v1", "/apis/apps/v2/deployments",
     "/api/v1/nothings", "/api/v1/pods/p", "/api/v1/namespaces/default/nodes",
     "/healthz/nothing", "/api/v2"],
)  # fmt: skip
async def test_paths_that_are_not_there_are_404(api: Any, path: str) -> None:
    status = await api.fails(404, "GET", path)
    assert status["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/pods"),
        ("PUT", "/api/v1/namespaces/default/pods"),
        ("POST", "/api/v1/namespaces/default/pods/p"),
        ("BREW", "/api/v1/namespaces/default/pods"),
        ("POST", "/apis"),
    ],
)
async def test_methods_that_a_path_has_not_are_405(api: Any, method: str, path: str) -> None:
    await api.fails(405, method, path)


async def test_version_and_health(api: Any) -> None:
    version = await api.ok("GET", "/version")
    assert (version["major"], version["minor"]) == ("1", "37")
    assert version["gitVersion"].startswith("v1.37.0+shepherd")
    assert await api.ok("GET", "/version/") == version  # as kr8s asks
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await api.ask("GET", path)).body == b"ok"
    verbose = (await api.ask("GET", "/readyz?verbose")).body.decode()
    assert "[+]start ok" in verbose
    assert verbose.endswith("readyz check passed\n")


async def test_agents_learn_the_ranges(api: Any) -> None:
    cluster = await api.ok("GET", "/shepherd/v1/cluster")
    assert cluster["podCIDR"] == "10.42.0.0/16"
    assert cluster["serviceCIDR"] == "10.43.0.0/16"
    assert cluster["clusterDNS"] == "10.43.0.10"
    assert cluster["clusterDomain"] == "cluster.local"


class _Nobody:
    async def authenticate(self, request: Request) -> User:
        raise unauthorized()

    async def identify(self, token: str, audiences: Sequence[str]) -> User:
        raise unauthorized()


async def test_who_proves_nothing_sees_nothing() -> None:
    server = ApiServer(
        MemoryStore(),
        config=ServerConfig(),
        clock=SystemClock(),
        random=Random(1),
        authenticator=_Nobody(),
    )
    for path in ("/api", "/apis/apps/v1", "/api/v1/pods", "/openapi/v3", "/shepherd/v1/cluster"):
        assert (await server.handle(Request("GET", path))).status == 401


async def test_a_server_is_ready_once_it_has_started() -> None:
    server = ApiServer(
        MemoryStore(),
        config=ServerConfig(),
        clock=SystemClock(),
        random=Random(1),
        authenticator=InsecureAuthenticator(),
    )
    assert (await server.handle(Request("GET", "/livez"))).status == 200
    assert (await server.handle(Request("GET", "/readyz"))).status == 500
    await server.start()
    assert (await server.handle(Request("GET", "/readyz"))).status == 200


async def test_openapi_documents_are_sent_once(api: Any) -> None:
    index = (await api.ok("GET", "/openapi/v3"))["paths"]
    target = index["apis/apps/v1"]["serverRelativeURL"]
    document = await api.ask("GET", target)
    assert "io.k8s.api.apps.v1.Deployment" in document.json["components"]["schemas"]
    again = await api.ask("GET", target, if_none_match=document.headers["etag"])
    assert again.code == 304
    assert again.body == b""
    packed = await api.ask("GET", target, accept_encoding="gzip")
    assert gzip.decompress(packed.body) == document.body
    await api.fails(404, "GET", "/openapi/v3/apis/none/v1")
