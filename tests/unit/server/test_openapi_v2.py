"""OpenAPI v2 as old clients read it: by the rules of kube-openapi's pkg/util/proto."""

import asyncio
import gzip
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from shepherd.api.kinds import RESOURCES
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import Request
from shepherd.server.openapi_v2 import IDLE_SECONDS, OpenApiV2
from shepherd.server.served import Served
from shepherd.testing.virtual import VirtualClock, run_virtual

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OLD_PROTOBUF = PROTOBUF.replace("v2.v1", "v2@v1")
KIND = "x-kubernetes-group-version-kind"


def crd(schema: Object) -> Object:
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "metadata": {"name": "tubes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "tubes", "kind": "Tube"},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


def kubectl_reads(schema: Object, names: set[str]) -> None:
    """Assert what kubectl demands of each schema, lest it refuse the whole document."""
    if "$ref" in schema:
        assert schema["$ref"].removeprefix("#/definitions/") in names
        assert not schema.keys() & {"type", "properties"}
        return
    match schema.get("type"):
        case "object" | None:
            for one in schema.get("properties", {}).values():
                kubectl_reads(one, names)
            if isinstance(more := schema.get("additionalProperties"), dict):
                kubectl_reads(more, names)
        case "array":
            kubectl_reads(schema["items"], names)
        case scalar:
            assert scalar in ("string", "number", "integer", "boolean")
            assert not schema.keys() & {"items", "properties"}


def patch_of(document: Object, gvk: Object) -> Object:
    """What kubectl takes for the way to patch a kind: the first that names it."""
    patches = (item["patch"] for item in document["paths"].values() if "patch" in item)
    found: Object = next(patch for patch in patches if patch[KIND] == gvk)
    return found


@pytest.fixture(scope="module")
def document() -> Object:
    openapi = OpenApiV2(Served(RESOURCES), VirtualClock())
    answer = asyncio.run(openapi.answer(Request("GET", "/openapi/v2")))
    assert isinstance(answer.body, bytes)
    found: Object = msgspec.json.decode(answer.body)
    return found


def test_the_document_is_whole(document: Object) -> None:
    names = set(document["definitions"])
    for schema in document["definitions"].values():
        kubectl_reads(schema, names)
    spec = document["definitions"]["io.k8s.api.core.v1.PodSpec"]
    assert spec["required"] == ["containers"]
    assert spec["properties"]["containers"] == {
        "description": spec["properties"]["containers"]["description"],
        "type": "array",
        "items": {"$ref": "#/definitions/io.k8s.api.core.v1.Container"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "name",
    }
    quantity = document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]
    assert quantity == {"type": "string"}


PATCHED = [resource for resource in RESOURCES if "patch" in resource.verbs]


@pytest.mark.parametrize("resource", PATCHED, ids=lambda resource: resource.kind)
def test_kubectl_finds_the_kind_and_how_to_patch_it(document: Object, resource: Resource) -> None:
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    assert [s for s in document["definitions"].values() if gvk in s.get(KIND, [])]
    patch = patch_of(document, gvk)
    queries = {p["name"]: p["type"] for p in patch["parameters"] if p["in"] == "query"}
    assert {"dryRun", "fieldValidation", "fieldManager", "force"} <= queries.keys()
    (body,) = [p for p in patch["parameters"] if p["in"] == "body"]
    assert body["required"]
    assert "application/apply-patch+yaml" in patch["consumes"]


# -- protobuf ----------------------------------------------------------------------------------


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field; fixed numbers do not come here."""
    at = 0

    def varint() -> int:
        nonlocal at
        found = shift = 0
        while True:
            byte = message[at]
            at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            assert tag & 7 == 2
            size = varint()
            yield tag >> 3, message[at : at + size]
            at += size


def walk(message: bytes, *numbers: int) -> list[Any]:
    """The values at the end of a path of field numbers."""
    found: list[Any] = [message]
    for number in numbers:
        found = [value for one in found for n, value in fields(one) if n == number]
    return found


async def test_protobuf_says_the_same(api: Any, document: Object) -> None:
    answer = await api.ask("GET", "/openapi/v2", accept=OLD_PROTOBUF)
    assert answer.headers["content-type"] == PROTOBUF
    assert walk(answer.body, 1) == [b"2.0"]
    definitions = {walk(one, 1)[0].decode(): one for one in walk(answer.body, 9, 1)}
    assert definitions.keys() == document["definitions"].keys()
    spec = "io.k8s.api.core.v1.PodSpec"
    named = {walk(one, 1)[0].decode(): one for one in walk(definitions[spec], 2, 25, 1)}
    assert named.keys() == document["definitions"][spec]["properties"].keys()
    containers = named["containers"]
    assert walk(containers, 2, 22, 1) == [b"array"]
    assert walk(containers, 2, 23, 1, 1) == [b"#/definitions/io.k8s.api.core.v1.Container"]
    extensions = {walk(one, 1)[0]: walk(one, 2, 2)[0] for one in walk(containers, 2, 31)}
    assert extensions[b"x-kubernetes-patch-merge-key"] == b'"name"'
    assert walk(named["nodeSelector"], 2, 21, 1, 22, 1) == [b"string"]

    paths = {walk(one, 1)[0].decode(): one for one in walk(answer.body, 8, 2)}
    assert paths.keys() == document["paths"].keys()
    (patch,) = walk(paths["/api/v1/namespaces/{namespace}/configmaps/{name}"], 2, 8)
    assert {b"dryRun", b"fieldValidation"} <= set(walk(patch, 8, 1, 2, 3, 4))
    (body,) = walk(patch, 8, 1, 1, 5, 1)
    assert body.endswith(b"meta.v1.Patch")
    kinds = {walk(one, 1)[0]: walk(one, 2, 2)[0] for one in walk(patch, 13)}
    gvk = msgspec.json.decode(kinds[KIND.encode()])
    assert gvk == {"group": "", "version": "v1", "kind": "ConfigMap"}


# -- over HTTP ---------------------------------------------------------------------------------


async def test_the_document_is_sent_once(api: Any) -> None:
    first = await api.ask("GET", "/openapi/v2")
    assert first.headers["content-type"] == "application/json"
    packed = await api.ask("GET", "/openapi/v2", accept_encoding="gzip")
    assert gzip.decompress(packed.body) == first.body
    again = await api.ask("GET", "/openapi/v2", if_none_match=first.headers["etag"])
    assert (again.code, again.body) == (304, b"")
    await api.fails(406, "GET", "/openapi/v2", accept="text/html")
    await api.fails(405, "POST", "/openapi/v2")


async def test_it_follows_what_is_served(api: Any) -> None:
    before = await api.ask("GET", "/openapi/v2")
    await api.ok("POST", CRDS, crd({"type": "object"}))
    after = await api.ask("GET", "/openapi/v2", if_none_match=before.headers["etag"])
    assert after.code == 200
    more = after.json["definitions"].keys() - before.json["definitions"].keys()
    assert more == {"com.example.v1.Tube", "com.example.v1.TubeList"}
    gvk = {"group": "example.com", "version": "v1", "kind": "Tube"}
    patch = patch_of(after.json, gvk)
    assert "application/strategic-merge-patch+json" not in patch["consumes"]


async def test_what_v2_cannot_say_is_left_out(api: Any) -> None:
    text = {"type": "string"}
    spec = {
        "type": "object",
        "required": ["note", "size"],
        "properties": {
            "note": {"type": "object", "nullable": True, "properties": {"a": text}},
            "notes": {"type": "array", "nullable": True, "items": text},
            "size": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, text]},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "sum": {"type": "integer", "minimum": -1, "maxLength": 9, "not": {"maximum": 3}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "nullable": True}},
        },
    }
    await api.ok("POST", CRDS, crd({"type": "object", "properties": {"spec": spec}}))
    found = (await api.ok("GET", "/openapi/v2"))["definitions"]["com.example.v1.Tube"]
    assert found["properties"].keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert found["properties"]["spec"] == {
        "type": "object",
        "required": ["size"],
        "properties": {
            "note": {},
            "notes": {},
            "size": {"x-kubernetes-int-or-string": True},
            "any": {"x-kubernetes-preserve-unknown-fields": True},
            "sum": {"type": "integer", "minimum": -1, "maxLength": 9},
            "map": {"type": "object", "additionalProperties": {}},
        },
    }
    assert (await api.ask("GET", "/openapi/v2", accept=PROTOBUF)).code == 200


async def test_a_number_beyond_all_numbers_is_refused(api: Any) -> None:
    """It has no place in protobuf, nor in Go's types."""
    schema = {"type": "object", "properties": {"spec": {"type": "number", "maximum": 123}}}
    body = msgspec.json.encode(crd(schema)).replace(b"123", b"1" + b"0" * 400)
    status = await api.fails(400, "POST", CRDS, body)
    assert "maximum of type float64" in status["message"]


async def test_objects_within_have_what_all_objects_have(api: Any) -> None:
    """As far as v2 can say it: what also takes unknown fields may name none there."""
    whole = {"type": "object", "x-kubernetes-embedded-resource": True}
    free = {"x-kubernetes-preserve-unknown-fields": True}
    templates = {"type": "array", "items": whole | free}
    note = {"properties": {"note": {"type": "string"}}}
    spec = {"type": "object", "properties": {"one": whole | note, "all": templates}}
    await api.ok("POST", CRDS, crd({"type": "object", "properties": {"spec": spec}}))
    document = await api.ok("GET", "/openapi/v3/apis/example.com/v1")
    tube = document["components"]["schemas"]["com.example.v1.Tube"]
    for found in (
        tube["properties"]["spec"]["properties"]["one"],
        tube["properties"]["spec"]["properties"]["all"]["items"],
    ):
        assert {"apiVersion", "kind", "metadata"} <= found["properties"].keys()
        assert found["required"] == ["kind", "apiVersion"]
    found = (await api.ok("GET", "/openapi/v2"))["definitions"]["com.example.v1.Tube"]
    within = found["properties"]["spec"]["properties"]
    assert within["one"]["properties"].keys() == {"apiVersion", "kind", "metadata", "note"}
    assert "properties" not in within["all"]["items"]


async def test_a_kind_that_keeps_unknown_fields_names_none(api: Any) -> None:
    """kubectl would refuse all fields but those."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await api.ok("POST", CRDS, crd(schema | {"properties": {"spec": {"type": "object"}}}))
    found = (await api.ok("GET", "/openapi/v2"))["definitions"]["com.example.v1.Tube"]
    gvk = {"group": "example.com", "version": "v1", "kind": "Tube"}
    assert found == {"type": "object", KIND: [gvk]}


def test_it_is_forgotten_when_nobody_asks() -> None:
    clock = VirtualClock()

    async def ask(openapi: OpenApiV2) -> object:
        request = Request("GET", "/openapi/v2", headers={"accept-encoding": "gzip"})
        return (await openapi.answer(request)).body

    async def work() -> None:
        openapi = OpenApiV2(Served(RESOURCES), clock)
        upkeep = asyncio.create_task(openapi.run())
        one, two = await asyncio.gather(ask(openapi), ask(openapi))
        assert one is two
        await clock.sleep(IDLE_SECONDS)
        assert await ask(openapi) is one
        await clock.sleep(3 * IDLE_SECONDS)
        assert await ask(openapi) is not one
        upkeep.cancel()

    run_virtual(work())
