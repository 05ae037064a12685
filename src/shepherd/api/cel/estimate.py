"""What an expression costs at most, and what is wrong with it, given the shape of what it is about.

The library checks types, but knows nothing of schemas: to it `self` may be anything. This goes
through its syntax tree once more with what the schema says. Costs are upstream's units, some 50 ns
each. Source: cel-go checker/cost.go, whose rules these are; apiserver pkg/cel/library/cost.go.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from shepherd.api.cel.shapes import DYN, MAX_BYTES, Shape, covering
from shepherd.api.cel.syntax import Call, Constant, List, Loop, Map, Name, Node, Select, Tree
from shepherd.api.cel.texts import closing

_TRAVERSAL, _PATTERN = 0.1, 0.25
_NEW_LIST, _NEW_MAP = 10, 30
_FORMAT_PATTERN = 128 * _PATTERN
_CONVERSIONS = {
    "byte": ("base64.decode(", ")"),
    "date": ("timestamp(", ' + "T00:00:00Z")'),
    "date-time": ("timestamp(", ")"),
    "duration": ("duration(", ")"),
}
_OPERATORS = {"_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_"}
_NUMBERS = {"int", "uint", "double"}
_ORDERED = _NUMBERS | {"bool", "string", "bytes", "timestamp", "duration"}
_ARITHMETIC = {
    "_+_": _NUMBERS | {"string", "bytes", "list", "timestamp", "duration"},
    "_-_": _NUMBERS | {"timestamp", "duration"},
    "_*_": _NUMBERS,
    "_/_": _NUMBERS,
    "_%_": {"int", "uint"},
}
_OF_TEXTS = {"startsWith", "endsWith", "contains", "matches", "find"}
_READS = {"url", "isURL", "cidr", "isIP", "isCIDR", "ip", "ip.isCanonical", "quantity",
          "isQuantity", "semver", "isSemver", "jsonpatch.escapeKey"}  # fmt: skip
_SAME_SIZE = {"lowerAscii", "upperAscii", "substring", "trim", "reverse", "sort", "distinct",
              "slice"}  # fmt: skip
_WALKS = {"isSorted", "includes", "sum", "min", "max", "any_indexOf", "any_lastIndexOf"}
GROWING = {"_+_", "replace", "join", "format", "flatten", "any_range", "lists.range", "split",
           "regex.replace", "regex.extractAll", "findAll", "strings.quote", "base64.encode",
           "distinct", "reverse", "slice", "sort", "@sortByAssociatedKeys",
           "any_map_insert"}  # fmt: skip
"""What makes new texts, lists and maps."""
_ITEM_COST, _BYTE_COST = 4, 0.5
"""Of what it makes: an item takes some 50 bytes."""
_OUT_COST = 40
"""To make a value of Python's of an item, and to look at that again."""
_LONGEST_RANGE = 10_000
_BOUNDLESS = 1e15
"""Larger numbers say no more."""
_UNWRAPPED = {"orValue", "value", "optional.of", "optional.ofNonZeroValue", "or"}


class CheckError(ValueError):
    """An expression that does not fit what it is about; the message says where."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of the value of an expression."""

    shape: Shape
    cost: float


