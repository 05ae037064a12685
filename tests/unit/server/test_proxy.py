"""Logs and proxies: what the server asks of agents and pods, and what it passes on."""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response, User
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.server.proxy import streams_body
from shepherd.store.memory import MemoryStore

PODS = "/api/v1/namespaces/default/pods"


class Dialer:
    """Notes what is asked and answers it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Request]] = []
        self.response = Response(200, {"content-type": "text/plain", "connection": "x"}, b"line\n")
        self.fails = False

    async def send(self, origin: str, request: Request) -> Response:
        if self.fails:
            raise ConnectionError("connection refused")
        self.asked.append((origin, request))
        return self.response


@pytest.fixture
def dialer() -> Dialer:
    return Dialer()


@pytest.fixture
async def api(dialer: Dialer, api: Any) -> Any:
    store = MemoryStore()
    api.server = ApiServer(
        store,
        config=ServerConfig(),
        clock=SystemClock(),
        random=Random(1),
        authenticator=InsecureAuthenticator(),
        dialer=dialer,
    )
    await api.server.start()
    node = {
        "metadata": {"name": "n1"},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": "n1"},
                {"type": "InternalIP", "address": "10.0.0.5"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }
    await api.ok("POST", "/api/v1/nodes", node)
    return api


async def make_pod(api: Any, *containers: str, node: str = "n1") -> None:
    spec = {
        "containers": [
            {"name": name, "image": "b", "ports": [{"containerPort": 8080}]} for name in containers
        ]
    }
    await api.ok("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    if node:
        await api.ok("POST", f"{PODS}/p/binding", {"target": {"name": node}})


async def test_a_log_comes_from_the_pods_node(api: Any, dialer: Dialer) -> None:
    await make_pod(api, "a")
    answer = await api.ask("GET", f"{PODS}/p/log?follow=true&tailLines=5&pretty=true")
    assert answer.body == b"line\n"
    assert answer.headers == {"content-type": "text/plain"}
    ((origin, request),) = dialer.asked
    assert origin == "https://10.0.0.5:10250"
    assert request.path == "/containerLogs/default/p/a"
    assert request.query == [("follow", "true"), ("tailLines", "5")]


async def test_the_container_must_be_clear(api: Any, dialer: Dialer) -> None:
    await make_pod(api, "a", "b")
    status = await api.fails(400, "GET", f"{PODS}/p/log")
    assert status["message"] == (
        "a container name must be specified for pod p, choose one of: [a b]"
    )
    status = await api.fails(400, "GET", f"{PODS}/p/log?container=x")
    assert status["message"] == "container x is not valid for pod p"
    assert (await api.ask("GET", f"{PODS}/p/log?container=b")).code == 200
    assert dialer.asked[0][1].path.endswith("/p/b")


async def test_a_pod_without_a_node_has_an_empty_log(api: Any, dialer: Dialer) -> None:
    await make_pod(api, "a", node="")
    assert (await api.ask("GET", f"{PODS}/p/log")).body == b""
    assert dialer.asked == []


async def test_what_cannot_be_reached_is_said(api: Any, dialer: Dialer) -> None:
    await make_pod(api, "a", node="gone")
    status = await api.fails(404, "GET", f"{PODS}/p/log")
    assert status["message"] == 'nodes "gone" not found'
    dialer.fails = True
    status = await api.fails(503, "GET", "/api/v1/nodes/n1/proxy/healthz")
    assert "connection refused" in status["message"]
    await api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "silent"}})
    status = await api.fails(503, "GET", "/api/v1/nodes/silent/proxy/healthz")
    assert 'node "silent" has not told where its agent listens' in status["message"]


async def test_a_nodes_own_endpoints_are_passed_through(api: Any, dialer: Dialer) -> None:
    async def archive() -> AsyncIterator[bytes]:
        yield b"tar"

    path = "/api/v1/nodes/n1/proxy/images/load"
    assert streams_body("POST", path)
    assert not streams_body("POST", "/api/v1/nodes")
    stream = archive()
    request = Request(
        "POST",
        path,
        [("x", "1")],
        {"authorization": "Bearer secret", "content-type": "application/x-tar"},
        stream=stream,
        peer=User("admin"),
    )
    assert (await api.server.handle(request)).status == 200
    ((origin, relayed),) = dialer.asked
    assert origin == "https://10.0.0.5:10250"
    assert (relayed.method, relayed.path, relayed.query) == ("POST", "/images/load", [("x", "1")])
    assert relayed.headers == {"content-type": "application/x-tar"}
    assert relayed.stream is stream


async def test_a_pods_port_is_reached_by_its_address(api: Any, dialer: Dialer) -> None:
    await make_pod(api, "a")
    await api.fails(400, "GET", f"{PODS}/p/proxy/")
    patch = {"status": {"podIP": "10.42.0.9"}}
    merge = "application/merge-patch+json"
    await api.ok("PATCH", f"{PODS}/p/status", patch, content_type=merge)
    await api.ask("GET", f"{PODS}/p/proxy/some/page")
    await api.ask("GET", f"{PODS}/p:9090/proxy/")
    assert [(origin, request.path) for origin, request in dialer.asked] == [
        ("http://10.42.0.9:8080", "/some/page"),
        ("http://10.42.0.9:9090", "/"),
    ]
    await api.fails(400, "GET", f"{PODS}/p:http/proxy/")


SERVICES = "/api/v1/namespaces/default/services"


async def make_service(api: Any, *ports: tuple[str, int], ready: bool = True) -> None:
    spec = {"ports": [{"name": name, "port": port} for name, port in ports]}
    await api.ok("POST", SERVICES, {"metadata": {"name": "s"}, "spec": spec})
    subset = {
        "addresses" if ready else "notReadyAddresses": [{"ip": "10.42.0.9"}],
        "ports": [{"name": name, "port": port + 8000} for name, port in ports],
    }
    path = "/api/v1/namespaces/default/endpoints"
    await api.ok("POST", path, {"metadata": {"name": "s"}, "subsets": [subset]})


async def test_a_service_is_reached_at_a_ready_endpoint(api: Any, dialer: Dialer) -> None:
    await make_service(api, ("web", 80), ("admin", 81))
    for name in ("s:web", "s:81", "http:s:admin"):
        await api.ask("GET", f"{SERVICES}/{name}/proxy/dir/?q=1")
    assert [(origin, request.target) for origin, request in dialer.asked] == [
        ("http://10.42.0.9:8080", "/dir/?q=1"),
        ("http://10.42.0.9:8081", "/dir/?q=1"),
        ("http://10.42.0.9:8081", "/dir/?q=1"),
    ]
    status = await api.fails(503, "GET", f"{SERVICES}/s:99/proxy/")
    assert status["message"] == 'no service port 99 found for service "s"'
    await api.fails(400, "GET", f"{SERVICES}/https:s:web/proxy/")
    await api.fails(404, "GET", f"{SERVICES}/other/proxy/")


async def test_a_service_without_ready_endpoints_is_unavailable(api: Any) -> None:
    await make_service(api, ("web", 80), ready=False)
    status = await api.fails(503, "GET", f"{SERVICES}/s/proxy/")
    assert status["message"] == 'no endpoints available for service "s"'


async def test_a_redirect_stays_behind_the_proxy(api: Any, dialer: Dialer) -> None:
    await make_service(api, ("", 80))
    dialer.response = Response(302, {"location": "/login"})
    answer = await api.ask("GET", f"{SERVICES}/s/proxy/")
    assert answer.headers["location"] == f"{SERVICES}/s/proxy/login"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("tailLines=-1", "tailLines"),
        ("sinceSeconds=0", "sinceSeconds"),
        ("limitBytes=x", "limitBytes"),
        ("sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z", "at most one of"),
        ("stream=stdout", "stream"),
        ("stream=Stdout&tailLines=1", "mutually exclusive"),
    ],
)
async def test_log_options_are_checked(api: Any, query: str, text: str) -> None:
    await make_pod(api, "a")
    status = await api.fails(422, "GET", f"{PODS}/p/log?{query}")
    assert text in status["message"]


HANDSHAKE = {"upgrade": "websocket", "sec-websocket-key": "k", "sec-websocket-version": "13"}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_exec_is_asked_of_the_agent_in_its_words(
    api: Any, dialer: Dialer, method: str
) -> None:
    await make_pod(api, "a")

    async def takeover(duplex: object) -> None:
        raise AssertionError("nobody took over")

    answered = {"connection": "Upgrade", "upgrade": "websocket"}
    dialer.response = Response(101, dict(answered), takeover=takeover)
    query = [("command", "sh"), ("command", "-c"), ("stdin", "true"), ("stdout", "1"), ("tty", "0")]
    request = Request(method, f"{PODS}/p/exec", query, HANDSHAKE | {"cookie": "x"})
    response = await api.server.handle(request)
    assert (response.status, response.headers) == (101, answered)
    assert response.takeover is takeover
    ((origin, asked),) = dialer.asked
    assert (origin, asked.path) == ("https://10.0.0.5:10250", "/exec/default/p/a")
    assert asked.query == [("command", "sh"), ("command", "-c"), ("input", "1"), ("output", "1")]
    assert asked.headers == HANDSHAKE


async def test_streams_need_an_upgrade_and_a_node(api: Any, dialer: Dialer) -> None:
    await make_pod(api, "a", node="")
    status = await api.fails(400, "GET", f"{PODS}/p/portforward")
    assert status["message"] == "pod p does not have a host assigned"
    await api.ok("POST", f"{PODS}/p/binding", {"target": {"name": "n1"}})
    for name in ("exec", "attach", "portforward"):
        status = await api.fails(400, "GET", f"{PODS}/p/{name}")
        assert status["message"] == "Upgrade request required"
    assert dialer.asked == []
