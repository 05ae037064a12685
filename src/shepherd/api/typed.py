"""Objects under their schema, field by field: comparing, merging and pruning for server-side apply.

Lists without a list type, and structs and maps marked atomic, are one field each. Inputs are never
changed; results share their parts. Source: sigs.k8s.io/structured-merge-diff, typed.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from shepherd.api.errors import bad_request
from shepherd.api.fieldset import MEMBER, FieldSet, Path, as_json, is_member, path_text
from shepherd.api.resource import Object
from shepherd.api.schema import Field, Shape, Type, get_type

Keys = tuple[tuple[str, Any], ...]
"""The fields that tell the items of a list apart, each with what its absence means; None: that the
item has no such key. Not all of them may be absent."""


@dataclass(frozen=True, slots=True)
class Node:
    """How a value is taken apart."""

    form: str
    """leaf, struct, map, set (a list of scalars) or items (a list of objects with keys)."""
    of: str = ""
    """The type of a struct, or of what a map or list holds; "" for a map without a schema."""
    keys: Keys = ()
    implied: bool = False
    """Its coming and going are no changes of their own: Go writes such structs always."""
    schema: "Schema | None" = None
    """Says what its parts are, instead of `of`."""


class Schema(Protocol):
    """The parts of a value, of kinds that the schema data does not know."""

    def part(self, name: str) -> Node:
        """The node of an object's field, or of a list's items."""
        ...


LEAF = Node("leaf")
_UNKNOWN = ("", LEAF)
FREE = Node("map")
"""An object without a schema: its objects are maps, its lists are leaves."""


def root(type: Type | Node | None) -> Node:
    """The node of a whole object."""
    if isinstance(type, Node):
        return type
    return Node("struct", type.name) if type else FREE


@cache
def _node(shape: Shape, collection: str, keys: Keys, implied: bool) -> Node:
    match shape.container:
        case "list" if collection == "map":
            return Node("items", shape.of, keys, implied)
        case "list" if collection == "set":
            return Node("set", shape.of, implied=implied)
        case "map" if collection != "atomic":
            return Node("map", shape.of)
        case "map of lists":
            return Node("map", "string")
        case "" if not shape.scalar and collection != "atomic":
            atomic = get_type(shape.of).atomic and collection != "granular"
            return LEAF if atomic else Node("struct", shape.of, implied=implied)
    return LEAF


def _of_field(found: Field) -> Node:
    shape = found.shape
    listed = shape.container == "list"
    implied = found.required if listed else not found.pointer
    collection = found.list_type if listed else found.collection
    keys = tuple((key, _key_default(shape.of, key)) for key in sorted(found.list_keys))
    return _node(shape, collection, keys, implied)


def _key_default(of: str, key: str) -> Any:
    found = get_type(of).fields.get(key)
    return found.default if found else None


@cache
def _fields(of: str) -> dict[str, tuple[str, Node]]:
    """The path elements and nodes of a struct's fields."""
    return {name: (f"f:{name}", _of_field(field)) for name, field in get_type(of).fields.items()}


@cache
def _element(of: str) -> Node:
    """The node of what a map or list holds."""
    return _node(Shape("", of), "granular", (), False) if of else FREE


def _child(node: Node, name: str) -> Node:
    if node.schema:
        return node.schema.part(name)
    if node.form == "struct":
        return _fields(node.of).get(name, _UNKNOWN)[1]
    return LEAF if node.form == "set" else _element(node.of)


def _is_leaf(value: Any, node: Node) -> bool:
    if node.form == "struct" or node.form == "map":
        return not isinstance(value, dict)
    return node.form == "leaf" or not isinstance(value, list)


def _named(node: Node) -> str:
    """What path elements put before the names of a node's parts."""
    return "f:" if node.form in {"struct", "map"} else ""


def _parts(value: Any, node: Node) -> dict[str, Any]:
    """The parts of a value that is no leaf; those of a list by their path elements."""
    if node.form == "set":
        return {f"v:{as_json(item)}": item for item in value}
    if node.form == "items":
        return {_key(item, node.keys): item for item in value}
    parts: dict[str, Any] = value
    return parts


def _key(item: Any, keys: Keys) -> str:
    if not isinstance(item, dict):
        raise bad_request("associative list: an item is not an object")
    found = []
    for key, default in keys:
        value = item.get(key, default)
        if value is not None:
            found.append(f'"{key}":{as_json(value)}')
    if not found:
        names = as_json([key for key, _ in keys])
        raise bad_request(f"associative list: an item omits all key fields {names}")
    return "k:{" + ",".join(found) + "}"


def _listed(value: list[Any], node: Node) -> list[tuple[str, Any]]:
    """The items of a list with their path elements; unlike parts, an element may come twice."""
    if node.form == "set":
        return [(f"v:{as_json(item)}", item) for item in value]
    return [(_key(item, node.keys), item) for item in value]


# -- fields ------------------------------------------------------------------------------------