class Estimator:
    """Goes through one expression. `text` is what it was compiled from, for messages."""

    def __init__(self, tree: Tree, text: str, variables: Mapping[str, Shape]) -> None:
        self._tree = tree
        self._text = text
        self._names = dict(variables)
        self._converted: dict[tuple[int, int], str] = {}

    def estimate(self) -> Found:
        """Raises CheckError."""
        return self._visit(self._tree.root)

    def fitted(self) -> str:
        """The text with conversions around values that are texts and stand for something else.

        Raises CheckError.
        """
        self.estimate()
        text = self._text
        for (start, end), meant in sorted(self._converted.items(), reverse=True):
            head, tail = _CONVERSIONS[meant]
            text = text[:start] + head + text[start:end] + tail + text[end:]
        return text

    def _visit(self, node: Node) -> Found:
        found = self._see(node)
        if found.shape.size > _BOUNDLESS or found.cost > _BOUNDLESS:
            shape = replace(found.shape, size=min(found.shape.size, _BOUNDLESS))
            found = Found(shape, min(found.cost, _BOUNDLESS))
        if found.shape.format and (span := self._span(node)):
            self._converted[span] = found.shape.format
        return found

    def _span(self, node: Node) -> tuple[int, int] | None:
        """Where a name, or a path that begins with one, stands in the text."""
        at = self._tree.positions.get(node.id, 0)
        match node:
            case Name() if self._text.startswith(node.name, at):
                return at, at + len(node.name)
            case Select(test=False) if start := self._span(node.operand):
                found = re.compile(rf"\.\s*{node.field}\b").match(self._text, at)
                return (start[0], found.end()) if found else None
            case Call(function="_[_]") if start := self._span(node.arguments[0]):
                end = closing(self._text, at)
                return (start[0], end) if end else None
        return None

    def _see(self, node: Node) -> Found:
        match node:
            case Constant():
                size = len(node.value) if isinstance(node.value, str | bytes) else 1
                return Found(Shape(node.kind, size), 0)
            case Name():
                return Found(self._names.get(node.name, DYN), 1)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case List():
                found = [self._visit(item) for item in node.items]
                shape = Shape("list", len(found), item=self._one([one.shape for one in found]))
                return Found(shape, _NEW_LIST + sum(one.cost for one in found))
            case Map():
                pairs = [(self._visit(key), self._visit(value)) for key, value in node.entries]
                keys = max((key.shape.size for key, _ in pairs), default=0)
                item = self._one([value.shape for _, value in pairs])
                shape = Shape("map", len(pairs), keys=keys, item=item)
                return Found(shape, _NEW_MAP + sum(k.cost + v.cost for k, v in pairs))
            case Loop():
                return self._loop(node)
        return Found(DYN, 0)

    def _select(self, node: Select) -> Found:
        operand = self._visit(node.operand)
        shape = self._member(node, operand.shape, node.field)
        if node.test:
            return Found(Shape("bool"), operand.cost)
        return Found(shape, operand.cost + (operand.shape.kind in ("map", "object")))

    def _member(self, node: Node, of: Shape, name: str) -> Shape:
        """The shape of a field. Raises CheckError."""
        match of.kind:
            case "object":
                if name not in of.fields and of.item is None:
                    raise self._error(node, f"undefined field '{name}'")
                return of.fields.get(name) or of.item or DYN
            case "map" | "dyn" | "null":
                return of.item or DYN
        raise self._error(node, f"type '{of.text}' does not support field selection")

    # -- loops -----------------------------------------------------------------------------------

    def _loop(self, node: Loop) -> Found:
        over, start = self._visit(node.range), self._visit(node.start)
        before = dict(self._names)
        self._names[node.result_name] = start.shape
        if isinstance(node.range, List) and not node.range.items:  # cel.bind
            result = self._visit(node.result)
            self._names = before
            return Found(result.shape, over.cost + start.cost + result.cost)
        item = over.shape.item or DYN
        # The keys of a map count as empty texts, as upstream: nothing could bound them.
        texts = Shape("string", over.shape.keys)
        index = {"list": Shape("int"), "map": texts, "object": texts}.get(over.shape.kind, DYN)
        single = index if over.shape.kind in ("map", "object") else item
        shapes = [single] if len(node.names) == 1 else [index, item]
        self._names |= dict(zip(node.names, shapes, strict=True))
        turn = self._visit(node.condition).cost
        step = self._visit(node.step)
        self._names = before | {node.result_name: start.shape}
        result = self._visit(node.result)
        self._names = before
        shape = result.shape
        if start.shape.kind in ("list", "map"):
            shape = replace(step.shape, kind=start.shape.kind, size=over.shape.size)
        cost = over.cost + start.cost + result.cost + over.shape.size * (turn + step.cost)
        return Found(shape, cost)

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, node: Call) -> Found:
        nodes = ([node.target] if node.target else []) + node.arguments
        found = [self._visit(one) for one in nodes]
        shapes = [one.shape for one in found]
        self._fit(node, shapes)
        shape = self._result(node, shapes)
        if node.function == "_?_:_":
            most = max(found[1].cost, found[2].cost)
            return Found(shape, found[0].cost + most)
        price = self._price(node.function, shapes, shape)
        return Found(shape, sum(one.cost for one in found) + price)

    def _price(self, function: str, shapes: list[Shape], made: Shape) -> float:
        """Of a call itself."""
        return _price(function, shapes)

    def _one(self, shapes: list[Shape]) -> Shape:
        """A shape for all of these."""
        return _common(shapes)

    def _result(self, node: Call, shapes: list[Shape]) -> Shape:
        first = shapes[0] if shapes else DYN
        match node.function:
            case "_[_]" | "_[?_]" | "first" | "last":
                if first.kind == "object" and isinstance(node.arguments[1], Constant):
                    return self._member(node, first, str(node.arguments[1].value))
                return first.item or DYN
            case "_?._":
                name = node.arguments[1]
                assert isinstance(name, Constant)
                return self._member(node, first, str(name.value))
            case "_?_:_":
                return self._one(shapes[1:])
            case "_+_" if first.kind in ("string", "bytes", "list"):
                return replace(first, size=first.size + shapes[1].size)
            case "flatten" if first.item:
                inner = first.item
                return replace(first, size=first.size * max(1, inner.size), item=inner.item)
            case "any_range":
                end = node.arguments[0]
                size = end.value if isinstance(end, Constant) else _LONGEST_RANGE
                return Shape("list", min(max(size, 0), _LONGEST_RANGE), item=Shape("int"))
            case "min" | "max" if first.item:
                return first.item
            case "dyn":
                return replace(first, kind="dyn")
            case name if name in _UNWRAPPED or name in _SAME_SIZE:
                return first
        known = self._tree.types.get(node.id, "dyn")
        return Shape(known, _size(node.function, known, shapes))

    def _fit(self, node: Call, shapes: list[Shape]) -> None:
        """Raises CheckError if the function takes no values of these types."""
        kinds = [shape.kind for shape in shapes]
        if "dyn" in kinds or "null" in kinds or _takes(node.function, kinds):
            return
        types = ", ".join(shape.text for shape in shapes)
        name = node.function.removeprefix("any_")
        raise self._error(node, f"found no matching overload for '{name}' applied to '({types})'")

    def _error(self, node: Node, cause: str) -> CheckError:
        """In the library's own form: line and column, and the line with a mark below."""
        at = self._tree.positions.get(node.id, 0)
        before = self._text[:at]
        line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1)
        shown = self._text.split("\n")[line - 1]
        return CheckError(
            f"ERROR: <input>:{line}:{column + 1}: {cause}\n | {shown}\n | {'.' * column}^"
        )


