"""The OpenAPI schemas of custom resources: the CRD's own, with the metadata that all objects have.

Source: apiextensions-apiserver pkg/controller/openapi/builder.
"""

from typing import Any

from shepherd.api.resource import Object, Resource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_API_VERSION = "Which version of the API the object is written in, as group/version."
_KIND = "What kind of object it is."
_METADATA = "What all objects have: name, namespace, labels, annotations, owners."


def custom_schemas(resource: Resource) -> dict[str, Any]:
    """The components of a kind and of its list, by name."""
    assert resource.custom
    stem = ".".join([*reversed(resource.group.split(".")), resource.version])
    name, list_kind = f"{stem}.{resource.kind}", resource.list_kind or f"{resource.kind}List"
    schema = _complete(resource.custom.schema)
    schema.setdefault("type", "object")
    schema["properties"] = (schema.get("properties") or {}) | _head(f"{_META}.ObjectMeta")
    listed = {
        "type": "object",
        "description": f"A list of {resource.kind}.",
        "required": ["items"],
        "properties": {
            **_head(f"{_META}.ListMeta"),
            "items": {"type": "array", "items": _reference(name)},
        },
    }
    return {
        name: schema | _kind(resource, resource.kind),
        f"{stem}.{list_kind}": listed | _kind(resource, list_kind),
    }


def _complete(schema: Object) -> Object:
    """A copy in which the objects that a custom resource holds have what all objects have."""
    found = dict(schema)
    if properties := schema.get("properties"):
        found["properties"] = {name: _complete(part) for name, part in properties.items()}
    for key in ("items", "additionalProperties"):
        if isinstance(part := schema.get(key), dict):
            found[key] = _complete(part)
    if schema.get("x-kubernetes-embedded-resource"):
        found["properties"] = (found.get("properties") or {}) | _head(f"{_META}.ObjectMeta")
        required = dict.fromkeys([*(schema.get("required") or ()), "kind", "apiVersion"])
        found["required"] = list(required)
    return found


def _head(metadata: str) -> Object:
    return {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": _reference(metadata) | {"description": _METADATA},
    }


def _reference(name: str) -> Object:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}


def _kind(resource: Resource, kind: str) -> Object:
    gvk = {"group": resource.group, "version": resource.version, "kind": kind}
    return {"x-kubernetes-group-version-kind": [gvk]}