def fields_of(config: Object, node: Node) -> FieldSet:
    """The fields that an applied configuration sets.

    Raises ApiError 400 for list items without their keys, or two with the same.
    """
    return _set_by(config, node, ())


def _set_by(value: Any, node: Node, path: Path) -> FieldSet:
    if _is_leaf(value, node):
        return MEMBER
    named, parts, found = _named(node), _parts(value, node), {}
    if len(parts) < len(value):
        counts = Counter(element for element, _ in _listed(value, node))
        twice = next(element for element, count in counts.items() if count > 1)
        raise bad_request(f"{path_text(path)}: duplicate entries for key {path_text((twice,))}")
    for name, item in parts.items():
        element, child = named + name, _child(node, name)
        below = _set_by(item, child, (*path, element))
        if _is_leaf(item, child) or item == {}:
            found[element] = MEMBER
        elif node.form != "struct":
            found[element] = below | {".": MEMBER} if below else MEMBER
        elif below:
            found[element] = below
    return found


# -- comparing ---------------------------------------------------------------------------------

_MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two objects."""

    set: FieldSet
    """The fields that were added or have another value."""
    removed: FieldSet


def compare(old: Object, new: Object, node: Node) -> Changes:
    """The fields in which `new` differs from `old`. Equal parts cost next to nothing."""
    found: FieldSet = {}
    removed: FieldSet = {}
    _compare(old, new, node, found, removed)
    return Changes(found, removed)


def _compare(old: Any, new: Any, node: Node, found: FieldSet, removed: FieldSet) -> None:
    """Both are no leaves. Fills in what differs below them."""
    named, before, after = _named(node), _parts(old, node), _parts(new, node)
    for name, value in after.items():
        was = before.get(name, _MISSING)
        if was is value or was == value:
            continue
        element, child = named + name, _child(node, name)
        leaves = _is_leaf(was, child) + _is_leaf(value, child)
        if was is _MISSING or leaves == 2:
            found[element] = _whole(value, child)
        elif leaves:  # a leaf became an object, or the other way round
            found[element], removed[element] = _whole(value, child), _whole(was, child)
        else:
            below: tuple[FieldSet, FieldSet] = {}, {}
            _compare(was, value, child, *below)
            for fields, changed in zip((found, removed), below, strict=True):
                if changed:
                    fields[element] = changed
    for name, was in before.items():
        if name not in after:
            removed[named + name] = _whole(was, _child(node, name))


def _whole(value: Any, node: Node) -> FieldSet:
    """What comes or goes with a value: its parts, and itself."""
    if not value or _is_leaf(value, node):
        return MEMBER
    found: FieldSet = {}
    if node.form == "struct":
        fields = _fields(node.of) if node.of else {}
        for name, item in value.items():
            element, child = fields.get(name) or (f"f:{name}", _child(node, name))
            found[element] = MEMBER if child is LEAF else _whole(item, child)
    else:
        child, named = _child(node, ""), _named(node)
        found = {named + name: _whole(item, child) for name, item in _parts(value, node).items()}
    if not node.implied:
        found["."] = MEMBER
    return found


# -- merging and pruning -----------------------------------------------------------------------


def merge(live: Any, config: Any, node: Node) -> Any:
    """`live` with what `config` says: structs and keyed lists merge, all else is replaced.

    Lists take the order of `config`; items that only `live` has keep their place among them.
    """
    if _is_leaf(config, node) or _is_leaf(live, node):
        return config
    if node.form in {"struct", "map"}:
        result = dict(live)
        for name, item in config.items():
            has = name in live
            result[name] = merge(live[name], item, _child(node, name)) if has else item
        return result
    old, new, child = _parts(live, node), _parts(config, node), _child(node, "")
    merged = {e: merge(old[e], item, child) if e in old else item for e, item in new.items()}
    return list(_interleaved(_listed(live, node), merged))


def _interleaved(old: list[tuple[str, Any]], new: dict[str, Any]) -> Iterator[Any]:
    """The items of `new` in order, among them those that only `old` has, where they stood."""
    places = {element: at for at, (element, _) in enumerate(old)}
    at = 0
    for element, item in new.items():
        place = places.get(element, -1)
        while at < len(old) and (at < place or old[at][0] not in new):
            if old[at][0] not in new:
                yield old[at][1]
            at += 1
        if place == at:
            at += 1
        yield item
    yield from (item for element, item in old[at:] if element not in new)


def remove(value: Any, node: Node, fields: FieldSet) -> Any:
    """A value without these fields and without what that leaves empty."""
    if _is_leaf(value, node):
        return value
    named, child = _named(node), LEAF
    kept: list[tuple[str, Any]] = []
    for name, item in value.items() if named else _listed(value, node):
        below = fields.get(named + name)
        left = item
        if below is not None:
            if is_member(below):
                continue
            child = _child(node, name)
            left = remove(item, child, below)
        if left or not item or left is item:
            kept.append((name, left))
    return dict(kept) if named else [item for _, item in kept]