class Reckoner(Estimator):
    """The same of values that are there, by what it takes here: nothing is refused, and what is
    made counts, in a loop as often as it is made."""

    def total(self) -> float:
        """What the evaluation takes, and then to take out its value."""
        found = self.estimate()
        return found.cost + (_weight(found.shape) * _OUT_COST if found.shape.item else 0)

    def _fit(self, node: Call, shapes: list[Shape]) -> None:
        """The evaluation tells."""

    def _member(self, node: Node, of: Shape, name: str) -> Shape:
        return of.fields.get(name) or of.item or DYN

    def _one(self, shapes: list[Shape]) -> Shape:
        return covering(shapes)

    def _loop(self, node: Loop) -> Found:
        found = super()._loop(node)
        if found.shape.kind not in ("list", "map", "dyn") or isinstance(node.range, List):
            return found
        if not isinstance(node.start, List | Map):
            return found
        # Each turn copies the whole list that was made until then.
        return replace(found, cost=found.cost + found.shape.size**2)

    def _result(self, node: Call, shapes: list[Shape]) -> Shape:
        sizes = [shape.size for shape in shapes]
        first, total = sizes[0] if sizes else 0, sum(sizes)
        kind = self._tree.types.get(node.id, "dyn")
        match node.function:
            case "_+_":
                items = [one.item for one in shapes if one.item and one.size]
                kinds = {one.kind for one in shapes if one.kind != "dyn"}
                kind = kinds.pop() if len(kinds) == 1 else "dyn"
                return Shape(kind, total, item=covering(items) if items else None)
            case "or" | "orValue":
                return covering(shapes)
            case "replace" | "regex.replace" if len(shapes) > 2:
                return Shape("string", first + (first + 1) * sizes[2])
            case "format" if len(shapes) > 1:
                return Shape("string", 1024 * first + first * _weight(shapes[1]))
            case "split" | "findAll" | "regex.extractAll":
                return Shape("list", first + 1, item=Shape("string", first))
            case "join":
                return Shape("string", _size("join", "string", shapes))
            case name if kind in ("string", "bytes", "map", "list", "dyn") and not (
                name in _SHAPED or name in _UNWRAPPED or name in _SAME_SIZE
            ):
                size = 2 * total + 64
                item = covering(shapes) if kind in ("map", "list", "dyn") and shapes else None
                return Shape(kind, size, keys=size, item=item)
        return super()._result(node, shapes)

    def _price(self, function: str, shapes: list[Shape], made: Shape) -> float:
        price = _price(function, shapes)
        match function:
            case "lists.range":
                return _BOUNDLESS  # it makes one of any length
            case "_==_" | "_!=_":
                return min(map(_weight, shapes))
            case "@in" | "distinct":
                many, item = shapes[-1].size, shapes[-1].item or Shape("int")
                if function == "@in":
                    price = many * _weight(item)
                elif item.item:
                    price = many * many * _weight(item)
        if function not in GROWING:
            return price
        return price + made.size * (_BYTE_COST if made.kind in ("string", "bytes") else _ITEM_COST)


