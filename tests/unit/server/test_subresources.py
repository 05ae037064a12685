"""status, scale, binding, finalize: each changes its part and nothing else."""

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = {"content_type": "application/merge-patch+json"}
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD["spec"]},
    },
}


async def test_main_writes_keep_the_status_and_status_writes_change_nothing_else(api: Any) -> None:
    created = await api.ok("POST", DEPLOYMENTS, DEPLOYMENT | {"status": {"replicas": 9}})
    assert created["status"].get("replicas") != 9
    patch = {"spec": {"replicas": 7}, "status": {"replicas": 2, "observedGeneration": 1}}
    after = await api.ok("PATCH", f"{DEPLOYMENTS}/web/status", patch, **MERGE)
    assert after["status"]["replicas"] == 2
    assert after["spec"]["replicas"] == 2
    assert after["metadata"]["generation"] == 1
    after = await api.ok("PATCH", f"{DEPLOYMENTS}/web", patch, **MERGE)
    assert after["spec"]["replicas"] == 7
    assert after["metadata"]["generation"] == 2
    assert after["status"]["replicas"] == 2


async def test_scale_reads_and_writes_the_replicas(api: Any) -> None:
    await api.ok("POST", DEPLOYMENTS, DEPLOYMENT)
    scale = await api.ok("GET", f"{DEPLOYMENTS}/web/scale")
    assert scale["kind"] == "Scale"
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"]["selector"] == "app=web"
    scale["spec"]["replicas"] = 5
    assert (await api.ok("PUT", f"{DEPLOYMENTS}/web/scale", scale))["spec"]["replicas"] == 5
    await api.fails(409, "PUT", f"{DEPLOYMENTS}/web/scale", scale)
    patch = {"spec": {"replicas": 0}}
    await api.ok("PATCH", f"{DEPLOYMENTS}/web/scale", patch, **MERGE)
    assert (await api.ok("GET", f"{DEPLOYMENTS}/web"))["spec"]["replicas"] == 0
    status = await api.fails(
        422, "PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": -1}}, **MERGE
    )
    assert status["details"]["causes"][0]["field"] == "spec.replicas"


async def test_a_pod_is_bound_once(api: Any) -> None:
    await api.ok("POST", PODS, POD)
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    await api.ok("POST", f"{PODS}/p/binding", binding)
    pod = await api.ok("GET", f"{PODS}/p")
    assert pod["spec"]["nodeName"] == "n1"
    conditions = {c["type"]: c["status"] for c in pod["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"
    status = await api.fails(409, "POST", f"{PODS}/p/binding", binding)
    assert 'already assigned to node "n1"' in status["message"]
    await api.fails(404, "POST", f"{PODS}/absent/binding", {"target": binding["target"]})


async def test_a_binding_names_the_pod_it_saw(api: Any) -> None:
    await api.ok("POST", PODS, POD)
    binding = {"metadata": {"name": "p", "uid": "other"}, "target": {"name": "n1"}}
    await api.fails(409, "POST", f"{PODS}/p/binding", binding)
    await api.fails(422, "POST", f"{PODS}/p/binding", {"target": {}})


async def test_a_namespace_goes_when_it_is_finalized(api: Any) -> None:
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})
    after = await api.ok("DELETE", "/api/v1/namespaces/gone")
    assert after["status"]["phase"] == "Terminating"
    assert after["metadata"]["deletionTimestamp"]
    pods = "/api/v1/namespaces/gone/pods"
    status = await api.fails(403, "POST", pods, POD)
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    after["spec"]["finalizers"] = []
    await api.ok("PUT", "/api/v1/namespaces/gone/finalize", after)
    await api.fails(404, "GET", "/api/v1/namespaces/gone")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_the_namespaces_of_the_system_stay(api: Any, name: str) -> None:
    status = await api.fails(403, "DELETE", f"/api/v1/namespaces/{name}")
    assert "may not be deleted" in status["message"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/default/configmaps/x/status", 404),
        ("GET", f"{PODS}/p/nothing", 404),
        ("DELETE", f"{PODS}/p/status", 405),
        ("GET", f"{PODS}/p/binding", 405),
    ],
)
async def test_what_a_kind_has_not_is_refused(api: Any, method: str, path: str, code: int) -> None:
    await api.ok("POST", PODS, POD)
    await api.fails(code, method, path)
