"""The installed `sheepctl` against an installed `shepherd`: TLS, files, pipes and exit codes."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.testing.program import BIN, Program, eventually

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "demo:1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""
TUBES = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tubes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: tubes, kind: Tube}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: example.com/v1
kind: Tube
metadata: {name: t1}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A standalone with one simulated node."""
    flags = ["--mode", "standalone", "--runtime", "hollow", "--addr", "127.0.0.1:0"]
    program = Program(tmp_path_factory.mktemp("data"), [*flags, "--node-name", "n1"]).start()
    try:
        program.wait_ready()
        yield program
    finally:
        program.kill()


@pytest.fixture
def web(tmp_path: Path) -> str:
    path = tmp_path / "web.yaml"
    path.write_text(WEB)
    return str(path)


def _ageless(table: str) -> str:
    """A table without ages: a second may have begun between two of them."""
    return re.sub(r" +", " ", re.sub(r"\b\d+s\b", "-", table))


def test_a_rollout_is_followed_to_its_end(cluster: Program, web: str) -> None:
    lines = cluster.sheepctl("apply", "-f", web, "--wait").splitlines()
    assert lines[:2] == ["deployment.apps/web created", "service/web created"]
    assert lines[-1] == 'deployment "web" successfully rolled out'
    pods = json.loads(cluster.sheepctl("get", "pods", "-l", "app=web", "-o", "json"))
    assert [pod["status"]["phase"] for pod in pods["items"]] == ["Running", "Running"]
    assert cluster.sheepctl("apply", "-f", web) == (
        "deployment.apps/web unchanged\nservice/web unchanged\n"
    )
    scaled = cluster.sheepctl("scale", "deployment/web", "--replicas=3", "--wait")
    assert scaled.splitlines()[-1] == 'deployment "web" successfully rolled out'
    assert "3/3" in cluster.sheepctl("get", "deployments")
    wide = ("get", "pods", "-o", "wide")
    assert _ageless(cluster.sheepctl(*wide)) == _ageless(cluster.kubectl(*wide))
    eventually(lambda: "Scheduled" in cluster.sheepctl("events"))
    described = cluster.sheepctl("describe", "deployment/web")
    assert "3 desired, 3 updated, 3 total, 3 available" in described
    cluster.sheepctl("logs", "deployment/web", "--tail=1")
    assert cluster.sheepctl("delete", "-f", web).splitlines() == [
        'deployment.apps "web" deleted from default namespace',
        'service "web" deleted from default namespace',
    ]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_rollout_is_repeated_and_taken_back(cluster: Program, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "set.yaml"
    text = WEB.split("---")[0].replace("Deployment", kind)
    path.write_text(text.replace("  replicas: 2\n", "") if kind == "DaemonSet" else text)
    what = f"{kind.lower()}/web"

    def images() -> list[str]:
        rows = cluster.sheepctl("rollout", "history", what).splitlines()
        return [row.split()[1] for row in rows[1:]]

    try:
        cluster.sheepctl("apply", "-f", str(path), "--wait")
        path.write_text(path.read_text().replace("demo:1", "demo:2"))
        cluster.sheepctl("apply", "-f", str(path), "--wait")
        assert images() == ["demo:1", "demo:2"]
        cluster.sheepctl("rollout", "undo", what, "--wait")
        pods = json.loads(cluster.sheepctl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
        going = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        assert {pod["spec"]["containers"][0]["image"] for pod in going} == {"demo:1"}
        assert images() == ["demo:2", "demo:1"]
        cluster.sheepctl("rollout", "restart", what, "--wait")
        assert images() == ["demo:2", "demo:1", "demo:1"]
    finally:
        cluster.sheepctl("delete", what)


def test_the_cluster_and_its_node(cluster: Program) -> None:
    info = cluster.sheepctl("info")
    assert "https://127.0.0.1:" in info
    assert "1 of 1 ready" in info
    assert "n1" in cluster.sheepctl("nodes")
    cluster.sheepctl("image", "list")


def test_kinds_of_others_are_watched_and_labelled(cluster: Program, tmp_path: Path) -> None:
    path = tmp_path / "tubes.yaml"
    path.write_text(TUBES)
    lines = cluster.sheepctl("apply", "-f", str(path)).splitlines()
    assert lines[-1] == "tube.example.com/t1 created"
    watching = subprocess.Popen(
        [BIN / "sheepctl", "get", "tubes", "--watch", "--show-labels"],
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline().split() == ["NAME", "AGE", "LABELS"]
        assert watching.stdout.readline().split()[::2] == ["t1", "<none>"]
        cluster.sheepctl("label", "tube/t1", "app=a")
        assert watching.stdout.readline().split()[::2] == ["t1", "app=a"]
    finally:
        watching.kill()
        watching.wait()
    wide = ("get", "tubes", "-o", "wide")
    assert _ageless(cluster.sheepctl(*wide)) == _ageless(cluster.kubectl(*wide))
    name = ("get", "tubes", "-o", "jsonpath={.items[*].metadata.name}")
    assert cluster.sheepctl(*name) == cluster.kubectl(*name) == "t1"
    cluster.sheepctl("delete", "crd", "tubes.example.com")


def test_what_is_not_there_is_one_line_and_exit_code_1(cluster: Program) -> None:
    gone = subprocess.run(
        [BIN / "sheepctl", "get", "deployment", "gone"],
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    message = 'sheepctl: deployments.apps "gone" not found in namespace default\n'
    assert (gone.returncode, gone.stdout, gone.stderr) == (1, "", message)


def test_a_pod_that_fits_nowhere_says_why(cluster: Program, tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lost"},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "a", "image": "demo:1"}],
        },
    }
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(pod))
    cluster.sheepctl("apply", "-f", str(path))
    eventually(lambda: "0/1 nodes" in cluster.sheepctl("describe", "pod", "lost"))
    described = cluster.sheepctl("describe", "pod", "lost")
    assert "Why pending:\n  0/1 nodes are available\n" in described
    assert "- 1 node(s) didn't match Pod's node affinity/selector" in described
    cluster.sheepctl("delete", "pod/lost")