_SHAPED = {"_[_]", "_[?_]", "first", "last", "_?._", "_?_:_", "flatten", "any_range", "min", "max",
           "dyn"}  # fmt: skip


def _weight(shape: Shape) -> float:
    """How much there is in a value, however often the same."""
    if shape.fields:
        return min(1 + sum(1 + _weight(part) for part in shape.fields.values()), _BOUNDLESS)
    if shape.item is None:
        return 1 + shape.size * _TRAVERSAL
    return min(1 + shape.size * (1 + _weight(shape.item)), _BOUNDLESS)


def _common(shapes: list[Shape]) -> Shape:
    """One that covers them all."""
    if not shapes:
        return replace(DYN, size=0)
    first, size = shapes[0], max(shape.size for shape in shapes)
    same = all(shape.kind == first.kind for shape in shapes)
    return replace(first, size=size) if same else replace(DYN, size=size)


def _takes(function: str, kinds: list[str]) -> bool:
    """Whether an operator or a function of strings takes values of these types."""
    first, last = kinds[0] if kinds else "", kinds[-1] if kinds else ""
    match function:
        case "_==_" | "_!=_":
            return first == last
        case "_<_" | "_<=_" | "_>_" | "_>=_":
            return {first, last} <= _NUMBERS or (first == last and first in _ORDERED)
        case "_&&_" | "_||_" | "!_":
            return set(kinds) == {"bool"}
        case "@in":
            return last in ("list", "map")
        case "_?_:_":
            return first == "bool"
        case name if name in _ARITHMETIC:
            times = {first, last} <= {"timestamp", "duration"}
            return first in _ARITHMETIC[name] and (first == last or times)
        case name if name in _OF_TEXTS:
            return set(kinds) == {"string"}
    return True


def _price(function: str, shapes: list[Shape]) -> float:
    """Of the call itself."""
    first = shapes[0].size if shapes else 0
    second = shapes[1].size if len(shapes) > 1 else 0
    patterns = ceil((first + 1) * _TRAVERSAL) * ceil(second * _PATTERN)
    prices: dict[str, float] = {
        "_&&_": 0,
        "_||_": 0,
        "startsWith": ceil(second * _TRAVERSAL),
        "endsWith": ceil(second * _TRAVERSAL),
        "@in": second if len(shapes) > 1 and shapes[1].kind != "map" else 1,
        "matches": patterns,
        "find": patterns,
        "findAll": patterns,
        "contains": ceil(first * _TRAVERSAL) * ceil(second * _TRAVERSAL),
        "format": ceil(first * _TRAVERSAL),
        "split": ceil(first * 2 * _TRAVERSAL),
        "replace": ceil(first * 2 * _TRAVERSAL),
        "any_validate": ceil(second * _TRAVERSAL) * _FORMAT_PATTERN,
        "sets.contains": 1 + first * second,
        "sets.intersects": 1 + first * second,
        "sets.equivalent": 1 + 2 * first * second,
        "any_range": 10_000,
    }
    if function in prices:
        return prices[function]
    if function == "join":
        return ceil(first * _inner(shapes[0]) * _TRAVERSAL)
    if function in _OPERATORS:
        return ceil(min(first, second) * _TRAVERSAL)
    if function in _READS or function in _SAME_SIZE:
        return max(1, ceil(first * _TRAVERSAL))
    if function in _WALKS:
        return first * (1 + ceil(_inner(shapes[0]) * _TRAVERSAL))
    if function == "_+_" and shapes[0].kind in ("string", "bytes"):
        return ceil((first + second) * _TRAVERSAL)
    return 1


def _inner(shape: Shape) -> float:
    """The size of a list's texts; nothing for other items."""
    item = shape.item
    return item.size if item and item.kind in ("string", "bytes", "dyn") else 0


def _size(function: str, kind: str, shapes: list[Shape]) -> float:
    """Of what a function answers."""
    if kind not in ("string", "bytes", "list", "map", "dyn"):
        return 1
    first = shapes[0].size if shapes else MAX_BYTES
    match function:
        case "string" | "bytes" if shapes and shapes[0].kind in _NUMBERS | {"bool"}:
            return 20
        case "string" | "bytes" | "split" | "find" | "findAll":
            return first
        case "replace" if len(shapes) > 2 and shapes[2].size <= max(shapes[1].size, 1):
            return first
        case "join":
            between = shapes[1].size if len(shapes) > 1 else 0
            return first * (max(1, _inner(shapes[0])) + between)
    return MAX_BYTES
