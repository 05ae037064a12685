"""Which schemas a CustomResourceDefinition may have: structural ones, whose defaults fit and whose
rules compile.

Source: apiextensions-apiserver pkg/apiserver/schema/validation.go and
pkg/apis/apiextensions/validation/validation.go, whose messages these are.
"""

from collections.abc import Iterator
from typing import Any

from shepherd.api import errors
from shepherd.api.cel import expressions as cel
from shepherd.api.check import WrongType
from shepherd.api.custom.rulechecks import check_rules
from shepherd.api.custom.rules import Rules
from shepherd.api.custom.structural import ABSENT, Structural
from shepherd.api.errors import FieldError
from shepherd.api.patch import same
from shepherd.api.resource import Object

MAX_DEPTH = 50
"""Of a schema's nodes below each other."""

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_META = ("metadata", "kind", "apiVersion")
_RULE = "x-kubernetes-validations"
_LISTS, _KEYS, _MAPS = (
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
)  # fmt: skip
_OPEN, _EMBEDDED, _INTSTR = (
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
)  # fmt: skip
_UNSUPPORTED = ("definitions", "dependencies", "patternProperties", "additionalItems", "$ref", "id")
# What a schema inside allOf, anyOf, oneOf and not may not say, and why.
_NOT_NESTED = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    _OPEN: "must be false to be structural",
    _EMBEDDED: "must be false to be structural",
    _INTSTR: "must be false to be structural",
    _KEYS: "must be empty to be structural",
    _LISTS: "must be undefined to be structural",
    _MAPS: "must be undefined to be structural",
    _RULE: "must be empty to be structural",
}
_EMPTY_WORDS = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def check_schema(schema: Object, path: str) -> list[FieldError]:
    """What is wrong with an openAPIV3Schema that stands at `path`."""
    if _too_deep(schema):
        return [errors.invalid_value(path, "", f"may not be nested more than {MAX_DEPTH} deep")]
    found = list(_node(schema, path, "root"))
    if schema.get("nullable"):
        detail = "nullable cannot be true at the root"
        found.append(errors.forbidden_field(f"{path}.nullable", detail))
    if found:
        return found
    found = list(_defaults(schema, path))
    return found or check_rules(schema, path)


def _too_deep(schema: Object) -> bool:
    level: list[Any] = [schema]
    for _ in range(2 * MAX_DEPTH):  # a node takes two levels: its own, and that of its properties
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


# -- structure ---------------------------------------------------------------------------------


def _node(schema: Object, path: str, level: str) -> Iterator[FieldError]:
    """A node outside of junctors. `level`: root, field or item."""
    yield from _own_type(schema, path, level)
    yield from _lists(schema, path)
    yield from _general(schema, path)
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    items = schema.get("items")
    if schema.get("type") == "array" and items is None:
        yield errors.required(f"{path}.items", "must be specified")
    if isinstance(items, list):
        detail = "items must be a schema object and not an array"
        yield errors.forbidden_field(f"{path}.items", detail)
    elif items is not None:
        yield from _node(items, f"{path}.items", "item")
    if more is not None and level == "root":
        yield errors.forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    elif more is not None and properties and more is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        yield errors.forbidden_field(f"{path}.additionalProperties", detail)
    if isinstance(more, dict):
        yield from _node(more, f"{path}.additionalProperties", "field")
    whole = level == "root" or bool(schema.get(_EMBEDDED))
    for name, part in properties.items():
        place = f"{path}.properties[{name}]"
        if whole and name in _META:
            yield from _meta(name, part, place, level)
        else:
            yield from _node(part, place, "field")
    yield from _junctors(schema, path, schema)


