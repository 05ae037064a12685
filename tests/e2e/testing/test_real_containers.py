"""An embedded cluster with real containers: they run, and nothing of them is left."""

import http.client
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.testing import Cluster
from shepherd.testing.program import BIN, eventually
from shepherd.testing.rest import Rest, pod

ROOT = Path(__file__).parents[3]
IMAGE = "shepherd.local/demo:1"


def load(cluster: Cluster, node: str = "n1") -> None:
    """Give a node the image."""
    archive = ROOT / "build" / "demo-image.tar"
    tls = cluster.settings.context.ssl_context()
    connection = http.client.HTTPSConnection(cluster.settings.url[8:], context=tls, timeout=60)
    with archive.open("rb") as file:
        connection.request("POST", f"/api/v1/nodes/{node}/proxy/images/load", file)
    assert connection.getresponse().status == 200
    connection.close()


def run_pod(cluster: Cluster, name: str, node: str) -> None:
    """Return once it is ready."""
    rest, body = Rest(cluster.settings), pod(name)
    body["metadata"]["labels"] = {"app": "web"}
    body["spec"]["nodeName"] = node
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    body["spec"]["containers"][0] |= {"image": IMAGE, "readinessProbe": probe}
    rest.ask("POST", "pods", body)
    rest.until(f"pods/{name}", lambda found: found["status"]["containerStatuses"][0]["ready"])


def fetch(cluster: Cluster, name: str, address: str) -> str:
    """What a pod gets from an address."""
    kubectl = str(BIN / "kubectl")
    command = [kubectl, "exec", name, "--", "wget", "-q", "-O", "-", f"http://{address}/"]
    environment = os.environ | cluster.settings.environment
    return subprocess.check_output(command, env=environment, text=True, timeout=30)


@pytest.fixture
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    links = subprocess.run(
        ["ip", "-brief", "link"], capture_output=True, text=True, check=True
    ).stdout
    assert "shep" not in links


@pytest.mark.usefixtures("network_namespace", "nothing_is_left")
def test_a_real_pod_answers_and_is_gone_with_its_cluster() -> None:
    with Cluster(runtime="oci") as cluster:
        load(cluster)
        run_pod(cluster, "web", "n1")
        assert Rest(cluster.settings).text("pods/web:8080/proxy/") == "web\n"


@pytest.mark.usefixtures("network_namespace", "nothing_is_left")
def test_clusters_of_several_real_nodes_stand_side_by_side() -> None:
    with Cluster(nodes=2, runtime="oci") as one, Cluster(nodes=2, runtime="oci") as other:
        for cluster in (one, other):
            for node in cluster.nodes.names:
                load(cluster, node)
                run_pod(cluster, f"on-{node}", node)
            rest = Rest(cluster.settings)
            there = rest.get("pods/on-n2")["status"]["podIP"]
            assert fetch(cluster, "on-n1", f"{there}:8080") == "on-n2\n"
            ports = {"ports": [{"port": 80, "targetPort": 8080}]}
            service = {"metadata": {"name": "web"}, "spec": ports | {"selector": {"app": "web"}}}
            address = rest.ask("POST", "services", service)["spec"]["clusterIP"]
            rest.until("endpoints/web", lambda found: len(found["subsets"][0]["addresses"]) == 2)
            for name in ("on-n1", "on-n2"):
                eventually(lambda: fetch(cluster, "on-n2", address) == f"{name}\n")  # noqa: B023


@pytest.mark.usefixtures("network_namespace", "nothing_is_left")
def test_real_nodes_are_lost_and_their_agents_restarted() -> None:
    with Cluster(nodes=2, runtime="oci") as cluster:
        rest = Rest(cluster.settings)
        for node in cluster.nodes.names:
            load(cluster, node)
            run_pod(cluster, f"on-{node}", node)
        begun = rest.get("pods/on-n1")["status"]["containerStatuses"][0]
        cluster.nodes.stop("n1")
        cluster.nodes.lose("n2")
        cluster.nodes.add("n1")
        assert rest.text("pods/on-n1:8080/proxy/") == "on-n1\n"
        assert rest.get("pods/on-n1")["status"]["containerStatuses"][0] == begun
        cluster.nodes.stop("n1")
