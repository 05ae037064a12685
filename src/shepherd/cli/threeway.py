"""What `apply` sends: a strategic merge patch that leaves alone what others set.

The manifest as a whole is the patch, and on top of it directives remove what the manifest applied
last had and this one has not. So fields that only the server knows (defaults, what controllers
set) stay. Source: kubernetes "Declarative Management of Kubernetes Objects", how apply merges.
"""

import json
from typing import Any

from shepherd.api.resource import Object, Resource
from shepherd.api.schema import Field, Type, get_type, type_of

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's own annotation, so that both can take turns on one object."""


def with_last_applied(manifest: Object) -> Object:
    """A copy of the manifest that carries itself as its annotation."""
    metadata = manifest.get("metadata") or {}
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(LAST_APPLIED, None)
    plain = manifest | {"metadata": metadata | {"annotations": annotations}}
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False) + "\n"
    return manifest | {"metadata": metadata | {"annotations": annotations | {LAST_APPLIED: text}}}


def last_applied(obj: Object) -> Object:
    """The manifest that was applied last; empty for an object that was made in another way."""
    text = (obj["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def apply_patch(resource: Resource, previous: Object, manifest: Object) -> Object:
    """The patch that turns an object made from `previous` into one made from `manifest`."""
    kind = type_of(resource.group, resource.version, resource.kind)
    return _object(kind, previous, manifest)


def _object(kind: Type | None, previous: Object, wanted: Object) -> Object:
    patch: Object = {key: None for key in previous if key not in wanted}
    for key, value in wanted.items():
        field = kind.fields.get(key) if kind else None
        before = previous.get(key)
        if isinstance(value, dict):
            patch[key] = _object(_type(field), before if isinstance(before, dict) else {}, value)
            if field and "retainKeys" in field.strategies:
                patch[key]["$retainKeys"] = sorted(value)
        elif isinstance(value, list) and field and "merge" in field.strategies:
            patch |= _list(field, before if isinstance(before, list) else [], value)
        else:
            patch[key] = value
    return patch


def _type(field: Field | None) -> Type | None:
    if field is None or field.shape.scalar or field.shape.container == "map":
        return None
    return get_type(field.shape.of)


def _list(field: Field, previous: list[Any], wanted: list[Any]) -> Object:
    """A list whose items are merged one by one, in the manifest's order."""
    name, key = field.name, field.merge_key
    if not key:
        gone = [value for value in previous if value not in wanted]
        return {name: wanted} | ({f"$deleteFromPrimitiveList/{name}": gone} if gone else {})
    kept = [str(item.get(key)) for item in wanted if isinstance(item, dict) and key in item]
    if len(set(kept)) < len(wanted):
        # Two ports of one number (TCP and UDP): the key cannot tell the items apart.
        return {name: [{"$patch": "replace"}, *wanted]}
    before = {str(item.get(key)): item for item in previous if isinstance(item, dict)}
    items: list[Object] = []
    for item in wanted:
        merged = _object(_type(field), before.get(str(item[key]), {}), item)
        if "retainKeys" in field.strategies:
            merged["$retainKeys"] = sorted(item)
        items.append(merged)
    gone = [{key: item[key], "$patch": "delete"} for text, item in before.items()
            if text not in kept and key in item]  # fmt: skip
    return {name: items + gone, f"$setElementOrder/{name}": [{key: i[key]} for i in wanted]}
