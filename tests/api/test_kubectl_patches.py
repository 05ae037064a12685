"""kubectl where it relies on OpenAPI, field validation and each kind of patch."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.parametrize("served", ["plain"], indirect=True)

EXAMPLE = Path(__file__).parents[2] / "examples" / "web.yaml"


async def _spec(served: Any, name: str = "web") -> dict[str, Any]:
    found = json.loads(await served.kubectl("get", "deploy", name, "-o", "json"))
    spec: dict[str, Any] = found["spec"]
    return spec


async def test_apply_merges_containers_by_name(served: Any) -> None:
    await served.kubectl("apply", "-f", str(EXAMPLE))
    changed = EXAMPLE.read_text().replace("demo:1", "demo:2").replace("replicas: 3", "replicas: 5")
    diff = await served.start_kubectl("diff", "-f", "-")
    out, _ = await diff.communicate(changed.encode())
    assert diff.returncode == 1  # as diff does for a difference
    lines = out.decode().splitlines()
    assert "-      - image: shepherd.local/demo:1" in lines
    assert "+      - image: shepherd.local/demo:2" in lines
    assert not [line for line in lines if line[0] in "+-" and "containerPort" in line]
    assert "configured" in await served.kubectl("apply", "-f", "-", stdin=changed)
    spec = await _spec(served)
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == "shepherd.local/demo:2"
    assert container["ports"][0]["containerPort"] == 8080
    assert spec["replicas"] == 5


async def test_set_env_and_patches_of_every_type(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "deployment", "web", "--image=nginx")
    await kubectl("set", "env", "deploy/web", "A=1", "B=2")
    await kubectl("set", "env", "deploy/web", "A-")
    (container,) = (await _spec(served))["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "B", "value": "2"}]
    recreate = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    await kubectl("patch", "deploy", "web", "-p", json.dumps(recreate))
    assert (await _spec(served))["strategy"] == {"type": "Recreate"}
    await kubectl("patch", "deploy", "web", "--type=merge", "-p", '{"spec":{"replicas":3}}')
    operations = [
        {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "replace", "path": "/spec/replicas", "value": 4},
    ]
    await kubectl("patch", "deploy", "web", "--type=json", "-p", json.dumps(operations))
    refused = await kubectl(
        "patch", "deploy", "web", "--type=json", "-p", json.dumps(operations), code=1
    )
    assert "testing value /spec/replicas failed" in refused
    assert (await _spec(served))["replicas"] == 4


async def test_unknown_and_wrong_fields(served: Any) -> None:
    unknown = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndatax: {a: b}\n"
    refused = await served.kubectl("apply", "-f", "-", stdin=unknown, code=1)
    assert 'strict decoding error: unknown field "datax"' in refused
    warned = await served.kubectl("apply", "--validate=warn", "-f", "-", stdin=unknown)
    assert "configmap/a created" in warned
    wrong = unknown.replace("datax: {a: b}", "data: {a: 1}")
    refused = await served.kubectl("apply", "-f", "-", stdin=wrong, code=1)
    assert "cannot unmarshal number into Go struct field ConfigMap.data.a of type string" in refused


async def test_explain_knows_types_and_has_words(served: Any) -> None:
    text = await served.kubectl("explain", "deployment.spec")
    assert "replicas\t<integer>\n    How many pods; 1 by default." in text
    assert "template\t<PodTemplateSpec> -required-" in text
    assert "FIELD: ports <[]ContainerPort>" in await served.kubectl(
        "explain", "pods.spec.containers.ports"
    )
    old = await served.kubectl("explain", "deployment.spec", "--output=plaintext-openapiv2")
    assert "replicas\t<integer>\n     How many pods; 1 by default." in old
    assert "template\t<Object> -required-" in old


async def test_an_empty_value_is_applied_and_kept(served: Any) -> None:
    """kubernetes/kubernetes#37216: the key of an empty value was dropped."""
    for server_side in ("true", "false"):
        name = f"empty-{server_side}"
        for key in ("stringData", "data"):
            manifest = {
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                key: {"a": "", "b": "MQ=="},
            }  # fmt: skip
            text = json.dumps(manifest)
            await served.kubectl(
                "apply", f"--server-side={server_side}", "--force-conflicts=" + server_side,
                "-f", "-", stdin=text,
            )  # fmt: skip
            found = json.loads(await served.kubectl("get", "secret", name, "-o", "json"))
            assert found["data"]["a"] == ""
