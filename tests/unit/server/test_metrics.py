"""metrics.k8s.io: what the agents measured, told in the API's form."""

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest

from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response
from shepherd.server import metrics
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.memory import MemoryStore

METRICS = "/apis/metrics.k8s.io/v1beta1"
PODS = "/api/v1/namespaces/default/pods"
STAMP = "2026-01-01T00:00:10Z"


class Agents:
    """Answers as the agents of all nodes do: by the port that each node told."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked = 0

    async def send(self, origin: str, request: Request) -> Response:
        assert request.path == "/stats/summary"
        self.asked += 1
        found = self.answers[origin.rpartition(":")[2]]
        if found is None:
            raise ConnectionError("connection refused")
        if found == "silence":
            await asyncio.Event().wait()
        return Response(200, {}, found if isinstance(found, bytes) else msgspec.json.encode(found))


@pytest.fixture
def agents() -> Agents:
    return Agents()


@pytest.fixture
async def api(agents: Agents, api: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(metrics, "_ANSWER_SECONDS", 0.05)
    api.server = ApiServer(
        MemoryStore(),
        config=ServerConfig(),
        clock=SystemClock(),
        random=Random(1),
        authenticator=InsecureAuthenticator(),
        dialer=agents,
    )
    await api.server.start()
    return api


async def make_node(api: Any, agents: Agents, name: str, port: int, answer: Any) -> None:
    status = {
        "addresses": [{"type": "InternalIP", "address": "10.0.0.5"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    metadata = {"name": name, "labels": {"zone": name}}
    await api.ok("POST", "/api/v1/nodes", {"metadata": metadata, "status": status})
    agents.answers[str(port)] = answer


async def make_pod(api: Any, name: str, node: str, app: str = "web") -> str:
    spec = {"containers": [{"name": "main", "image": "b"}]}
    metadata = {"name": name, "labels": {"app": app}}
    made = await api.ok("POST", PODS, {"metadata": metadata, "spec": spec})
    await api.ok("POST", f"{PODS}/{name}/binding", {"target": {"name": node}})
    uid: str = made["metadata"]["uid"]
    return uid


def use(nanocores: int, bytes_: int) -> Any:
    return {
        "cpu": {"time": STAMP, "usageNanoCores": nanocores},
        "memory": {"time": STAMP, "workingSetBytes": bytes_},
    }


def summary(pods: dict[str, Any]) -> Any:
    """What an agent says of the pods with these UIDs."""
    entries = [
        {"podRef": {"uid": uid}, "containers": [{"name": "main"} | figures]}
        for uid, figures in pods.items()
    ]
    return {"node": use(1_500_000_000, 2 << 30), "pods": entries, "windowSeconds": 10.5}


async def test_nodes_and_pods_are_told_as_upstream_does(api: Any, agents: Agents) -> None:
    await make_node(api, agents, "n1", 1, None)
    uid = await make_pod(api, "p", "n1")
    agents.answers["1"] = summary({uid: use(250_000_001, 64 << 20)})
    (node,) = (await api.ok("GET", f"{METRICS}/nodes"))["items"]
    assert node == {
        "kind": "NodeMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": "n1", "labels": {"zone": "n1"}, "creationTimestamp": STAMP},
        "timestamp": STAMP,
        "window": "10.5s",
        "usage": {"cpu": "1500m", "memory": "2Gi"},
    }
    pod = await api.ok("GET", f"{METRICS}/namespaces/default/pods/p")
    assert pod["metadata"]["namespace"] == "default"
    usage = {"cpu": "250000001n", "memory": "64Mi"}
    assert pod["containers"] == [{"name": "main", "usage": usage}]
    assert agents.asked == 1, "an answer is kept for a moment"


async def test_a_list_is_selected_like_the_pods_themselves(api: Any, agents: Agents) -> None:
    await make_node(api, agents, "n1", 1, None)
    uids = {await make_pod(api, name, "n1", app=name): use(1, 1) for name in ("a", "b", "c")}
    uids.popitem()  # c has not been measured
    agents.answers["1"] = summary(uids)

    async def names(query: str = "") -> list[str]:
        listed = await api.ok("GET", f"{METRICS}/pods{query}")
        assert listed["kind"] == "PodMetricsList"
        return [item["metadata"]["name"] for item in listed["items"]]

    assert await names() == ["a", "b"]
    assert await names("?labelSelector=app%3Db") == ["b"]
    assert await names("?fieldSelector=metadata.name%3Da") == ["a"]
    other = await api.ok("GET", f"{METRICS}/namespaces/other/pods")
    assert other["items"] == []


@pytest.mark.parametrize("answer", [None, "silence", b"{}", b"no JSON"])
async def test_a_node_that_does_not_answer_is_left_out(
    api: Any, agents: Agents, answer: Any
) -> None:
    await make_node(api, agents, "good", 1, summary({}))
    await make_node(api, agents, "bad", 2, answer)
    await api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "new"}})
    listed = await api.ok("GET", f"{METRICS}/nodes")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["good"]
    status = await api.fails(404, "GET", f"{METRICS}/nodes/bad")
    assert status["message"] == 'nodemetrics.metrics.k8s.io "bad" not found'
    assert agents.asked == 2, "silence is kept for a moment too"


async def test_who_asks_at_the_same_time_shares_the_answer(api: Any, agents: Agents) -> None:
    await make_node(api, agents, "n1", 1, summary({}))
    await asyncio.gather(*(api.ok("GET", f"{METRICS}/nodes") for _ in range(5)))
    assert agents.asked == 1


async def test_what_is_not_there_is_not_found(api: Any, agents: Agents) -> None:
    await make_node(api, agents, "n1", 1, summary({}))
    await make_pod(api, "p", "n1")
    status = await api.fails(404, "GET", f"{METRICS}/namespaces/default/pods/none")
    assert status["message"] == 'pods "none" not found'
    status = await api.fails(404, "GET", f"{METRICS}/namespaces/default/pods/p")
    assert status["message"] == 'podmetrics.metrics.k8s.io "default/p" not found'
    await api.fails(405, "POST", f"{METRICS}/nodes", {})
    await api.fails(405, "GET", f"{METRICS}/nodes?watch=true")


async def test_a_table_has_the_columns_of_upstream(api: Any, agents: Agents) -> None:
    await make_node(api, agents, "n1", 1, summary({}))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = (await api.ask("GET", f"{METRICS}/nodes", accept=accept)).json
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns[:4] == ["Name", "cpu", "memory", "Window"]
    assert table["rows"][0]["cells"][:4] == ["n1", "1500m", "2Gi", "10.5s"]


async def test_it_is_listed_only_by_a_server_that_reaches_agents(
    api: Any, late: Any, agents: Agents
) -> None:
    def groups(document: Any) -> set[str]:
        return {group["name"] for group in document["groups"]}

    assert "metrics.k8s.io" in groups(await api.ok("GET", "/apis"))
    assert "metrics.k8s.io" not in groups(await late.ok("GET", "/apis"))
    await late.fails(404, "GET", f"{METRICS}/nodes")
