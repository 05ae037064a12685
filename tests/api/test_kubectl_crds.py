"""Custom resources over a socket: kubectl 1.37, an operator by our client, webhook conversion."""

import asyncio
import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shepherd.api.errors import ApiError
from shepherd.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION
from shepherd.api.meta import owner_reference
from shepherd.api.resource import Object, Resource
from shepherd.client.informer import Informer, PartialObject
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response
from shepherd.lib.httpd import serve
from shepherd.server.pki import Pki

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tubes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: tubes, kind: Tube, shortNames: [tu], categories: [plumbing]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Colour, type: string, jsonPath: .spec.colour}
    schema:
      openAPIV3Schema:
        type: object
        description: A tube carries water.
        properties:
          spec:
            type: object
            required: [colour]
            properties:
              colour: {type: string, enum: [red, blue], description: What it looks like.}
              replicas: {type: integer, default: 1, maximum: 9}
          status:
            type: object
            properties:
              replicas: {type: integer}
"""
TUBE = """
apiVersion: example.com/v1
kind: Tube
metadata: {name: t1}
spec: {colour: red}
"""
LIST = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: b}
"""
TUBES = Resource("example.com", "v1", "Tube", "tubes", status=True)
tls = pytest.mark.parametrize("served", ["tls"], indirect=True)
plain = pytest.mark.parametrize("served", ["plain"], indirect=True)


@tls
async def test_kubectl_uses_a_kind_as_soon_as_it_is_defined(served: Any) -> None:
    kubectl = served.kubectl
    assert "created" in await kubectl("apply", "-f", "-", stdin=CRD)
    waited = await kubectl("wait", "--for=condition=Established", "crd/tubes.example.com")
    assert "condition met" in waited
    assert await kubectl("apply", "-f", "-", stdin=TUBE) == "tube.example.com/t1 created\n"
    assert await kubectl("apply", "-f", "-", stdin=TUBE) == "tube.example.com/t1 unchanged\n"
    assert (await kubectl("get", "tu")).split() == ["NAME", "COLOUR", "t1", "red"]
    assert await kubectl("get", "plumbing", "-o", "name") == "tube.example.com/t1\n"
    assert "What it looks like." in await kubectl("explain", "tubes.spec.colour")
    assert "A tube carries water." in await kubectl("explain", "tube")
    old = await kubectl("explain", "tubes.spec.colour", "--output=plaintext-openapiv2")
    assert "What it looks like." in old
    assert await kubectl("scale", "tube/t1", "--replicas=3") == "tube.example.com/t1 scaled\n"
    blue = TUBE.replace("red", "blue")
    assert "configured" in await kubectl("apply", "-f", "-", stdin=blue)
    shown = json.loads(await kubectl("get", "tube", "t1", "-o", "json"))
    assert shown["spec"] == {"colour": "blue", "replicas": 3}
    unknown = await kubectl("apply", "-f", "-", stdin=blue + "unknown: 1\n", code=1)
    assert 'unknown field "unknown"' in unknown
    green = await kubectl("apply", "-f", "-", stdin=TUBE.replace("red", "green"), code=1)
    assert 'supported values: "red", "blue"' in green
    applied = await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=TUBE)
    assert applied == "tube.example.com/t1 serverside-applied\n"
    assert "tubes.example.com" in await kubectl("get", "crd")
    assert "deleted" in await kubectl("delete", "tube", "t1")


@tls
async def test_kubectl_applies_a_list(served: Any) -> None:
    assert await served.kubectl("apply", "-f", "-", stdin=LIST) == (
        "configmap/a created\nconfigmap/b created\n"
    )


@tls
async def test_a_definition_too_big_for_client_side_apply_goes_server_side(served: Any) -> None:
    """k/k#100572: the annotation of client-side apply has no room for it."""
    big = CRD.replace("A tube carries water.", "water " * 50_000)
    refused = await served.kubectl("apply", "-f", "-", stdin=big, code=1)
    assert "metadata.annotations: Too long: may not be more than 262144 bytes" in refused
    applied = await served.kubectl("apply", "--server-side", "-f", "-", stdin=big)
    assert "serverside-applied" in applied


