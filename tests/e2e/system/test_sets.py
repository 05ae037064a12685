"""A StatefulSet behind a headless Service, and a DaemonSet, in real containers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shepherd.testing.program import Program, eventually

CONTAINER = {
    "name": "main",
    "image": "shepherd.local/demo:1",
    "ports": [{"containerPort": 8080}],
    "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
}


def workload(kind: str, name: str, pod: dict[str, Any] | None = None, **spec: Any) -> Any:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [CONTAINER], "terminationGracePeriodSeconds": 1} | (pod or {}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template} | spec,
    }


def service(name: str) -> Any:
    spec = {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def apply(cluster: Program, tmp_path: Path) -> Iterator[Any]:
    """Apply objects; they are deleted at the end."""
    files: list[str] = []

    def applied(*objects: Any) -> None:
        path = tmp_path / f"{len(files)}.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        files.append(str(path))
        cluster.kubectl("apply", "-f", str(path))

    yield applied
    for path in files:
        cluster.kubectl("delete", "-f", path, "--ignore-not-found")
    eventually(lambda: not cluster.get("pods")["items"], what="pods gone")


def answer(cluster: Program, pod: Any) -> str:
    address = pod["status"]["podIP"]
    return cluster.run("curl", "-s", "-m", "5", f"http://{address}:8080/").strip()


def by_name(cluster: Program, selector: str) -> dict[str, Any]:
    pods = cluster.get("pods", "-l", selector)["items"]
    return {pod["metadata"]["name"]: pod for pod in pods}


def containers(pods: dict[str, Any]) -> dict[str, str]:
    return {
        name: pod["status"]["containerStatuses"][0]["containerID"] for name, pod in pods.items()
    }


def test_a_stateful_set_has_names_that_outlive_its_containers(cluster: Program, apply: Any) -> None:
    apply(service("db"), workload("StatefulSet", "db", replicas=3, serviceName="db"))
    cluster.kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    pods = by_name(cluster, "app=db")
    assert {name: answer(cluster, pod) for name, pod in pods.items()} == {
        name: name for name in ("db-0", "db-1", "db-2")
    }
    slices = cluster.get("endpointslices", "-l", "kubernetes.io/service-name=db")["items"]
    endpoints = [endpoint for item in slices for endpoint in item["endpoints"]]
    assert {e["hostname"]: e["addresses"] for e in endpoints} == {
        name: [pod["status"]["podIP"]] for name, pod in pods.items()
    }
    before = containers(pods)
    cluster.kubectl("delete", "pod", "db-1")
    cluster.kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    after = containers(by_name(cluster, "app=db"))
    assert {name for name in before if before[name] != after[name]} == {"db-1"}


def test_an_update_goes_on_after_kill_9_and_starts_no_second_copy(
    cluster: Program, apply: Any
) -> None:
    apply(service("db"), workload("StatefulSet", "db", replicas=2, serviceName="db"))
    cluster.kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    before = containers(by_name(cluster, "app=db"))
    cluster.kubectl("set", "env", "statefulset/db", "COLOUR=blue")
    eventually(
        lambda: containers(by_name(cluster, "app=db"))["db-1"] != before["db-1"],
        what="the last pod is replaced",
    )
    cluster.kill()
    cluster.start().wait_ready()
    cluster.kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    pods = by_name(cluster, "app=db")
    assert all(pod["status"]["containerStatuses"][0]["restartCount"] == 0 for pod in pods.values())
    for name in pods:
        assert "COLOUR=blue" in cluster.kubectl("exec", name, "--", "env")


def test_a_claim_is_made_and_what_waits_for_its_volume_says_so(
    cluster: Program, apply: Any
) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    apply(workload("StatefulSet", "db", replicas=1, volumeClaimTemplates=[claim]))
    assert eventually(lambda: cluster.get("pvc", "data-db-0"), what="the claim")

    def told() -> bool:
        events = cluster.get("events")["items"]
        return any(
            event["involvedObject"]["name"] == "db-0"
            and 'the kind of volume "data" is not supported' in event["message"]
            for event in events
        )

    eventually(told, what="the event")
    assert cluster.get("pod", "db-0")["status"]["phase"] == "Pending"
    cluster.kubectl("delete", "pvc", "--all")


def test_a_daemon_runs_on_a_node_that_takes_no_other_pods(cluster: Program, apply: Any) -> None:
    [node] = [item["metadata"]["name"] for item in cluster.get("nodes")["items"]]
    cluster.kubectl("cordon", node)
    try:
        apply(workload("DaemonSet", "agent"))
        cluster.kubectl("rollout", "status", "daemonset/agent", "--timeout=60s")
        [(name, pod)] = by_name(cluster, "app=agent").items()
        assert (answer(cluster, pod), pod["spec"]["nodeName"]) == (name, node)
        cluster.kubectl("rollout", "restart", "daemonset/agent")
        cluster.kubectl("rollout", "status", "daemonset/agent", "--timeout=60s")
        [again] = by_name(cluster, "app=agent").values()
        assert again["metadata"]["uid"] != pod["metadata"]["uid"]
    finally:
        cluster.kubectl("uncordon", node)
