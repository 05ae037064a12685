"""Label and field selectors: texts and objects, compiled to predicates.

Source: apimachinery `labels` and `fields`; component-helpers `nodeaffinity` for node selectors.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from shepherd.api.errors import bad_request
from shepherd.api.names import label_value, qualified_name
from shepherd.api.objects.meta import LabelSelector, LabelSelectorRequirement
from shepherd.api.objects.node import NodeSelector, NodeSelectorTerm

MAX_REQUIREMENTS = 1000
"""Of a selector in a query: each is asked of every object."""

Labels = Mapping[str, str]
Predicate = Callable[[Labels], bool]

_OPERATORS = {
    "In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": ">", "Lt": "<",
}  # fmt: skip
"""Operators of objects -> operators of texts."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `operator`: `=`, `!=`, `in`, `notin`, `exists`, `!`, `>`, `<`."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
        return f"{self.key}{self.operator}{next(iter(self.values))}"

    def predicate(self) -> Predicate:
        """The condition as a function of an object's labels."""
        key, values = self.key, self.values
        match self.operator:
            case "=":
                (only,) = values
                return lambda labels: labels.get(key) == only
            case "in":
                return lambda labels: labels.get(key) in values
            case "!=" | "notin":
                return lambda labels: labels.get(key) not in values
            case "exists":
                return lambda labels: key in labels
            case "!":
                return lambda labels: key not in labels
            case ">" | "<":
                (bound,) = values
                return _compares(key, self.operator, int(bound))
        raise AssertionError(self.operator)


def _compares(key: str, operator: str, bound: int) -> Predicate:
    def holds(labels: Labels) -> bool:
        number = _integer(labels.get(key, ""))
        return number is not None and (number > bound if operator == ">" else number < bound)

    return holds


def _integer(text: str) -> int | None:
    """A decimal 64-bit integer, or None (labels hold any text)."""
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class Selector:
    """A conjunction of requirements on labels. `matches` is the compiled predicate."""

    __slots__ = ("matches", "requirements")

    def __init__(self, requirements: tuple[Requirement, ...]) -> None:
        self.requirements = requirements
        self.matches: Predicate = _all([item.predicate() for item in requirements])

    @property
    def empty(self) -> bool:
        """Selects everything."""
        return not self.requirements

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def _all(predicates: list[Predicate]) -> Predicate:
    if not predicates:
        return lambda labels: True
    if len(predicates) == 1:
        return predicates[0]
    return lambda labels: all(holds(labels) for holds in predicates)


class _Nothing(Selector):
    def __init__(self) -> None:
        super().__init__(())
        self.matches = lambda labels: False

    @property
    def empty(self) -> bool:
        return False


EVERYTHING = Selector(())
NOTHING: Selector = _Nothing()


def _fail(message: str) -> NoReturn:
    raise bad_request(f"unable to parse requirement: {message}")


def _require(key: str, operator: str, values: list[str]) -> Requirement:
    """A requirement whose key and values are well formed, or a 400."""
    if errors := qualified_name(key):
        _fail(f'Invalid value: "{key}": {"; ".join(errors)}')
    for value in values:
        if errors := label_value(value):
            _fail(f'values[{key}]: Invalid value: "{value}": {"; ".join(errors)}')
    match operator:
        case "in" | "notin" if not values:
            _fail("values: for 'in', 'notin' operators, values set can't be empty")
        case ">" | "<" if len(values) != 1:
            _fail("values: for 'Gt', 'Lt' operators, exactly one value is required")
        case ">" | "<" if _integer(values[0]) is None:
            _fail(f'values[0]: Invalid value: "{values[0]}": for \'Gt\', \'Lt\' operators, '
                  "the value must be an integer")  # fmt: skip
        case "exists" | "!" if values:
            _fail("values: values set must be empty for exists and does not exist")
    return Requirement(key, operator, frozenset(values))


_token = re.compile(r"\s*(?:(==|!=|[=!(),<>])|([^\s=!(),<>]+))")


class _Parser:
    """Recursive descent over the tokens of a label selector; "" is the end of the text."""

    def __init__(self, text: str) -> None:
        self.tokens = [match[1] or match[2] for match in _token.finditer(text.rstrip())]
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def word(self, expected: str) -> str:
        token = self.take()
        if not token or token in _SYMBOLS:
            _fail(f"found '{token}', expected: {expected}")
        return token

    def selector(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self.peek():
            found.append(self.requirement())
            _limit(len(found))
            token = self.take()
            if token not in {"", ","}:
                raise bad_request(f"found '{token}', expected: ',' or 'end of string'")
            if token == "," and (not self.peek() or self.peek() in _SYMBOLS - {"!"}):
                raise bad_request(f"found '{self.peek()}', expected: identifier after ','")
        return found

    def requirement(self) -> Requirement:
        if self.peek() == "!":
            self.take()
            return _require(self.word("identifier"), "!", [])
        key = self.word("!, identifier, or 'end of string'")
        if self.peek() in {"", ","}:
            return _require(key, "exists", [])
        operator = self.take()
        if operator in {"in", "notin"}:
            return _require(key, operator, self.values())
        if operator not in {"=", "==", "!=", ">", "<"}:
            _fail(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        value = "" if self.peek() in {"", ","} else self.word("identifier")
        return _require(key, "=" if operator == "==" else operator, [value])

    def values(self) -> list[str]:
        if (token := self.take()) != "(":
            _fail(f"found '{token}' expected: '('")
        values = []
        while True:
            values.append("" if self.peek() in {",", ")"} else self.word("',', ')' or identifier"))
            token = self.take()
            if token == ")":
                return values
            if token != ",":
                _fail(f"found '{token}', expected: ',' or ')'")


_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})


