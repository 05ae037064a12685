"""OpenAPI v2: one document of all that is served, which old clients read.

kubectl up to 1.26 reads it for apply, create, diff, edit, explain and --dry-run=server; later ones
for `explain --output=plaintext-openapiv2`. It is made from the parts of the v3 documents, as
kube-openapi makes those from v2, and what v2 cannot say is left out as upstream leaves it out.

It is written one path or definition at a time, so that a turn of the event loop is short, straight
into gzip, so that nobody holds it whole, and forgotten when nobody asked for ten minutes
(docs/adr/0004-schema-data.md has the figures). Source: kube-openapi `handler`, `openapiconv`;
apiextensions-apiserver pkg/controller/openapi/v2.
"""

import asyncio
import zlib
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from shepherd.api import errors
from shepherd.api.resource import Resource
from shepherd.lib.clock import Clock
from shepherd.lib.http import Request, Response
from shepherd.server.openapi import hash_of, paths_of, schemas_of
from shepherd.server.openapi_protobuf import SCHEMA_KEYS, document_head, document_part
from shepherd.server.served import Served
from shepherd.server.version import VERSION

Json = dict[str, Any]
Entry = tuple[str, str, Json]
"""`paths` or `definitions`, a name there, and what it names."""
Groups = list[tuple[str, str, tuple[Resource, ...]]]

IDLE_SECONDS = 600.0
_GZIP = 31

_JSON = "application/json"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_FORMS = {
    _JSON: _JSON,
    "application/*": _JSON,
    "*/*": _JSON,
    _PROTOBUF: _PROTOBUF,
    # What old clients ask for has an `@`, which no parser of media types takes in an answer.
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": _PROTOBUF,
}
_SWAGGER = "2.0"
_INFO = {"title": "Kubernetes", "version": VERSION["gitVersion"]}


class OpenApiV2:
    """Answers /openapi/v2."""

    def __init__(self, served: Served, clock: Clock) -> None:
        self._served = served
        self._clock = clock
        self._generation = -1
        self._etag = ""
        self._packed: dict[str, bytes] = {}
        """By form."""
        self._asked = False
        self._making = asyncio.Lock()

    async def answer(self, request: Request) -> Response:
        """The document in the form that is asked for. Raises ApiError 406."""
        form = _form(request.headers.get("accept", ""))
        self._refresh()
        headers = {"etag": self._etag, "vary": "Accept, Accept-Encoding"}
        if self._etag in request.headers.get("if-none-match", ""):
            return Response(304, headers)
        packed = await self._document(form)
        headers["content-type"] = form
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(200, headers | {"content-encoding": "gzip"}, packed)
        return Response(200, headers, zlib.decompress(packed, _GZIP))

    async def run(self) -> None:
        """Forget, for ever, documents for which nobody asks."""
        while True:
            await self._clock.sleep(IDLE_SECONDS)
            if not self._asked:
                self._packed.clear()
            self._asked = False

    def _refresh(self) -> None:
        if self._generation != self._served.generation:
            self._generation = self._served.generation
            hashes = [hash_of(*group) for group in self._groups()]
            self._etag = f'"{sha256(repr(hashes).encode()).hexdigest().upper()}"'
            self._packed = {}

    def _groups(self) -> Groups:
        found = sorted(self._served.groups)
        return [(group, version, self._served.of(group, version)) for group, version in found]

    async def _document(self, form: str) -> bytes:
        self._asked = True
        kept = self._packed  # another one is begun when what is served changes
        async with self._making:
            if form not in kept:
                write = _protobuf if form == _PROTOBUF else _json
                kept[form] = await _pack(write(_entries(self._groups())))
        return kept[form]


def _form(accept: str) -> str:
    """The content type of the answer. Raises ApiError 406."""
    for choice in (accept or "*/*").split(","):
        if form := _FORMS.get(choice.partition(";")[0].strip()):
            return form
    raise errors.not_acceptable(
        f"only the following media types are accepted: {_JSON}, {_PROTOBUF}"
    )


async def _pack(fragments: Iterable[bytes]) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP)
    packed = bytearray()
    for fragment in fragments:
        packed += packer.compress(fragment)
        await asyncio.sleep(0)
    return bytes(packed + packer.flush())


