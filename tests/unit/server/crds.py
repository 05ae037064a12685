"""CustomResourceDefinitions for tests."""

from typing import Any

from shepherd.api.resource import Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {
    "type": "object",
    "required": ["colour"],
    "properties": {
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "replicas": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
        "note": {"type": "string", "nullable": True, "maxLength": 10},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-z]+$"},
                    "port": {"x-kubernetes-int-or-string": True},
                },
            },
        },
    },
    "x-kubernetes-validations": [
        {"rule": "self.colour != 'red' || self.replicas <= 5", "message": "red is dear"},
        {"rule": "self.replicas >= oldSelf.replicas", "message": "may not shrink"},
    ],
}
STATUS = {
    "type": "object",
    "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
}


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> Object:
    """A version of the kind Tube."""
    properties = {"spec": SPEC, "status": STATUS}
    made = {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}},
    }
    return made | more


def crd(
    *versions: Object, kind: str = "Tube", scope: str = "Namespaced", **spec: Any
) -> Object:
    """The CRD of a kind in the group example.com."""
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {
                "plural": plural,
                "kind": kind,
                "shortNames": [f"{kind.lower()[:2]}"],
                "categories": ["all"],
            },
            "versions": list(versions) or [version()],
        }
        | spec,
    }


def tube(name: str = "t1", api_version: str = "example.com/v1", **spec: Any) -> Object:
    """A Tube."""
    return {
        "apiVersion": api_version,
        "kind": "Tube",
        "metadata": {"name": name},
        "spec": {"colour": "blue"} | spec,
    }


def tubes(namespace: str = "default", version: str = "v1") -> str:
    """The path of the collection."""
    return f"/apis/example.com/{version}/namespaces/{namespace}/tubes"