def _limit(count: int) -> None:
    if count > MAX_REQUIREMENTS:
        raise bad_request(f"the selector has more than {MAX_REQUIREMENTS} requirements")


@lru_cache(maxsize=128)
def parse_selector(text: str) -> Selector:
    """The selector of a `labelSelector` parameter. Raises ApiError 400."""
    requirements = _Parser(text).selector()
    return Selector(tuple(sorted(requirements, key=lambda item: item.key)))


def selector_of(selector: LabelSelector | Mapping[str, Any] | None) -> Selector:
    """The selector that a LabelSelector object denotes, typed or JSON. Raises ApiError 400.

    None selects nothing, an empty object everything.
    """
    if selector is None:
        return NOTHING
    if isinstance(selector, LabelSelector):
        labels: Labels = selector.match_labels
        expressions = [(e.key, e.operator, e.values) for e in selector.match_expressions]
    else:
        labels = selector.get("matchLabels") or {}
        expressions = [
            (e.get("key", ""), e.get("operator", ""), e.get("values") or [])
            for e in selector.get("matchExpressions") or []
        ]
    found = [_require(key, "=", [value]) for key, value in labels.items()]
    for key, operator, values in expressions:
        if operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            raise bad_request(f'"{operator}" is not a valid label selector operator')
        found.append(_require(key, _OPERATORS[operator], values))
    return Selector(tuple(sorted(found, key=lambda item: item.key)))


def labels_selector(labels: Labels) -> Selector:
    """Every given label with exactly its value: the plain map selectors of services."""
    return Selector(tuple(Requirement(k, "=", frozenset({v})) for k, v in sorted(labels.items())))


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One `field=value` or `field!=value`."""

    field: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        value = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.field}{'=' if self.equal else '!='}{value}"


class FieldSelector:
    """A conjunction of terms over an object's selectable fields; an absent field is ""."""

    __slots__ = ("terms",)

    def __init__(self, terms: tuple[FieldTerm, ...]) -> None:
        self.terms = terms

    @property
    def empty(self) -> bool:
        """Selects everything."""
        return not self.terms

    @property
    def fields(self) -> list[str]:
        """The fields that it asks for; the server refuses those that the kind lacks."""
        return [term.field for term in self.terms]

    def exact(self, field: str) -> str | None:
        """The value that `field` must have, if the selector demands one."""
        for term in self.terms:
            if term.field == field and term.equal:
                return term.value
        return None

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(t.field, "") == t.value) is t.equal for t in self.terms)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


_field_terms = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)
_field_term = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)


@lru_cache(maxsize=128)
def parse_field_selector(text: str) -> FieldSelector:
    """The selector of a `fieldSelector` parameter. Raises ApiError 400."""
    terms: list[FieldTerm] = []
    for part in sorted(_field_terms.findall(text)):
        match = _field_term.fullmatch(part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        _limit(len(terms) + 1)
        terms.append(FieldTerm(match[1], _unescape(match[3]), match[2] != "!="))
    return FieldSelector(tuple(terms))


def _unescape(value: str) -> str:
    if bad := re.match(r"(?:[^\\,=]|\\[\\,=])*+(\\.?|[,=])", value, re.DOTALL):
        head = "invalid escape sequence" if bad[1][0] == "\\" else "unescaped character in value"
        raise bad_request(f"invalid field selector: {head}: {bad[1]}")
    return re.sub(r"\\([\\,=])", r"\1", value)


def node_selector(selector: NodeSelector | None) -> Callable[[Labels, str], bool]:
    """A node selector as a function of a node's labels and name: one term must hold.

    A term that is empty or malformed matches no node, as upstream. None matches every node.
    """
    if selector is None:
        return lambda labels, name: True
    terms = [term for item in selector.node_selector_terms if (term := node_selector_term(item))]
    return lambda labels, name: any(term(labels, name) for term in terms)


def node_selector_term(term: NodeSelectorTerm) -> Callable[[Labels, str], bool] | None:
    """One term as a function of a node's labels and name; None if it can match no node."""
    if not term.match_expressions and not term.match_fields:
        return None
    on_labels = _requirements(term.match_expressions)
    on_fields = _requirements(term.match_fields)
    if on_labels is None or on_fields is None:
        return None
    if not term.match_fields:
        return lambda labels, name: on_labels(labels)
    return lambda labels, name: on_labels(labels) and on_fields({"metadata.name": name})


def _requirements(items: list[LabelSelectorRequirement]) -> Predicate | None:
    predicates = []
    for item in items:
        operator = _OPERATORS.get(item.operator)
        if operator is None or not _sound(operator, item.values):
            return None
        predicates.append(Requirement(item.key, operator, frozenset(item.values)).predicate())
    return _all(predicates)


def _sound(operator: str, values: list[str]) -> bool:
    if operator in {"in", "notin"}:
        return bool(values)
    if operator in {"<", ">"}:
        return len(values) == 1 and _integer(values[0]) is not None
    return not values
