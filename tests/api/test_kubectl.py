"""kubectl 1.37 against the API over a socket: the commands that people type first."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.parametrize("served", ["tls"], indirect=True)
EXAMPLE = str(Path(__file__).parents[2] / "examples" / "web.yaml")


async def test_kubectl_creates_shows_and_deletes(served: Any) -> None:
    kubectl = served.kubectl
    # Bodies of `create` commands are protobuf.
    assert await kubectl("create", "namespace", "shop") == "namespace/shop created\n"
    assert "created" in await kubectl("create", "cm", "settings", "--from-literal=colour=red")
    assert "created" in await kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    await kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2", "--port=80")
    shown = await kubectl("get", "cm", "settings")
    assert shown.split()[:5] == ["NAME", "DATA", "AGE", "settings", "1"]
    wide = await kubectl("get", "deploy", "-o", "wide")
    assert wide.split()[:8] == [
        "NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR",
    ]  # fmt: skip
    assert "app=web" in wide
    assert "colour: red" in await kubectl("get", "cm", "settings", "-o", "yaml")
    names = await kubectl("get", "deploy,secret", "-o", "name")
    assert names.split() == ["deployment.apps/web", "secret/s"]
    assert "created" not in await kubectl("get", "ns", "shop", "-o", "json")
    status = await kubectl("create", "namespace", "shop", code=1)
    assert status == 'Error from server (AlreadyExists): namespaces "shop" already exists\n'
    await kubectl("delete", "cm", "settings", "--wait")
    missing = await kubectl("get", "cm", "settings", code=1)
    assert missing == 'Error from server (NotFound): configmaps "settings" not found\n'


async def test_kubectl_applies_labels_and_scales(served: Any) -> None:
    kubectl = served.kubectl
    first = await kubectl("apply", "-f", EXAMPLE)
    assert first == "deployment.apps/web created\nservice/web created\n"
    assert await kubectl("apply", "-f", EXAMPLE) == (
        "deployment.apps/web unchanged\nservice/web unchanged\n"
    )
    assert await kubectl("label", "deploy", "web", "tier=front") == "deployment.apps/web labeled\n"
    assert await kubectl("scale", "deploy/web", "--replicas=5") == "deployment.apps/web scaled\n"
    deployment = json.loads(await kubectl("get", "deploy", "web", "-o", "json"))
    assert deployment["spec"]["replicas"] == 5
    assert deployment["metadata"]["labels"]["tier"] == "front"
    await kubectl("set", "image", "deploy/web", "web=shepherd.local/demo:2")
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert await kubectl("get", "deploy", "web", "-o", image) == "shepherd.local/demo:2"
    assert "configured" in await kubectl("apply", "-f", EXAMPLE)
    assert await kubectl("get", "deploy", "web", "-o", image) == "shepherd.local/demo:1"
    assert "web" in await kubectl("describe", "deploy", "web")
    deleted = await kubectl("delete", "-f", EXAMPLE)
    assert 'deployment.apps "web" deleted' in deleted


async def test_kubectl_explains_and_lists_what_there_is(served: Any) -> None:
    resources = await served.kubectl("api-resources")
    assert "deployments" in resources
    assert "endpointslices" in resources
    assert "KIND:       Pod" in await served.kubectl("explain", "pod.spec.containers")
    assert "Server Version: v1.37.0+shepherd" in await served.kubectl("version")
    bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ncolour: red\n"
    refused = await served.kubectl("apply", "-f", "-", stdin=bad, code=1)
    assert 'unknown field "colour"' in refused


async def test_kubectl_watches_and_waits(served: Any) -> None:
    watching = await served.start_kubectl("get", "cm", "-w", "--no-headers")
    await served.kubectl("create", "cm", "a")
    assert watching.stdout is not None
    assert (await watching.stdout.readline()).split()[:2] == [b"a", b"0"]
    await served.kubectl("label", "cm", "a", "x=y")
    assert (await watching.stdout.readline()).split()[:2] == [b"a", b"0"]
    watching.terminate()
    await watching.wait()
    waiting = await served.start_kubectl(
        "wait", "--for=jsonpath={.data.k}=v", "cm/a", "--timeout=30s"
    )
    await served.kubectl("patch", "cm", "a", "-p", '{"data":{"k":"v"}}')
    out, _ = await waiting.communicate()
    assert out == b"configmap/a condition met\n"
