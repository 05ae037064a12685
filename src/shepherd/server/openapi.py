"""OpenAPI v3 documents, one per group and version, made from the schema data and the resources.

kubectl reads them for apply, create, edit, replace and explain. The index names each with a hash of
what it is made from, so it costs nothing to make, and a document that a client has keeps its
address. Source: kube-openapi `handler3`, `builder3`.
"""

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any

import msgspec

from shepherd import __version__
from shepherd.api.resource import Resource
from shepherd.api.schema import Field, Shape, Type, get_type, kinds_of, openapi_name, type_of
from shepherd.server.openapi_custom import custom_schemas
from shepherd.server.openapi_paths import component, gvk, kind_of, resource_paths
from shepherd.server.openapi_text import DESCRIPTIONS
from shepherd.server.subresources import SUBRESOURCES

Json = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"

# Scalars that OpenAPI writes in place, and those that have a schema of their own.
_PLAIN: dict[str, Json] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
_NAMED: dict[str, tuple[str, Json]] = {
    "quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "intstr": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "time": (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    "microtime": (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    "raw": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
    "fields": (f"{_META}.FieldsV1", {"type": "object"}),
    "json": (f"{_CRD}.JSON", {}),
    "schema-or-array": (f"{_CRD}.JSONSchemaPropsOrArray", {}),
    "schema-or-bool": (f"{_CRD}.JSONSchemaPropsOrBool", {}),
    "schema-or-strings": (f"{_CRD}.JSONSchemaPropsOrStringArray", {}),
}

_TOKEN = {"type": "apiKey", "in": "header", "name": "authorization"}


@dataclass(frozen=True, slots=True)
class Document:
    """One document, packed, and the hash that its address and ETag carry."""

    packed: bytes
    """gzip."""
    hash: str

    @property
    def etag(self) -> str:
        return f'"{self.hash}"'

    @property
    def body(self) -> bytes:
        """The JSON text."""
        return gzip.decompress(self.packed)


def openapi_index(
    groups: Mapping[tuple[str, str], Mapping[str, Resource]],
    elsewhere: Iterable[tuple[str, str]] = (),
) -> bytes:
    """The body of `/openapi/v3`. `groups` are the resources by group and version; other servers
    say what those `elsewhere` are."""
    paths = {}
    for (group, version), resources in sorted(groups.items()):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        digest = hash_of(group, version, tuple(resources.values()))
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    for group, version in elsewhere:
        path = f"apis/{group}/{version}"
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}"}
    return msgspec.json.encode({"paths": paths})


def openapi_document(group: str, version: str, resources: Iterable[Resource]) -> Document | None:
    """The body of `/openapi/v3/apis/<group>/<version>`, which serves `resources`; None if none."""
    return _document(group, version, tuple(resources))


@lru_cache(maxsize=64)
def _document(group: str, version: str, here: tuple[Resource, ...]) -> Document | None:
    if not here:
        return None
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": __version__},
        "paths": paths_of(group, version, here),
        "components": {
            "schemas": schemas_of(group, version, here),
            "securitySchemes": {"BearerToken": _TOKEN},
        },
    }
    packed = gzip.compress(msgspec.json.encode(document), 6, mtime=0)
    return Document(packed, hash_of(group, version, here))


def paths_of(group: str, version: str, resources: Iterable[Resource]) -> Json:
    """The paths below a group and version, with their operations."""
    paths: Json = {}
    for resource in resources:
        paths |= resource_paths(group, version, resource)
    return dict(sorted(paths.items()))


def schemas_of(group: str, version: str, resources: Iterable[Resource]) -> Json:
    """The schemas that these paths speak of, and all that those hold, by name."""
    schemas: Json = {}
    for resource in resources:
        _add_schemas(schemas, group, version, resource)
        for sub in SUBRESOURCES:
            of = kind_of((group, version, resource.kind), sub)
            if sub.has(resource) and (known := type_of(*of)):
                _add_type(schemas, known)
    for type_name in ("meta.v1.Status", "meta.v1.DeleteOptions", "meta.v1.Patch"):
        _add_type(schemas, get_type(type_name))
    return dict(sorted(schemas.items()))


