"""What a schema demands of a value besides its structure: bounds, patterns, enums, junctors.

The messages are upstream's. Source: kube-openapi pkg/validation/validate.
"""

from collections.abc import Callable
from typing import Any

from shepherd.api.custom.formats import fits
from shepherd.api.errors import FieldError, invalid_value, not_supported, too_long, too_many
from shepherd.api.errors import required as required_error
from shepherd.api.patch import same
from shepherd.api.resource import Object

_TYPES = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array",
    dict: "object", type(None): "null",
}  # fmt: skip
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")

Check = Callable[[Any, str], FieldError | None]
"""From a value and its path to what is wrong with it."""


def json_type(value: Any) -> str:
    """The JSON schema name of a value's type."""
    return _TYPES[type(value)]


class ValueRules:
    """The demands of one schema node, sorted by the type of value that they speak about."""

    __slots__ = ("_any", "_checks", "_junctors")

    def __init__(self, schema: Object) -> None:
        self._checks: dict[type, list[Check]] = {}
        self._any = [_enum(schema["enum"])] if schema.get("enum") else []
        for types, name, make in _BOUNDS:
            if (limit := schema.get(name)) is not None:
                for kind in types:
                    self._checks.setdefault(kind, []).append(make(limit, schema))
        self._junctors = [
            (name, [Nested(part) for part in _parts(schema[name])])
            for name in _JUNCTORS
            if schema.get(name)
        ]

    @property
    def empty(self) -> bool:
        return not (self._checks or self._any or self._junctors)

    def check(self, value: Any, path: str, found: list[FieldError]) -> None:
        """Add what is wrong with `value` to `found`."""
        for checks in (self._checks.get(type(value), ()), self._any):
            found += [problem for check in checks if (problem := check(value, path))]
        for name, parts in self._junctors:
            _junctor(name, parts, value, path, found)


def values_of(schema: Object) -> ValueRules:
    """The demands of a schema; most have none, and share one object."""
    return ValueRules(schema) if not _DEMANDS.isdisjoint(schema) else _NONE


class Nested:
    """A schema inside a junctor: demands only, no structure of its own."""

    def __init__(self, schema: Object) -> None:
        self._values = ValueRules(schema)
        self._required: list[str] = schema.get("required") or []
        self._properties = {
            name: Nested(part) for name, part in (schema.get("properties") or {}).items()
        }
        items, more = schema.get("items"), schema.get("additionalProperties")
        self._items = Nested(items) if isinstance(items, dict) else None
        self._additional = Nested(more) if isinstance(more, dict) else None
        self._type: str = schema.get("type", "")  # only in the int-or-string pattern

    def check(self, value: Any, path: str, found: list[FieldError]) -> None:
        if self._type and json_type(value) != self._type:
            detail = f'{path} in body must be of type {self._type}: "{json_type(value)}"'
            found.append(invalid_value(path, json_type(value), detail))
            return
        self._values.check(value, path, found)
        if type(value) is dict:
            start = f"{path}." if path else ""
            found += [required_error(start + name) for name in self._required if name not in value]
            for name, item in value.items():
                if part := self._properties.get(name, self._additional):
                    part.check(item, start + name, found)
        elif type(value) is list and self._items:
            for at, item in enumerate(value):
                self._items.check(item, f"{path}[{at}]", found)


def _parts(found: Any) -> list[Object]:
    return found if isinstance(found, list) else [found]


def _junctor(
    name: str, parts: list[Nested], value: Any, path: str, found: list[FieldError]
) -> None:
    results: list[list[FieldError]] = []
    for part in parts:
        problems: list[FieldError] = []
        part.check(value, path, problems)
        results.append(problems)
    passed = sum(not problems for problems in results)
    match name:
        case "allOf" if passed < len(parts):
            found += [problem for problems in results for problem in problems]
            detail = f'"{path}" must validate all the schemas (allOf)'
        case "anyOf" if not passed:
            fewest = min(len(problems) for problems in results)
            found += next(problems for problems in results if len(problems) == fewest)
            detail = f'"{path}" must validate at least one schema (anyOf)'
        case "oneOf" if passed != 1:
            how = f"Found {passed} valid alternatives" if passed else "Found none valid"
            detail = f'"{path}" must validate one and only one schema (oneOf). {how}'
        case "not" if passed:
            detail = f'"{path}" must not validate the schema (not)'
        case _:
            return
    found.append(invalid_value(path, "", detail))


