"""What admission adds to pods and namespaces."""

from typing import Any

PODS = "/api/v1/namespaces/default/pods"


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "a", "image": "b"}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers} | spec}


async def test_a_pod_gets_an_account_a_priority_and_tolerations(api: Any) -> None:
    spec = (await api.ok("POST", PODS, pod()))["spec"]
    assert spec["serviceAccountName"] == "default"
    assert spec["priority"] == 0
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    assert spec["tolerations"] == [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for state in ("not-ready", "unreachable")
    ]


async def test_what_a_pod_says_itself_stays(api: Any) -> None:
    own = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    body = pod(tolerations=own, serviceAccountName="mine", priorityClassName="system-node-critical")
    spec = (await api.ok("POST", PODS, body))["spec"]
    assert spec["serviceAccountName"] == "mine"
    assert spec["priority"] == 2_000_001_000
    assert [item["key"] for item in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    everything = pod(tolerations=[{"operator": "Exists"}])
    everything["metadata"]["name"] = "q"
    assert len((await api.ok("POST", PODS, everything))["spec"]["tolerations"]) == 1


async def test_an_unknown_priority_class_is_refused(api: Any) -> None:
    status = await api.fails(403, "POST", PODS, pod(priorityClassName="gold"))
    assert "no PriorityClass with name gold was found" in status["message"]


async def test_warnings_of_a_kind_reach_the_user(api: Any) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}
    answer = await api.ask("POST", "/api/v1/namespaces/default/services", body)
    assert answer.code == 201
    assert answer.headers["warning"].startswith('299 - "spec.type')
    path = "/api/v1/namespaces/default/services/a"
    patch: Any = {"status": {"conditions": []}}
    merge = "application/merge-patch+json"
    for answer in (
        await api.ask("PATCH", f"{path}/status", patch, content_type=merge),
        await api.ask("DELETE", path),
    ):
        assert answer.code == 200
        assert "warning" not in answer.headers


async def test_warnings_stay_within_what_clients_take(api: Any) -> None:
    unknown = {f"field\n{number}{'x' * 500}": 1 for number in range(500)}
    body = {"metadata": {"name": "a"}} | unknown
    answer = await api.ask("POST", "/api/v1/namespaces/default/configmaps", body)
    assert answer.code == 201
    header = answer.headers["warning"]
    assert len(header) < 6000
    assert "\n" not in header
    assert header.endswith('299 - "there are more warnings, which do not fit in here"')


async def test_the_namespaces_of_a_cluster_are_there(api: Any) -> None:
    listed = await api.ok("GET", "/api/v1/namespaces")
    names = {item["metadata"]["name"] for item in listed["items"]}
    assert names == {"default", "kube-system", "kube-public", "kube-node-lease"}
    assert all(item["spec"]["finalizers"] == ["kubernetes"] for item in listed["items"])
    assert all(item["status"]["phase"] == "Active" for item in listed["items"])