def _own_type(schema: Object, path: str, level: str) -> Iterator[FieldError]:
    kind, place = schema.get("type", ""), f"{path}.type"
    if kind and kind not in _TYPES:
        yield errors.not_supported(place, kind, list(_TYPES))
    if schema.get(_EMBEDDED) and kind != "object":
        detail = f"must be object if {_EMBEDDED} is true"
        yield errors.invalid_value(place, kind, detail) if kind else errors.required(place, detail)
    elif not kind and not schema.get(_INTSTR) and not schema.get(_OPEN):
        yield errors.required(place, _EMPTY_WORDS[level])
    elif kind and schema.get(_INTSTR):
        detail = f"must be empty if {_INTSTR} is true"
        yield errors.forbidden_field(place, detail)
    if level == "root" and kind and kind != "object":
        yield errors.invalid_value(place, kind, "must be object at the root")
    if schema.get(_INTSTR):
        for name in (_OPEN, _EMBEDDED):
            if schema.get(name):
                detail = f"must be false if {_INTSTR} is true"
                yield errors.invalid_value(f"{path}.{name}", True, detail)
    if schema.get(_EMBEDDED) and not schema.get(_OPEN) and not schema.get("properties"):
        yield errors.required(
            f"{path}.properties", f"must not be empty if {_EMBEDDED} is true without {_OPEN}"
        )


def _meta(name: str, schema: Object, path: str, level: str) -> Iterator[FieldError]:
    """apiVersion, kind and metadata of a whole object, which have a schema of their own."""
    if name != "metadata":
        if schema.get("type") != "string":
            yield errors.invalid_value(f"{path}.type", schema.get("type", ""), "must be string")
        return
    if schema.get("type") != "object":
        yield errors.invalid_value(f"{path}.type", schema.get("type", ""), "must be object")
    extra = set(schema) - {"type", "properties", "description"}
    extra |= set(schema.get("properties") or ()) - {"name", "generateName"}
    if level == "root" and extra:
        yield errors.forbidden_field(
            path,
            "must not specify anything other than name and generateName, "
            "but metadata is implicitly specified",
        )


