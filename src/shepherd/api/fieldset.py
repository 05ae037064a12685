"""Sets of an object's fields, and typed comparing, merging and pruning: what server-side apply
needs of the schema.

A path is a tuple of elements as managedFields writes them: `f:name` a field, `k:{"name":"a"}` an
item by its keys, `v:"x"` an item by its value. Lists without a list type, and structs and maps
marked atomic, are one field each. Source: sigs.k8s.io/structured-merge-diff.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from shepherd.api.errors import bad_request
from shepherd.api.patch import same
from shepherd.api.resource import Object
from shepherd.api.schema import Field, Shape, Type, get_type

Path = tuple[str, ...]
FieldSet = frozenset[Path]

_KEY_DEFAULTS = {"protocol": "TCP"}
"""Of keys that may be left out."""


@dataclass(frozen=True, slots=True)
class Node:
    """How a value is taken apart."""

    form: str
    """leaf, struct, map, set (a list of scalars) or items (a list of objects with keys)."""
    of: str = ""
    """The type of a struct, or of what a map or list holds; "" for a map without a schema."""
    keys: tuple[str, ...] = ()
    implied: bool = False
    """Its coming and going are no changes of their own: Go writes such structs always."""


LEAF = Node("leaf")
FREE = Node("map")
"""An object without a schema: its objects are maps, its lists are leaves."""


def root(type: Type | None) -> Node:
    """The node of a whole object."""
    return Node("struct", type.name) if type else FREE


@cache
def _node(shape: Shape, collection: str, keys: tuple[str, ...], implied: bool) -> Node:
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


def _of_field(found: Field | None) -> Node:
    if found is None:
        return LEAF
    shape = found.shape
    listed = shape.container == "list"
    implied = found.required if listed else not found.pointer
    collection = found.list_type if listed else found.collection
    return _node(shape, collection, tuple(found.list_keys), implied)


def _of_element(node: Node) -> Node:
    """The node of what a map or list holds."""
    if not node.of:
        return FREE
    return _node(Shape("", node.of), "granular", (), False)


def _is_leaf(value: Any, node: Node) -> bool:
    if node.form in {"struct", "map"}:
        return not isinstance(value, dict)
    return node.form == "leaf" or not isinstance(value, list)


def _children(value: Any, node: Node) -> Iterator[tuple[str, Any, Node]]:
    """(path element, value, node) of each part of a value that is no leaf."""
    if node.form == "struct":
        fields = get_type(node.of).fields
        for name, item in value.items():
            yield f"f:{name}", item, _of_field(fields.get(name))
        return
    element = _of_element(node)
    if node.form == "map":
        for name, item in value.items():
            yield f"f:{name}", item, element
    elif node.form == "set":
        for item in value:
            yield f"v:{_json(item)}", item, LEAF
    else:
        for item in value:
            yield _key(item, node.keys), item, element


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _key(item: Any, keys: tuple[str, ...]) -> str:
    if not isinstance(item, dict):
        raise bad_request("associative list: an item is not an object")
    found = {}
    for key in sorted(keys):
        found[key] = item.get(key, _KEY_DEFAULTS.get(key))
        if found[key] is None:
            raise bad_request(f'associative list: an item omits its key field "{key}"')
    return f"k:{_json(found)}"


# -- sets --------------------------------------------------------------------------------------


def fields_of(obj: Object, node: Node) -> FieldSet:
    """The fields that an object sets. Raises ApiError 400 for list items without their keys."""
    found: set[Path] = set()
    _collect(obj, node, (), found)
    return frozenset(found)


def _collect(value: Any, node: Node, path: Path, found: set[Path]) -> None:
    if _is_leaf(value, node):
        found.add(path)
        return
    seen = set()
    for element, item, child in _children(value, node):
        below = (*path, element)
        if element in seen:
            key = path_text((element,))
            raise bad_request(f"{path_text(path)}: duplicate entries for key {key}")
        seen.add(element)
        _collect(item, child, below, found)
        if node.form != "struct" or item is None or item == {}:
            found.add(below)


def to_fields_v1(fields: Iterable[Path]) -> Object:
    """The set as `fieldsV1` of managedFields holds it."""
    top: Object = {}
    ends = []
    for path in sorted(fields):
        place = top
        for element in path:
            place = place.setdefault(element, {})
        ends.append(place)
    for place in ends:
        if place:
            place["."] = {}
    return top


def from_fields_v1(encoded: Object) -> FieldSet:
    """The set that a `fieldsV1` denotes. Raises ValueError."""
    found: set[Path] = set()

    def read(place: Object, path: Path) -> None:
        if path and not place:
            found.add(path)
        for element, below in place.items():
            if element == "." and path:
                found.add(path)
            elif element[:2] in {"f:", "k:", "v:", "i:"} and isinstance(below, dict):
                read(below, (*path, element))
            else:
                raise ValueError(f"fieldsV1 has no sense at {element!r}")

    read(encoded, ())
    return frozenset(found)


def path_text(path: Path) -> str:
    """`.spec.containers[name="web"].image`, as conflicts name fields."""
    parts = []
    for element in path:
        rest = element[2:]
        match element[0]:
            case "f":
                parts.append(f".{rest}")
            case "k":
                keys: dict[str, Any] = msgspec.json.decode(rest)
                parts.append("[" + ",".join(f"{k}={_json(v)}" for k, v in keys.items()) + "]")
            case "v":
                parts.append(f"[={rest}]")
            case _:
                parts.append(f"[{rest}]")
    return "".join(parts)


# -- comparing ---------------------------------------------------------------------------------

_MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()


@dataclass(slots=True)
class Changes:
    """What differs between two objects."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)