def _json(entries: Iterable[Entry]) -> Iterator[bytes]:
    yield msgspec.json.encode({"swagger": _SWAGGER, "info": _INFO})[:-1]
    present = ""
    for part, name, value in entries:
        yield b"," if part == present else (b"}," if present else b",") + b'"%b":{' % part.encode()
        present = part
        yield msgspec.json.encode({name: value})[1:-1]
    yield b"}}"


def _protobuf(entries: Iterable[Entry]) -> Iterator[bytes]:
    yield document_head(_SWAGGER, _INFO)
    for part, name, value in entries:
        yield document_part(part, name, value)


def _entries(groups: Groups) -> Iterator[Entry]:
    """All paths, then all definitions, each once."""
    for group in groups:
        for path, item in paths_of(*group).items():
            yield "paths", path, _path(item)
    seen: set[str] = set()
    for group in groups:
        schemas = schemas_of(*group)
        for name, schema in schemas.items():
            if name not in seen:
                yield "definitions", name, _definition(name, schema)
        seen |= schemas.keys()


# -- from v3 to v2 -----------------------------------------------------------------------------

# Two that may be a number too, which v2 cannot say: clients take either for their "string".
_STRINGS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "type": "string",
        "format": "int-or-string",
    },
}
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_KIND = "x-kubernetes-group-version-kind"


def _definition(name: str, schema: Json) -> Json:
    if name in _STRINGS:
        return _STRINGS[name]
    if schema.get(_PRESERVE):  # a property named here would have kubectl refuse all others
        return {"type": "object", _KIND: schema[_KIND]}
    return _schema(schema)


def _schema(schema: Json) -> Json:
    """What v2 can say of a schema, and kubectl can bear."""
    found = {k: v for k, v in schema.items() if k in SCHEMA_KEYS or k.startswith("x-")}
    match schema.get("allOf"):
        case [{"$ref": str(reference)}]:
            return found | {"$ref": _reference(reference)}
    nullable = schema.get("nullable", False)
    if nullable or schema.get(_PRESERVE):
        found.pop("items", None)
        found.pop("properties", None)
    vague = found.get("type") == "array" and "items" not in found
    if vague or nullable or (schema.get(_PRESERVE) and found.get("type") == "object"):
        found.pop("type", None)
    if "items" in found:
        found["items"] = _schema(found["items"])
    if isinstance(extra := found.get("additionalProperties"), dict):
        found["additionalProperties"] = _schema(extra)
    if properties := found.get("properties"):
        found["properties"] = {name: _schema(one) for name, one in properties.items()}
    if required := found.pop("required", ()):
        properties = schema.get("properties") or {}
        kept = [name for name in required if not properties.get(name, {}).get("nullable")]
        found |= {"required": kept} if kept else {}
    return found


def _reference(v3: str) -> str:
    return v3.replace("#/components/schemas/", "#/definitions/")


def _path(item: Json) -> Json:
    found: Json = {"parameters": [_parameter(one) for one in item["parameters"]]}
    for method, operation in item.items():
        if method != "parameters":
            found[method] = _operation(operation)
    return found


def _operation(operation: Json) -> Json:
    found = dict(operation)
    found["parameters"] = [_parameter(one) for one in operation["parameters"]]
    if content := found.pop("requestBody", {}).get("content"):
        found["consumes"] = list(content)
        body = {"name": "body", "in": "body", "schema": _one_schema(content)}
        needed = not operation["x-kubernetes-action"].startswith("delete")
        found["parameters"].append(body | {"required": needed})
    found["produces"] = [_JSON]
    found["responses"] = {code: _response(one) for code, one in operation["responses"].items()}
    return found


def _response(response: Json) -> Json:
    found = {"description": response["description"]}
    if content := response.get("content"):
        found["schema"] = _one_schema(content)
    return found


def _one_schema(content: Json) -> Json:
    """What is sent is the same in every media type."""
    schema: Json = next(iter(content.values()))["schema"]
    return {"$ref": _reference(schema["$ref"])} if "$ref" in schema else schema


def _parameter(v3: Json) -> Json:
    """The same, its schema spread out."""
    rest = {key: value for key, value in v3.items() if key != "schema"}
    return {**rest, **v3["schema"]}
