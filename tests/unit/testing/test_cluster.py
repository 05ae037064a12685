"""An embedded cluster is a whole one, and leaves nothing behind."""

import asyncio
import http.client
import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shepherd.api.kinds import NODE, POD
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.testing import AsyncCluster, Cluster
from shepherd.testing.rest import Rest, is_gone, is_running, pod

APPS = "/apis/apps/v1/namespaces/default"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


@pytest.fixture
def rest(cluster: Cluster) -> Rest:
    return Rest(cluster.settings)


def deployment(replicas: int) -> Any:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("")["spec"]}
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


def available(count: int) -> Any:
    return lambda found: found["status"]["availableReplicas"] == count


def test_all_nodes_are_ready_when_it_is(rest: Rest) -> None:
    nodes = rest.get("/api/v1/nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["n1", "n2"]
    for node in nodes:
        ready = {c["type"]: c["status"] for c in node["status"]["conditions"]}
        assert ready == {
            "MemoryPressure": "False",
            "DiskPressure": "False",
            "PIDPressure": "False",
            "Ready": "True",
        }


def test_pods_run_as_their_scripts_say(rest: Rest) -> None:
    rest.ask("POST", "pods", pod("job", "echo one; echo two; exit 3", restartPolicy="Never"))
    ended = rest.until("pods/job", lambda found: found["status"]["phase"] == "Failed")
    state = ended["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 3
    assert rest.text("pods/job/log") == "one\ntwo\n"


def test_deletion_cascades_in_the_foreground_and_with_the_namespace(rest: Rest) -> None:
    """kubernetes-sigs/controller-runtime#1528, #880, #1459: in a test API nothing was collected."""
    rest.ask("POST", f"{APPS}/deployments", deployment(3))
    rest.until(f"{APPS}/deployments/web", available(3))
    options = {"propagationPolicy": "Foreground"}
    rest.ask("DELETE", f"{APPS}/deployments/web", options)
    rest.until(f"{APPS}/deployments/web", is_gone)
    assert rest.get(f"{APPS}/replicasets")["items"] == []
    assert rest.get("pods")["items"] == []

    rest.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    rest.ask("POST", "/api/v1/namespaces/other/pods", pod("web"))
    rest.until("/api/v1/namespaces/other/pods/web", is_running)
    rest.ask("DELETE", "/api/v1/namespaces/other")
    rest.until("/api/v1/namespaces/other", is_gone)
    assert is_gone(rest.get("/api/v1/namespaces/other/pods/web"))


def test_a_restarted_server_has_what_it_had(cluster: Cluster, rest: Rest) -> None:
    rest.ask("POST", "pods", pod("web"))
    rest.until("pods/web", is_running)
    events = rest.watch("pods")
    assert next(events)["object"]["metadata"]["name"] == "web"
    cluster.restart_server()
    with pytest.raises((http.client.HTTPException, OSError)):
        list(events)
    assert is_running(rest.get("pods/web"))


def test_with_tls_clients_prove_who_they_are() -> None:
    with Cluster(tls=True) as cluster:
        settings = cluster.settings
        assert settings.url.startswith("https://")
        assert Rest(settings).get("/api/v1/nodes")["kind"] == "NodeList"
        nobody = replace(settings, context=replace(settings.context, certificate="", key=""))
        assert Rest(nobody).get("/api/v1/nodes")["code"] == 401


def test_without_tls_a_token_that_is_shown_counts(cluster: Cluster, rest: Rest) -> None:
    assert rest.get("/api/v1/nodes")["kind"] == "NodeList"
    assert Rest(cluster.settings, token="nobody's").get("/api/v1/nodes")["code"] == 401


def leftovers() -> tuple[int, int, int]:
    """Threads, open files and sockets, and what lies in the directory for temporary files."""
    fds = Path("/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd")
    files = list(Path(tempfile.gettempdir()).glob("shepherd-*"))
    return threading.active_count(), len(os.listdir(fds)), len(files)


def test_many_at_once_do_not_meet_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def live(name: str) -> list[str]:
        with Cluster(tls=name == "p1") as cluster:
            rest = Rest(cluster.settings)
            rest.ask("POST", "pods", pod(name))
            rest.until(f"pods/{name}", is_running)
            return [found["metadata"]["name"] for found in rest.get("pods")["items"]]

    live("warm")  # what a process opens once, it keeps
    before = leftovers()
    names = [f"p{number}" for number in range(4)]
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(live, names)) == [[name] for name in names]
    assert leftovers() == before
    assert list(tmp_path.iterdir()) == []


async def test_the_asynchronous_twin_leaves_no_task() -> None:
    async with AsyncCluster(nodes=2) as cluster:
        client = Client(HttpTransport(cluster.settings.url))
        await cluster.nodes.add("n3")
        assert len((await client.list(NODE)).items) == 3
        await cluster.clock.advance(3600.0)
        await client.create(POD, pod("web"), "default")
        await client.transport.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_test_that_fails_says_so_itself() -> None:
    with pytest.raises(ZeroDivisionError), Cluster():
        raise ZeroDivisionError


def test_impossible_wishes_are_refused() -> None:
    with pytest.raises(ValueError, match="choose one of hollow, oci"):
        Cluster(runtime="docker")


def test_settings_are_those_of_the_libraries(cluster: Cluster) -> None:
    settings = cluster.settings
    assert settings.kubeconfig == cluster.kubeconfig
    assert settings.environment == {"KUBECONFIG": str(cluster.kubeconfig)}
    assert settings.httpx["base_url"] == settings.url
    assert settings.kr8s == {"kubeconfig": str(cluster.kubeconfig), "namespace": "default"}
    assert settings.kubernetes == {"config_file": str(cluster.kubeconfig)}


def test_the_nodes_tell_what_is_used(cluster: Cluster, rest: Rest) -> None:
    busy = pod("busy")
    busy["metadata"]["annotations"] = {"shepherd.dev/hollow-cpu": "250m"}
    rest.ask("POST", "pods", busy)
    rest.until("pods/busy", is_running)
    metrics = "/apis/metrics.k8s.io/v1beta1"
    (measured,) = rest.get(f"{metrics}/namespaces/default/pods")["items"]
    assert measured["containers"][0]["usage"]["memory"] == "1Mi"
    nodes = rest.get(f"{metrics}/nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["n1", "n2"]


def test_an_operators_roles_can_be_tried_by_acting_as_its_account(
    cluster: Cluster, rest: Rest
) -> None:
    """As docs/testing-operators.md says."""
    me = {"Impersonate-User": "system:serviceaccount:default:gardener"}

    def status(path: str) -> int:
        connection = http.client.HTTPConnection(cluster.settings.url.removeprefix("http://"))
        connection.request("GET", path, headers=me)
        code = connection.getresponse().status
        connection.close()
        return code

    pods = "/api/v1/namespaces/default/pods"
    assert status(pods) == 403
    reference = {"kind": "ClusterRole", "name": "view"}
    subject = {"kind": "ServiceAccount", "name": "gardener"}
    binding = {"metadata": {"name": "g"}, "roleRef": reference, "subjects": [subject]}
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    rest.ask("POST", roles, binding)
    assert (status(pods), status("/api/v1/nodes")) == (200, 403)