def compare(old: Object, new: Object, node: Node) -> Changes:
    """The fields in which `new` differs from `old`."""
    changes = Changes()
    _compare(old, new, node, (), changes)
    return changes


def _compare(old: Any, new: Any, node: Node, path: Path, changes: Changes) -> None:
    parts = [value for value in (old, new) if value is not _MISSING]
    leaves = [_is_leaf(value, node) for value in parts]
    if all(leaves) or not any(parts):
        if old is _MISSING:
            changes.added.add(path)
        elif new is _MISSING:
            changes.removed.add(path)
        elif not same(old, new):
            changes.modified.add(path)
        return
    if any(leaves):  # a leaf became an object, or the other way round
        _compare(old, _MISSING, node, path, changes)
        _compare(_MISSING, new, node, path, changes)
        return
    before = {} if old is _MISSING else {e: (v, n) for e, v, n in _children(old, node)}
    after = {} if new is _MISSING else {e: (v, n) for e, v, n in _children(new, node)}
    for element in {**before, **after}:
        was, child = before.get(element, (_MISSING, LEAF))
        becomes, child = after.get(element, (_MISSING, child))
        if was is not becomes:
            _compare(was, becomes, child, (*path, element), changes)
    if old is _MISSING and not node.implied:
        changes.added.add(path)
    elif new is _MISSING and not node.implied:
        changes.removed.add(path)


# -- merging and pruning -----------------------------------------------------------------------


def merge(live: Any, config: Any, node: Node) -> Any:
    """`live` with what `config` says: structs and keyed lists merge, all else is replaced.

    Lists take the order of `config`; items that only `live` has keep their place among them.
    """
    if _is_leaf(config, node) or _is_leaf(live, node):
        return config
    if node.form in {"struct", "map"}:
        result = dict(live)
        for element, item, child in _children(config, node):
            name = element[2:]
            result[name] = merge(live[name], item, child) if name in live else item
        return result
    old = {element: item for element, item, _ in _children(live, node)}
    new = {element: item for element, item, _ in _children(config, node)}
    if len(new) < len(config):
        raise bad_request("associative list: two items have the same keys")
    child = _of_element(node) if node.form == "items" else LEAF
    merged = {e: merge(old[e], item, child) if e in old else item for e, item in new.items()}
    return [merged[e] if e in merged else old[e] for e in _interleaved(list(old), list(new))]


def _interleaved(old: list[str], new: list[str]) -> Iterator[str]:
    """The elements of `new` in order, among them those that only `old` has, where they stood."""
    wanted = set(new)
    places = {element: at for at, element in enumerate(old)}
    at = 0
    for element in new:
        place = places.get(element, -1)
        while at < len(old) and (at < place or old[at] not in wanted):
            if old[at] not in wanted:
                yield old[at]
            at += 1
        if place == at:
            at += 1
        yield element
    yield from (element for element in old[at:] if element not in wanted)


def remove(value: Any, node: Node, fields: Iterable[Path]) -> Any:
    """A value without these fields and without what that leaves empty."""
    gone: Object = {}
    for path in sorted(fields, key=len, reverse=True):  # the whole of a part after its parts
        place = gone
        for element in path[:-1]:
            place = place.setdefault(element, {})
        place[path[-1]] = None
    return _removed(value, node, gone)


def _removed(value: Any, node: Node, gone: Object) -> Any:
    if _is_leaf(value, node):
        return value
    kept: list[tuple[str, Any]] = []
    for element, item, child in _children(value, node):
        below = gone.get(element, {})
        if below is None:
            continue
        left = _removed(item, child, below) if below else item
        if left or not item or left is item:
            kept.append((element, left))
    if node.form in {"struct", "map"}:
        return {element[2:]: item for element, item in kept}
    return [item for _, item in kept]