# -- single demands ----------------------------------------------------------------------------


def _enum(allowed: list[Any]) -> Check:
    texts = [item if isinstance(item, str) else str(item).lower() for item in allowed]

    def check(value: Any, path: str) -> FieldError | None:
        if any(same(value, item) for item in allowed):
            return None
        return not_supported(path, value, texts)

    return check


def _bound(holds: Callable[[Any, Any], bool], words: Callable[[Any, Object], str]) -> Any:
    """A demand whose failure reads `<path> in body <words>`."""

    def make(limit: Any, schema: Object) -> Check:
        text = words(limit, schema)

        def check(value: Any, path: str) -> FieldError | None:
            if holds(value, limit):
                return None
            return invalid_value(path, value, f"{path} in body {text}")

        return check

    return make


def _maximum(limit: float, schema: Object) -> Check:
    if schema.get("exclusiveMaximum"):
        words = _bound(lambda value, top: value < top, lambda top, _: f"should be less than {top}")
    else:
        words = _bound(
            lambda value, top: value <= top, lambda top, _: f"should be less than or equal to {top}"
        )
    check: Check = words(limit, schema)
    return check


def _minimum(limit: float, schema: Object) -> Check:
    if schema.get("exclusiveMinimum"):
        words = _bound(
            lambda value, low: value > low, lambda low, _: f"should be greater than {low}"
        )
    else:
        words = _bound(
            lambda value, low: value >= low,
            lambda low, _: f"should be greater than or equal to {low}",
        )
    check: Check = words(limit, schema)
    return check


def _multiple(value: Any, factor: Any) -> bool:
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    return float(value / factor).is_integer()


def _max_length(limit: int, schema: Object) -> Check:
    return lambda value, path: too_long(path, limit) if len(value) > limit else None


def _max_count(limit: int, schema: Object) -> Check:
    return lambda value, path: too_many(path, len(value), limit) if len(value) > limit else None


def _pattern(pattern: str, schema: Object) -> Check:
    matches: Callable[[str], bool] | None = None

    def check(value: Any, path: str) -> FieldError | None:
        nonlocal matches
        if matches is None:
            from shepherd.api.cel.expressions import matcher

            matches = matcher(pattern)
        if matches(value):
            return None
        return invalid_value(path, value, f"{path} in body should match '{pattern}'")

    return check


def _format(format: str, schema: Object) -> Check:
    def check(value: Any, path: str) -> FieldError | None:
        if fits(format, value):
            return None
        shown = f'"{value}"' if isinstance(value, str) else value
        return invalid_value(path, value, f"{path} in body must be of type {format}: {shown}")

    return check


_NUMBER: tuple[type, ...] = (int, float)
_BOUNDS: tuple[tuple[tuple[type, ...], str, Any], ...] = (
    (_NUMBER, "maximum", _maximum),
    (_NUMBER, "minimum", _minimum),
    (_NUMBER, "multipleOf", _bound(_multiple, lambda of, _: f"should be a multiple of {of}")),
    ((str,), "maxLength", _max_length),
    (
        (str,),
        "minLength",
        _bound(
            lambda value, low: len(value) >= low,
            lambda low, _: f"should be at least {low} chars long",
        ),
    ),
    ((str,), "pattern", _pattern),
    ((str, int), "format", _format),
    ((list,), "maxItems", _max_count),
    (
        (list,),
        "minItems",
        _bound(
            lambda value, low: len(value) >= low,
            lambda low, _: f"should have at least {low} items",
        ),
    ),
    ((dict,), "maxProperties", _max_count),
    (
        (dict,),
        "minProperties",
        _bound(
            lambda value, low: len(value) >= low,
            lambda low, _: f"should have at least {low} properties",
        ),
    ),
)
"""Of which types, the schema's field, and what makes the demand."""
_DEMANDS = frozenset({name for _, name, _ in _BOUNDS} | {"enum", *_JUNCTORS})
_NONE = ValueRules({})
