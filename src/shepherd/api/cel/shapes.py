"""What is known of a value before there is one: its type, and how large it can be.

Source: apiserver pkg/cel/types.go, DeclType; pkg/cel/common/schemas.go, whose estimates these are.
"""

from dataclasses import dataclass, field
from typing import Any

from shepherd.api.cel.names import escaped
from shepherd.api.resource import Object

MAX_BYTES = 3 * 1024 * 1024
"""Of an object: what has no bound of its own is no larger."""

_SCALARS = {"boolean": ("bool", 4), "number": ("double", 1), "integer": ("int", 1)}
FORMATS = {
    "byte": ("bytes", 2, MAX_BYTES - 2),
    "duration": ("duration", 3, 32),
    "date": ("timestamp", 12, 12),
    "date-time": ("timestamp", 21, 32),
}
"""Of texts that are something else to expressions: their type, and how short and long they are."""
_META = ("name", "generateName")


@dataclass(frozen=True, slots=True)
class Shape:
    """Of values of one type."""

    kind: str
    """null, bool, int, double, string, bytes, timestamp, duration, list, map, object, or dyn for
    what can be any of them."""
    size: float = 1
    """How many items, or bytes of text, it has at most."""
    least: int = 1
    """How many bytes it takes at least, written as JSON."""
    keys: float = 0
    """How long a map's keys are, where they are known."""
    item: "Shape | None" = None
    """Of what a list or map holds, and of an object's fields that are not listed."""
    fields: "dict[str, Shape]" = field(default_factory=dict)
    """Of an object, named as expressions name them."""
    format: str = ""
    """Of a text that is something else to expressions."""

    @property
    def repeats(self) -> int:
        """How often such a value can occur in one object."""
        return MAX_BYTES // (self.least + 1)

    @property
    def text(self) -> str:
        """As messages name it."""
        match self.kind:
            case "list":
                return f"list({(self.item or DYN).text})"
            case "map":
                return f"map(string, {(self.item or DYN).text})"
        return self.kind


DYN = Shape("dyn", MAX_BYTES)
NAME = Shape("string", MAX_BYTES, 2)


def shape_of(schema: Object, *, resource: bool = False) -> Shape | None:
    """The shape of what a structural schema describes; None for what rules cannot see."""
    if schema.get("x-kubernetes-int-or-string"):
        return Shape("dyn", _length(schema, MAX_BYTES - 2))
    match schema.get("type"):
        case "array":
            return _list(schema)
        case "object":
            more = schema.get("additionalProperties")
            if isinstance(more, dict):
                return _map(schema, more)
            return _object(schema, resource or bool(schema.get("x-kubernetes-embedded-resource")))
        case "string":
            return _string(schema)
        case str(kind) if kind in _SCALARS:
            name, least = _SCALARS[kind]
            return Shape(name, 0, least)
    return None


def measured(value: Any) -> Shape:
    """The shape of a value that is there."""
    match value:
        case bool():
            return Shape("bool", 0)
        case int() | float():
            return Shape("dyn", 0)
        case str():
            return Shape("string", len(value))
        case list():
            return Shape("list", len(value), item=covering([measured(one) for one in value]))
        case dict():
            fields = {name: measured(one) for name, one in value.items()}
            item = covering(list(fields.values()))
            return Shape("object", len(value), 2, max(map(len, value), default=0), item, fields)
    return Shape("null")


def covering(shapes: list[Shape]) -> Shape:
    """One that is as large as the largest of each kind, wherever it is entered."""
    size = max((shape.size for shape in shapes), default=0)
    keys = max((shape.keys for shape in shapes), default=0)
    below = [shape.item for shape in shapes if shape.item]
    if not below:
        kinds = {shape.kind for shape in shapes}
        return Shape(kinds.pop() if len(kinds) == 1 else "dyn", size, keys=keys)
    return Shape("dyn", size, keys=keys, item=covering(below))


def _list(schema: Object) -> Shape | None:
    items = schema.get("items")
    item = shape_of(items) if isinstance(items, dict) else None
    if item is None:
        return None
    most = schema.get("maxItems")
    size = (MAX_BYTES - 2) // (item.least + 1) if most is None else max(most, 0)
    return Shape("list", size, 2, item=item)


def _map(schema: Object, more: Object) -> Shape | None:
    item = shape_of(more)
    if item is None:
        return None
    most = schema.get("maxProperties")
    size = (MAX_BYTES - 2) // (item.least + 6) if most is None else max(most, 0)
    return Shape("map", size, 2, item=item)


def _object(schema: Object, resource: bool) -> Shape:
    required = schema.get("required") or ()
    fields: dict[str, Shape] = {}
    least = 2
    for name, part in (schema.get("properties") or {}).items():
        if (found := shape_of(part)) is None:
            continue
        fields[escaped(name)] = found
        if name in required and "default" not in part:
            least += len(name) + found.least + 4
    if resource:
        metadata = Shape("object", 1, 2, fields=dict.fromkeys(_META, NAME))
        fields |= {"apiVersion": NAME, "kind": NAME, "metadata": metadata}
    return Shape("object", 1, least, fields=fields)


def _string(schema: Object) -> Shape:
    meant = schema.get("format", "")
    if found := FORMATS.get(meant):
        kind, least, size = found
        if meant == "byte" and (most := schema.get("maxLength")) is not None:
            size = max(most, 0)
        return Shape(kind, size, least, format=meant)
    longest = max((len(one) for one in schema.get("enum") or () if isinstance(one, str)), default=0)
    return Shape("string", _length(schema, longest or MAX_BYTES - 2), 2)


def _length(schema: Object, otherwise: float) -> float:
    """Of a text in bytes; a character takes four at most."""
    most = schema.get("maxLength")
    return otherwise if most is None else 4 * max(most, 0)