@plain
async def test_an_operator_sees_to_its_resources(served: Any) -> None:
    """What operators do: define a kind, watch it, make children, report, and clean up."""
    client = served.client()
    decoded, finalizer = _yaml(CRD), "example.com/drain"
    await client.create(CUSTOM_RESOURCE_DEFINITION, decoded)
    informer = Informer(client, TUBES, PartialObject, clock=SystemClock())
    seen: asyncio.Queue[str] = asyncio.Queue()

    def changed(old: PartialObject | None, new: PartialObject | None) -> None:
        if new:
            seen.put_nowait(new.metadata.name)

    informer.on_change(changed)

    async def operate() -> None:
        while True:
            name = await seen.get()
            try:
                tube = await client.get(TUBES, name, "default")
            except ApiError:
                continue
            if tube["metadata"].get("deletionTimestamp"):
                patch: Object = {"metadata": {"finalizers": None}}
            else:
                child: Object = {
                    "metadata": {"name": name, "ownerReferences": [owner_reference(tube)]}
                }
                with suppress(ApiError):  # it is there since the last time
                    await client.create(CONFIG_MAP, child, "default")
                report = {"status": {"replicas": tube["spec"]["replicas"]}}
                await client.patch(TUBES, name, "default", report, sub="status")
                patch = {"metadata": {"finalizers": [finalizer]}}
            await client.patch(TUBES, name, "default", patch)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informer.run()), group.create_task(operate())]
        await informer.synced()
        await client.create(TUBES, _yaml(TUBE), "default")
        events = client.watch(TUBES, "default", initial_events=True)
        states = []
        async for event in events:
            if event.type == "BOOKMARK":
                continue
            states.append(event.type)
            obj = event.object
            done = obj.get("status") and finalizer in obj["metadata"].get("finalizers", ())
            if done and not obj["metadata"].get("deletionTimestamp"):
                assert obj["status"] == {"replicas": 1}
                await client.delete(TUBES, "t1", "default")
            if event.type == "DELETED":
                break
        await events.aclose()
        for task in tasks:
            task.cancel()
    children = await client.list(CONFIG_MAP, "default")
    assert [item["metadata"]["name"] for item in children.items] == ["t1"]
    await client.close()


def _yaml(text: str) -> Object:
    import yaml

    found: Object = yaml.safe_load(text)
    return found


@plain
async def test_versions_are_converted_by_a_webhook(served: Any, tmp_path: Path) -> None:
    """v1 has spec.colour, v2 spec.paint; only the webhook knows that."""
    asked: list[str] = []

    async def convert(request: Request) -> Response:
        review = msgspec.json.decode(request.body)
        wanted = review["request"]["desiredAPIVersion"]
        asked.append(wanted)
        review["response"] = {
            "uid": review["request"]["uid"],
            "result": {"status": "Success"},
            "convertedObjects": [_painted(obj, wanted) for obj in review["request"]["objects"]],
        }
        return Response(200, {"content-type": "application/json"}, msgspec.json.encode(review))

    pki = Pki.open(tmp_path / "webhook", clock=SystemClock())
    httpd = await serve(convert, "127.0.0.1", 0, ssl=pki.serving_context())
    bundle = base64.b64encode(pki.ca.encode()).decode()
    crd = _yaml(CRD)
    crd["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://127.0.0.1:{httpd.port}/c", "caBundle": bundle},
        },
    }
    newer = json.loads(json.dumps(crd["spec"]["versions"][0]))
    newer |= {"name": "v2", "storage": False, "selectableFields": [{"jsonPath": ".spec.paint"}]}
    spec = newer["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["paint"] = spec["properties"].pop("colour")
    spec["required"] = ["paint"]
    crd["spec"]["versions"].append(newer)
    v2 = Resource("example.com", "v2", "Tube", "tubes")
    client = served.client()
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd)
    await client.create(TUBES, _yaml(TUBE), "default")
    assert not asked
    assert (await client.get(v2, "t1", "default"))["spec"] == {"paint": "red", "replicas": 1}
    await client.patch(v2, "t1", "default", {"spec": {"paint": "blue"}})
    assert (await client.get(TUBES, "t1", "default"))["spec"]["colour"] == "blue"
    listed = await client.list(v2, "default", field_selector="spec.paint=blue")
    assert [item["spec"]["paint"] for item in listed.items] == ["blue"]
    events = client.watch(v2, "default", initial_events=True)
    first = await anext(events)
    assert (first.object["apiVersion"], first.object["spec"]["paint"]) == ("example.com/v2", "blue")
    assert set(asked) == {"example.com/v1", "example.com/v2"}
    await events.aclose()
    await httpd.close(0)
    with pytest.raises(ApiError, match=r"conversion webhook for example\.com/v1, Kind=Tube failed"):
        await client.get(v2, "t1", "default")
    await client.close()


def _painted(obj: Object, version: str) -> Object:
    spec = dict(obj["spec"])
    old, new = ("colour", "paint") if version.endswith("v2") else ("paint", "colour")
    spec[new] = spec.pop(old)
    return obj | {"apiVersion": version, "spec": spec}