def _general(schema: Object, path: str) -> Iterator[FieldError]:
    for name in _UNSUPPORTED:
        if schema.get(name):
            yield errors.forbidden_field(f"{path}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield errors.forbidden_field(f"{path}.uniqueItems", detail)
    if schema.get(_OPEN) is False:
        yield errors.invalid_value(f"{path}.{_OPEN}", False, "must be true or undefined")
    yield from _pattern(schema, path)
    if (kind := schema.get(_MAPS)) is not None:
        if kind not in ("atomic", "granular"):
            yield errors.not_supported(f"{path}.{_MAPS}", kind, ["atomic", "granular"])
        if schema.get("type") != "object":
            detail = f"must be object if {_MAPS} is specified"
            yield errors.invalid_value(f"{path}.type", schema.get("type", ""), detail)


def _pattern(schema: Object, path: str) -> Iterator[FieldError]:
    if pattern := schema.get("pattern"):
        try:
            cel.matcher(pattern)
        except cel.CelError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield errors.invalid_value(f"{path}.pattern", pattern, detail)


def _lists(schema: Object, path: str) -> Iterator[FieldError]:
    kind, keys, items = schema.get(_LISTS), schema.get(_KEYS) or [], schema.get("items")
    if kind is not None:
        if kind not in ("atomic", "set", "map"):
            yield errors.not_supported(f"{path}.{_LISTS}", kind, ["atomic", "set", "map"])
        if schema.get("type") != "array":
            detail = f"must be array if {_LISTS} is specified"
            yield errors.invalid_value(f"{path}.type", schema.get("type", ""), detail)
    if keys and kind != "map":
        detail = f"must be map if {_KEYS} is non-empty"
        yield errors.invalid_value(f"{path}.{_LISTS}", kind or "", detail)
    if not isinstance(items, dict) or kind not in ("set", "map"):
        return
    if items.get("nullable"):
        detail = f"cannot be nullable when {_LISTS} is {kind}"
        yield errors.forbidden_field(f"{path}.items.nullable", detail)
    if kind == "map":
        yield from _list_keys(keys, items, path)
    elif items.get("type") == "object" and items.get(_MAPS) != "atomic":
        detail = f"must be atomic as item of a list with {_LISTS}=set"
        yield errors.invalid_value(f"{path}.items.{_MAPS}", items.get(_MAPS) or "", detail)


def _list_keys(keys: list[str], items: Object, path: str) -> Iterator[FieldError]:
    if not keys:
        yield errors.required(f"{path}.{_KEYS}", f"must not be empty if {_LISTS} is map")
    if items.get("type") != "object":
        detail = f"must be object if parent array's {_LISTS} is map"
        yield errors.invalid_value(f"{path}.items.type", items.get("type", ""), detail)
        return
    if len(set(keys)) < len(keys):
        yield errors.invalid_value(f"{path}.{_KEYS}", keys, "must not contain duplicate entries")
    named = items.get("properties") or {}
    if not named.keys() >= set(keys):
        detail = "entries must all be names of item properties"
        yield errors.invalid_value(f"{path}.{_KEYS}", keys, detail)
    for key in dict.fromkeys(keys):
        part, place = named.get(key), f"{path}.items.properties[{key}]"
        if part is None:
            continue
        if part.get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {_LISTS} is map"
            yield errors.invalid_value(f"{place}.type", part["type"], detail)
        elif key not in (items.get("required") or ()) and "default" not in part:
            yield errors.required(
                f"{place}.default",
                f"this property is in {_KEYS}, so it must have a default or be a required property",
            )
        elif part.get("nullable"):
            detail = f"this property is in {_KEYS}, so it cannot be nullable"
            yield errors.forbidden_field(f"{place}.nullable", detail)


# -- junctors ----------------------------------------------------------------------------------


def _junctors(schema: Object, path: str, outer: Object | None) -> Iterator[FieldError]:
    """What stands in allOf, anyOf, oneOf and not. `outer` is the node that says the structure."""
    for name in ("allOf", "anyOf", "oneOf"):
        for at, part in enumerate(schema.get(name) or ()):
            if name == "anyOf" and outer and outer.get(_INTSTR) and schema[name] == _INT_OR_STRING:
                continue
            yield from _nested(part, f"{path}.{name}[{at}]", outer)
    if schema.get("not") is not None:
        yield from _nested(schema["not"], f"{path}.not", outer)


def _nested(schema: Object, path: str, outer: Object | None) -> Iterator[FieldError]:
    for name, detail in _NOT_NESTED.items():
        if schema.get(name) not in (None, "", False, []):
            yield errors.forbidden_field(f"{path}.{name}", detail)
    yield from _pattern(schema, path)
    outer = outer or {}
    for name, part in (schema.get("properties") or {}).items():
        place = f"{path}.properties[{name}]"
        below = (outer.get("properties") or {}).get(name)
        if name == "metadata":
            yield errors.forbidden_field(place, "must not be specified in a nested context")
        elif below is None:
            where = _outside(place)
            yield errors.required(where, f"because it is defined in {place}")
        else:
            yield from _nested(part, place, below)
    items = schema.get("items")
    if isinstance(items, dict):
        if not isinstance(outer.get("items"), dict):
            place = f"{path}.items"
            yield errors.required(_outside(place), f"because it is defined in {place}")
        else:
            yield from _nested(items, f"{path}.items", outer["items"])
    yield from _junctors(schema, path, outer)


def _outside(path: str) -> str:
    """Where, outside of all junctors, the structure of a nested path belongs."""
    parts = [part for part in path.split(".") if part.partition("[")[0] not in
             ("allOf", "anyOf", "oneOf", "not")]  # fmt: skip
    return ".".join(parts)


# -- defaults and rules ------------------------------------------------------------------------


def children(schema: Object, path: str) -> Iterator[tuple[str, str, Object]]:
    """(how, path, schema) of the nodes right below: property, value or item."""
    for name, part in (schema.get("properties") or {}).items():
        yield "property", f"{path}.properties[{name}]", part
    for key, how in (("additionalProperties", "value"), ("items", "item")):
        if isinstance(schema.get(key), dict):
            yield how, f"{path}.{key}", schema[key]


def _defaults(schema: Object, path: str) -> Iterator[FieldError]:
    """Each default must be valid, and hold nothing that would be pruned."""
    if "default" in schema:
        value, place = schema["default"], f"{path}.default"
        node = Structural(schema)
        unknown: list[str] = []
        try:
            pruned = node.prune(value, "", unknown)
        except WrongType as error:
            yield errors.invalid_value(place, value, str(error))
            return
        if not same(pruned, value):
            yield errors.invalid_value(place, value, "must not have unknown fields")
        found: list[FieldError] = []
        node.validate(value, place, found)
        yield from found or Rules(node).check(value, ABSENT, place)
    for _, place, part in children(schema, path):
        yield from _defaults(part, place)
