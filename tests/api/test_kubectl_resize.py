"""kubectl gives a pod other resources."""

import json
from typing import Any

import pytest

pytestmark = pytest.mark.parametrize("served", ["plain"], indirect=True)

SMALL = {"cpu": "100m", "memory": "64Mi"}
LARGE = {"cpu": "200m", "memory": "128Mi"}


def _pod(**resources: Any) -> str:
    container = {"name": "web", "image": "nginx", "resources": resources}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
    return json.dumps(pod | {"spec": {"containers": [container]}})


def _patch(**resources: Any) -> str:
    return json.dumps({"spec": {"containers": [{"name": "web", "resources": resources}]}})


async def _get(served: Any) -> Any:
    return json.loads(
        await served.kubectl("get", "pod", "web", "-o", "json", "--show-managed-fields")
    )


async def test_patch(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "-f", "-", stdin=_pod(requests=SMALL, limits=SMALL))
    refused = await kubectl("patch", "pod", "web", "-p", _patch(limits=LARGE), code=1)
    assert "pod updates may not change fields other than" in refused
    patch = _patch(requests=LARGE, limits=LARGE)
    await kubectl("patch", "pod", "web", "--subresource", "resize", "-p", patch)
    pod = await _get(served)
    assert pod["spec"]["containers"][0]["resources"] == {"requests": LARGE, "limits": LARGE}
    assert pod["metadata"]["generation"] == 2
    (entry,) = (e for e in pod["metadata"]["managedFields"] if e.get("subresource") == "resize")
    assert (entry["manager"], entry["operation"]) == ("kubectl-patch", "Update")
    refused = await kubectl(
        "patch", "pod", "web", "--subresource", "resize", "-p", _patch(requests=SMALL), code=1
    )
    assert "Pod QOS Class may not change as a result of resizing" in refused


async def test_edit_and_apply(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = served.kubectl
    await kubectl("create", "-f", "-", stdin=_pod(requests=SMALL, limits=LARGE))
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/200m/300m/")
    await kubectl("edit", "pod", "web", "--subresource", "resize")
    limits = (await _get(served))["spec"]["containers"][0]["resources"]["limits"]
    assert limits == LARGE | {"cpu": "300m"}
    config = _pod(limits=LARGE | {"cpu": "400m"})
    await kubectl(
        "apply", "-f", "-", "--server-side", "--subresource", "resize", "--force-conflicts",
        stdin=config,
    )  # fmt: skip
    limits = (await _get(served))["spec"]["containers"][0]["resources"]["limits"]
    assert limits["cpu"] == "400m"


async def test_discovery_lists_it(served: Any) -> None:
    found = json.loads(await served.kubectl("get", "--raw", "/api/v1"))
    (resize,) = (one for one in found["resources"] if one["name"] == "pods/resize")
    assert resize["kind"] == "Pod"
    assert set(resize["verbs"]) == {"get", "patch", "update"}
    paths = json.loads(await served.kubectl("get", "--raw", "/openapi/v3/api/v1"))["paths"]
    path = paths["/api/v1/namespaces/{namespace}/pods/{name}/resize"]
    assert {"get", "put", "patch"} <= path.keys()
