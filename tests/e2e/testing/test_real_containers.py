"""An embedded cluster with real containers: they run, and nothing of them is left."""

import http.client
import subprocess
import tempfile
from pathlib import Path

import pytest

from shepherd.testing import Cluster
from shepherd.testing.rest import Rest, pod

ROOT = Path(__file__).parents[3]
IMAGE = "shepherd.local/demo:1"


def load(cluster: Cluster, archive: Path) -> None:
    """Give the node an image."""
    tls = cluster.settings.context.ssl_context()
    connection = http.client.HTTPSConnection(cluster.settings.url[8:], context=tls, timeout=60)
    with archive.open("rb") as file:
        connection.request("POST", "/api/v1/nodes/n1/proxy/images/load", file)
    assert connection.getresponse().status == 200
    connection.close()


def test_a_real_pod_answers_and_is_gone_with_its_cluster(
    network_namespace: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Cluster(runtime="oci") as cluster:
        load(cluster, ROOT / "build" / "demo-image.tar")
        rest = Rest(cluster.settings)
        body = pod("web")
        probe = {"httpGet": {"port": 8080}}
        body["spec"]["containers"][0] |= {"image": IMAGE, "readinessProbe": probe}
        rest.ask("POST", "pods", body)
        rest.until("pods/web", lambda found: found["status"]["containerStatuses"][0]["ready"])
        assert rest.text("pods/web:8080/proxy/") == "web\n"
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    links = subprocess.run(
        ["ip", "-brief", "link"], capture_output=True, text=True, check=True
    ).stdout
    assert "sheep" not in links
