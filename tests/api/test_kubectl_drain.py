"""kubectl drain empties a node, as fast as disruption budgets let it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.testing import Cluster

NODE_NAMES = "jsonpath={.items[*].spec.nodeName}"
KUBECTL = str(Path(sys.executable).parent / "kubectl")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


def kubectl(cluster: Cluster, *arguments: str, code: int = 0) -> str:
    """What kubectl prints on both of its outputs."""
    home = {"HOME": str(cluster.kubeconfig.parent)}
    environment = os.environ | cluster.settings.environment | home
    command = [KUBECTL, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_node_is_drained_unless_a_budget_forbids_it(cluster: Cluster, tmp_path: Path) -> None:
    kubectl(cluster, "create", "deployment", "web", "--image=web:1", "--replicas=2")
    kubectl(cluster, "rollout", "status", "deployment", "web")
    kubectl(cluster, "create", "pdb", "web", "--selector=app=web", "--min-available=2")
    kubectl(cluster, "wait", "pdb", "web", "--for=jsonpath={.status.currentHealthy}=2")
    nodes = kubectl(cluster, "get", "pods", "-o", NODE_NAMES).split()
    pod = kubectl(cluster, "get", "pods", "-o", "jsonpath={.items[0].metadata.name}")
    eviction = tmp_path / "eviction.json"
    eviction.write_text(
        json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})
    )
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    # What `drain` does, which would try again after five seconds.
    refused = kubectl(cluster, "create", "--raw", path, "-f", str(eviction), code=1)
    assert (
        "Cannot evict pod as it would violate the pod's disruption budget. "
        "The disruption budget web needs 2 healthy pods and has 2 currently"
    ) in refused
    kubectl(cluster, "patch", "pdb", "web", "--type=merge", "-p", '{"spec":{"minAvailable":1}}')
    assert f"node/{nodes[0]} drained" in kubectl(cluster, "drain", nodes[0], "--timeout=50s")
    left = kubectl(cluster, "get", "pods", "-o", NODE_NAMES).split()
    assert nodes[0] not in left
