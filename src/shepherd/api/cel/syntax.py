"""The syntax tree of a compiled expression, read from the form in which the library writes it out.

Macros are expanded: `all`, `exists`, `map` and the like are `Loop`s. Source: cel-spec,
proto/cel/expr/{checked,syntax}.proto.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shepherd.api.protobuf import Wire, wires

_CONSTANTS = {1: "null", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}
_PRIMITIVES = ("dyn", "bool", "int", "uint", "double", "string", "bytes")
_KNOWN = ("dyn", "dyn", "timestamp", "duration")


@dataclass(slots=True)
class Node:
    """Any expression. `id` finds its type and position."""

    id: int


@dataclass(slots=True)
class Constant(Node):
    kind: str
    value: Any


@dataclass(slots=True)
class Name(Node):
    name: str


@dataclass(slots=True)
class Select(Node):
    operand: Node
    field: str
    test: bool
    """It is asked whether the field is there: `has(a.b)`."""


@dataclass(slots=True)
class Call(Node):
    function: str
    target: Node | None
    arguments: list[Node]


@dataclass(slots=True)
class List(Node):
    items: list[Node]


@dataclass(slots=True)
class Map(Node):
    entries: list[tuple[Node, Node]]


@dataclass(slots=True)
class Loop(Node):
    names: list[str]
    """Of the loop's variables: one, or two."""
    range: Node
    result_name: str
    start: Node
    condition: Node
    step: Node
    result: Node


@dataclass(slots=True)
class Tree:
    """A whole expression."""

    root: Node
    types: dict[int, str]
    """The static types that are known: bool, int, string, list..."""
    positions: dict[int, int]
    """Where an expression stands, in characters."""


def parts(node: Node) -> Iterator[Node]:
    """It, and all that it is made of."""
    yield node
    below: list[Node] = []
    match node:
        case Select():
            below = [node.operand]
        case Call():
            below = [node.target, *node.arguments] if node.target else node.arguments
        case List():
            below = node.items
        case Map():
            below = [one for entry in node.entries for one in entry]
        case Loop():
            below = [node.range, node.start, node.condition, node.step, node.result]
    for one in below:
        yield from parts(one)


def read_tree(written: bytes) -> Tree:
    """From what `cel.Expression.serialize` answers."""
    types: dict[int, str] = {}
    positions: dict[int, int] = {}
    root = Node(0)
    envelope = _fields(written)  # a protobuf Any
    checked = _text(envelope[1]).endswith("CheckedExpr")
    for number, wire in wires(_bytes(envelope.get(2, b""))):
        match number if checked else number + 2:
            case 3:
                entry = _fields(wire)
                types[_int(entry.get(1, 0))] = _type(entry.get(2, b""))
            case 4:
                root = _node(wire)
            case 5:
                for part, inner in wires(_bytes(wire)):
                    if part == 4:
                        entry = _fields(inner)
                        positions[_int(entry.get(1, 0))] = _int(entry.get(2, 0))
    return Tree(root, types, positions)


def _bytes(wire: Wire) -> bytes:
    assert isinstance(wire, bytes)
    return wire


def _int(wire: Wire) -> int:
    assert isinstance(wire, int)
    return wire - (1 << 64) if wire >> 63 else wire


def _text(wire: Wire) -> str:
    return _bytes(wire).decode()


def _fields(wire: Wire) -> dict[int, Wire]:
    """The last of each field."""
    return dict(wires(_bytes(wire)))


def _all(wire: Wire, number: int) -> list[Wire]:
    return [value for found, value in wires(_bytes(wire)) if found == number]


def _type(wire: Wire) -> str:
    for number, value in wires(_bytes(wire)):
        match number:
            case 2:
                return "null"
            case 3:
                return _PRIMITIVES[_int(value)]
            case 5:
                return _KNOWN[_int(value)]
            case 6:
                return "list"
            case 7:
                return "map"
            case 11:
                return "type"
    return "dyn"


def _node(wire: Wire) -> Node:
    own = 0
    for number, value in wires(_bytes(wire)):
        match number:
            case 2:
                own = _int(value)
            case 3:
                return _constant(own, value)
            case 4:
                return Name(own, _text(_fields(value).get(1, b"")))
            case 5:
                parts = _fields(value)
                operand, field = _node(parts.get(1, b"")), _text(parts.get(2, b""))
                return Select(own, operand, field, bool(parts.get(3, 0)))
            case 6:
                parts = _fields(value)
                target = _node(parts[1]) if 1 in parts else None
                arguments = [_node(one) for one in _all(value, 3)]
                return Call(own, _text(parts.get(2, b"")), target, arguments)
            case 7:
                return List(own, [_node(one) for one in _all(value, 1)])
            case 8:
                entries = [_fields(one) for one in _all(value, 2)]
                return Map(own, [(_node(e.get(3, b"")), _node(e.get(4, b""))) for e in entries])
            case 9:
                return _loop(own, _fields(value))
    return Node(own)


def _constant(own: int, wire: Wire) -> Constant:
    for number, value in wires(_bytes(wire)):
        kind = _CONSTANTS.get(number, "dyn")
        match kind:
            case "string":
                return Constant(own, kind, _text(value))
            case "double":
                raw = value if isinstance(value, bytes) else struct.pack("<Q", value)
                return Constant(own, kind, struct.unpack("<d", raw)[0])
            case "int":
                return Constant(own, kind, _int(value))
        return Constant(own, kind, value)
    return Constant(own, "null", None)


def _loop(own: int, parts: dict[int, Wire]) -> Loop:
    names = [_text(parts[number]) for number in (1, 8) if parts.get(number)]
    over, start, condition, step, result = (_node(parts.get(n, b"")) for n in (2, 4, 5, 6, 7))
    return Loop(own, names, over, _text(parts.get(3, b"")), start, condition, step, result)
