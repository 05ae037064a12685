"""kubectl works with StatefulSets, DaemonSets and ReplicationControllers as on any cluster."""

from collections.abc import Iterator
from typing import Any

import pytest

from shepherd.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nothing_is_left(kubectl: Any) -> Iterator[None]:
    yield
    kubectl("delete", "statefulset,daemonset,rc,controllerrevision,pod,pvc", "--all")


def manifest(kind: str, image: str = "demo:1", **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    containers = [{"name": "web", "image": image}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template} | spec,
    }


@pytest.mark.parametrize(
    ("kind", "what", "spec"),
    [
        ("StatefulSet", "statefulset.apps/web", {"replicas": 2}),
        ("DaemonSet", "daemonset.apps/web", {}),
    ],
)
def test_a_rollout_is_followed_listed_undone_and_restarted(
    kubectl: Any, kind: str, what: str, spec: dict[str, Any]
) -> None:
    assert kubectl.apply(manifest(kind, **spec)) == f"{what} created\n"
    done = "roll out complete" if kind == "StatefulSet" else "successfully rolled out"
    assert done in kubectl("rollout", "status", what, "--timeout=30s")
    second = manifest(kind, "demo:2", **spec)
    second["metadata"]["annotations"] = {"kubernetes.io/change-cause": "two is better"}
    kubectl.apply(second)
    assert done in kubectl("rollout", "status", what, "--timeout=30s")
    history = kubectl("rollout", "history", what).splitlines()
    assert [line.split(maxsplit=1) for line in history[2:4]] == [
        ["1", "<none>"],
        ["2", "two is better"],
    ]
    assert "demo:1" in kubectl("rollout", "history", what, "--revision=1")
    assert f"{what} rolled back" in kubectl("rollout", "undo", what)
    kubectl("rollout", "status", what, "--timeout=30s")
    assert kubectl.of_pods("spec.containers[0].image") == {"demo:1"}
    again = kubectl("rollout", "undo", what, "--to-revision=3")
    assert "skipped rollback (current template already matches revision 3)" in again
    before = kubectl.of_pods("metadata.uid")
    assert f"{what} restarted" in kubectl("rollout", "restart", what)
    assert done in kubectl("rollout", "status", what, "--timeout=30s")
    after = kubectl.of_pods("metadata.uid")
    assert not before & after
    kubectl("delete", what, "--cascade=orphan")
    assert kubectl.of_pods("metadata.uid") == after


def test_a_stateful_set_is_shown_scaled_and_waited_for(kubectl: Any) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    created = kubectl.apply(manifest("StatefulSet", replicas=0, volumeClaimTemplates=[claim]))
    assert "Warning: spec.volumeClaimTemplates: " in created
    kubectl("scale", "statefulset/web", "--replicas=1")
    kubectl("wait", "statefulset/web", "--for=jsonpath={.status.replicas}=1", "--timeout=20s")
    kubectl("wait", "pod/web-0", "--for=create", "--timeout=20s")
    assert kubectl.names("pvc") == ["persistentvolumeclaim/data-web-0"]
    shown = kubectl("describe", "statefulset", "web")
    assert "1 desired | 1 total" in shown
    kubectl("wait", "pod/web-0", "--for=condition=PodScheduled", "--timeout=20s")
    kubectl("scale", "statefulset/web", "--replicas=0")
    kubectl("wait", "pod/web-0", "--for=delete", "--timeout=20s")
    assert kubectl.names("pvc") == ["persistentvolumeclaim/data-web-0"]


def test_a_daemon_set_counts_its_nodes(kubectl: Any) -> None:
    kubectl.apply(manifest("DaemonSet"))
    kubectl("rollout", "status", "daemonset/web", "--timeout=30s")
    row = kubectl("get", "daemonset", "web", "--no-headers").split()
    assert row[:7] == ["web", "3", "3", "3", "3", "3", "<none>"]
    nodes = {name.removeprefix("node/") for name in kubectl.names("nodes")}
    assert kubectl.of_pods("spec.nodeName") == nodes
    assert "Number of Nodes Misscheduled: 0" in kubectl("describe", "daemonset", "web")


def test_a_replication_controller_is_scaled(kubectl: Any) -> None:
    body = manifest("ReplicationController", replicas=2) | {"apiVersion": "v1"}
    body["spec"]["selector"] = {"app": "web"}
    assert kubectl.apply(body) == "replicationcontroller/web created\n"
    kubectl("wait", "rc/web", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=20s")
    kubectl("scale", "rc/web", "--replicas=1")
    kubectl("wait", "rc/web", "--for=jsonpath={.status.replicas}=1", "--timeout=20s")
    assert kubectl("get", "rc", "web", "--no-headers").split()[:4] == ["web", "1", "1", "1"]
