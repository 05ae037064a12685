"""kubectl drain empties a node, as fast as disruption budgets let it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shepherd.testing import Cluster

NODE_NAMES = "jsonpath={.items[*].spec.nodeName}"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


def test_a_node_is_drained_unless_a_budget_forbids_it(kubectl: Any, tmp_path: Path) -> None:
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2")
    kubectl("rollout", "status", "deployment", "web")
    kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=2")
    kubectl("wait", "pdb", "web", "--for=jsonpath={.status.currentHealthy}=2")
    nodes = kubectl("get", "pods", "-o", NODE_NAMES).split()
    pod = kubectl("get", "pods", "-o", "jsonpath={.items[0].metadata.name}")
    eviction = tmp_path / "eviction.json"
    eviction.write_text(
        json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})
    )
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    # What `drain` does, which would try again after five seconds.
    refused = kubectl("create", "--raw", path, "-f", str(eviction), code=1)
    assert (
        "Cannot evict pod as it would violate the pod's disruption budget. "
        "The disruption budget web needs 2 healthy pods and has 2 currently"
    ) in refused
    kubectl("patch", "pdb", "web", "--type=merge", "-p", '{"spec":{"minAvailable":1}}')
    assert f"node/{nodes[0]} drained" in kubectl("drain", nodes[0], "--timeout=50s")
    left = kubectl("get", "pods", "-o", NODE_NAMES).split()
    assert nodes[0] not in left