@lru_cache(maxsize=64)
def hash_of(group: str, version: str, resources: tuple[Resource, ...]) -> str:
    """Changes when the document may: with the program and with what is served."""
    parts = [
        (
            (r.kind, r.plural, r.namespaced, r.verbs, r.status, r.scale),
            r.custom and msgspec.json.encode(r.custom.schema),
        )
        for r in resources
    ]
    return sha256(repr((__version__, group, version, parts)).encode()).hexdigest().upper()


# -- schemas -----------------------------------------------------------------------------------


def _reference(name: str) -> Json:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}


def _add_schemas(schemas: Json, group: str, version: str, resource: Resource) -> None:
    """The schemas of a kind, of its list (if it is listed) and of everything they hold."""
    if resource.custom:
        for name in ("ObjectMeta", "ListMeta"):
            _add_type(schemas, get_type(f"meta.v1.{name}"))
        schemas |= custom_schemas(resource)
        return
    lists = [f"{resource.kind}List"] if "list" in resource.verbs else []
    for name in (resource.kind, *lists):
        if known := type_of(group, version, name):
            _add_type(schemas, known)
        else:
            schemas[component(group, version, name)] = {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-group-version-kind": [gvk(group, version, name)],
            }


def _add_type(schemas: Json, type: Type) -> None:
    pending = [type]
    while pending:
        current = pending.pop()
        name = openapi_name(current.name)
        if name in schemas:
            continue
        schemas[name] = _type_schema(current)
        for field in current.fields.values():
            shape = field.shape
            if not shape.scalar:
                pending.append(get_type(shape.of))
            elif shape.of in _NAMED:
                named, schema = _NAMED[shape.of]
                schemas[named] = schema


def _type_schema(type: Type) -> Json:
    texts = DESCRIPTIONS.get(type.name, {})
    schema: Json = {"type": "object"}
    if text := texts.get(""):
        schema["description"] = text
    if type.fields:
        schema["properties"] = {
            field.name: _field_schema(field, texts.get(field.name, ""))
            for field in type.fields.values()
        }
    if required := [field.name for field in type.fields.values() if field.required]:
        schema["required"] = required
    if type.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    if kinds := kinds_of(type.name):
        schema["x-kubernetes-group-version-kind"] = [gvk(*kind) for kind in kinds]
    return schema


def _field_schema(field: Field, description: str) -> Json:
    schema = dict(_value_schema(field.shape))
    if description:
        schema["description"] = description
    if (default := field.default) is not None:
        schema["default"] = default
    if field.shape.container == "list" or field.type == "bytes":
        if field.collection:
            schema["x-kubernetes-list-type"] = field.list_type
        if field.list_keys:
            schema["x-kubernetes-list-map-keys"] = field.list_keys
    elif field.collection:
        schema["x-kubernetes-map-type"] = field.collection
    if field.patch:
        schema["x-kubernetes-patch-strategy"] = ",".join(field.strategies)
    if field.merge_key:
        schema["x-kubernetes-patch-merge-key"] = field.merge_key
    return schema


@cache
def _value_schema(shape: Shape) -> Json:
    match shape.container:
        case "list":
            return {"type": "array", "items": _one_schema(shape.of)}
        case "map":
            return {"type": "object", "additionalProperties": _one_schema(shape.of)}
        case "map of lists":
            items = {"type": "array", "items": _one_schema(shape.of)}
            return {"type": "object", "additionalProperties": items}
    return _one_schema(shape.of)


def _one_schema(of: str) -> Json:
    if of in _PLAIN:
        return _PLAIN[of]
    return _reference(_NAMED[of][0] if of in _NAMED else openapi_name(of))
