"""kubectl where the server applies: whose the fields are, and what becomes of them."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.parametrize("served", ["plain"], indirect=True)

EXAMPLE = Path(__file__).parents[2] / "examples" / "web.yaml"


async def _get(served: Any, *target: str) -> dict[str, Any]:
    text = await served.kubectl("get", *target, "-o", "json", "--show-managed-fields")
    found: dict[str, Any] = json.loads(text)
    return found


def _managers(obj: dict[str, Any]) -> set[tuple[str, str]]:
    return {(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"]}


async def test_apply_by_the_server(served: Any) -> None:
    kubectl = served.kubectl
    for _ in range(2):
        done = await kubectl("apply", "--server-side", "-f", str(EXAMPLE))
        assert done == "deployment.apps/web serverside-applied\nservice/web serverside-applied\n"
        found = await _get(served, "deploy", "web")
        assert _managers(found) == {("kubectl", "Apply")}
        assert len({found["metadata"]["resourceVersion"], found["metadata"]["uid"]}) == 2
    assert "managedFields" not in await kubectl("get", "deploy", "web", "-o", "yaml")
    before = found["metadata"]["resourceVersion"]
    assert (await _get(served, "deploy", "web"))["metadata"]["resourceVersion"] == before
    changed = EXAMPLE.read_text().replace("demo:1", "demo:2").replace("replicas: 3", "replicas: 5")
    diff = await served.start_kubectl("diff", "--server-side", "-f", "-")
    out, err = await diff.communicate(changed.encode())
    assert diff.returncode == 1, err  # as diff does for a difference
    lines = out.decode().splitlines()
    assert "-  replicas: 3" in lines
    assert "+  replicas: 5" in lines
    dry = ("apply", "--server-side", "--dry-run=server", "-f", "-")
    assert "serverside-applied (server dry run)" in await kubectl(*dry, stdin=changed)
    assert (await _get(served, "deploy", "web"))["metadata"]["resourceVersion"] == before
    await kubectl("apply", "--server-side", "-f", "-", stdin=changed)
    assert (await _get(served, "deploy", "web"))["spec"]["replicas"] == 5


async def test_conflicts_are_told_and_forced(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("apply", "--server-side", "-f", str(EXAMPLE))
    await kubectl("scale", "deploy/web", "--replicas=4")
    refused = await kubectl("apply", "--server-side", "-f", str(EXAMPLE), code=1)
    assert (
        'Apply failed with 1 conflict: conflict with "kubectl" with subresource "scale" '
        "using apps/v1: .spec.replicas"
    ) in refused
    assert "--force-conflicts" in refused
    await kubectl("apply", "--server-side", "--force-conflicts", "-f", str(EXAMPLE))
    found = await _get(served, "deploy", "web")
    assert found["spec"]["replicas"] == 3
    assert _managers(found) == {("kubectl", "Apply")}
    # Another manager may share a value, and keeps it when the first lets go.
    shared = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    await kubectl(*shared, stdin=EXAMPLE.read_text())
    less = EXAMPLE.read_text().replace("  replicas: 3\n", "")
    await kubectl("apply", "--server-side", "-f", "-", stdin=less)
    assert (await _get(served, "deploy", "web"))["spec"]["replicas"] == 3
    await kubectl(*shared, stdin=less)
    assert (await _get(served, "deploy", "web"))["spec"]["replicas"] == 1


async def test_what_client_side_apply_made_goes_over_to_the_server(served: Any) -> None:
    """kubernetes/kubernetes#99003, #80916, #107417: what a later manifest leaves out goes."""
    kubectl = served.kubectl
    await kubectl("apply", "-f", str(EXAMPLE))
    assert _managers(await _get(served, "deploy", "web")) == {
        ("kubectl-client-side-apply", "Update")
    }
    less = EXAMPLE.read_text().replace("  replicas: 3\n", "")
    await kubectl("apply", "--server-side", "-f", "-", stdin=less)
    found = await _get(served, "deploy", "web")
    # `kubectl-last-applied` keeps the annotation, so that one may go back.
    assert _managers(found) == {("kubectl", "Apply"), ("kubectl-last-applied", "Apply")}
    assert found["spec"]["replicas"] == 1  # let go, so back to the default
    changed = less.replace("demo:1", "demo:2")
    await kubectl("apply", "--server-side", "-f", "-", stdin=changed)
    (container,) = (await _get(served, "deploy", "web"))["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "shepherd.local/demo:2"
    await kubectl("apply", "-f", str(EXAMPLE))
    assert (await _get(served, "deploy", "web"))["spec"]["replicas"] == 3


async def test_a_manifest_too_long_for_client_side_apply(served: Any) -> None:
    """kubernetes/kubernetes#100572."""
    data = {"a": "x" * 300_000}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
    text = json.dumps(manifest)
    refused = await served.kubectl("apply", "-f", "-", stdin=text, code=1)
    assert "metadata.annotations: Too long: may not be more than 262144 bytes" in refused
    done = await served.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    assert done == "configmap/a serverside-applied\n"


async def test_dry_runs_of_creates(served: Any) -> None:
    dry = ("create", "cm", "a", "--dry-run=server")
    assert await served.kubectl(*dry) == "configmap/a created (server dry run)\n"
    await served.kubectl("create", "cm", "a")
    refused = await served.kubectl(*dry, code=1)
    assert 'configmaps "a" already exists' in refused


async def test_each_command_is_a_manager_of_its_own(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "deployment", "web", "--image=web:1")
    await kubectl("label", "deploy", "web", "tier=front")
    await kubectl("annotate", "deploy", "web", "note=x")
    await kubectl("set", "image", "deploy/web", "web=web:2")
    await kubectl("patch", "deploy", "web", "-p", '{"spec":{"paused":true}}')
    found = await _get(served, "deploy", "web")
    assert _managers(found) == {
        ("kubectl-create", "Update"),
        ("kubectl-label", "Update"),
        ("kubectl-annotate", "Update"),
        ("kubectl-set", "Update"),
        ("kubectl-patch", "Update"),
    }
    for entry in found["metadata"]["managedFields"]:
        if entry["manager"] == "kubectl-set":
            containers = entry["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
            assert containers == {'k:{"name":"web"}': {"f:image": {}}}


async def test_duplicate_ports_and_the_order_of_variables(served: Any) -> None:
    """kubernetes/kubernetes#62366, #108148: one port of two protocols lost an entry. #47248:
    variables changed their order."""
    text = EXAMPLE.read_text()
    port = "            - { name: http, containerPort: 8080 }\n"
    both = text.replace(port, port + "            - { containerPort: 8080, protocol: UDP }\n")
    await served.kubectl("apply", "--server-side", "-f", "-", stdin=both)
    (container,) = (await _get(served, "deploy", "web"))["spec"]["template"]["spec"]["containers"]
    assert [port["protocol"] for port in container["ports"]] == ["TCP", "UDP"]
    twice = text.replace(port, port + "            - { containerPort: 8080 }\n")
    refused = await served.kubectl("apply", "--server-side", "-f", "-", stdin=twice, code=1)
    assert 'duplicate entries for key [containerPort=8080,protocol="TCP"]' in refused

    def env(*names: str) -> str:
        lines = "".join(f"            - {{ name: {name}, value: $(A) }}\n" for name in names)
        return text.replace("          ports:\n", f"          env:\n{lines}          ports:\n")

    for names in (["USES"], ["A", "USES"]):
        await served.kubectl("apply", "--server-side", "-f", "-", stdin=env(*names))
        found = await _get(served, "deploy", "web")
        (container,) = found["spec"]["template"]["spec"]["containers"]
        assert [variable["name"] for variable in container["env"]] == names
