"""Which x-kubernetes-validations a schema may have: those that compile, fit, and cost little.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/{validation,cel_validation}.go,
whose messages and limits these are.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from shepherd.api import errors
from shepherd.api.cel import expressions as cel
from shepherd.api.cel.names import escaped
from shepherd.api.cel.shapes import DYN, Shape, shape_of
from shepherd.api.errors import FieldError
from shepherd.api.resource import Object

MAX_COST = 10_000_000
"""Of a rule, over all values that it can be about in one object."""
MAX_TOTAL = 100_000_000
"""Of all rules of a schema."""

_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\['((?:[^'\\]|\\.)+)'\]")
_RULE = "x-kubernetes-validations"
_REASONS = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"]


@dataclass(frozen=True, slots=True)
class _Place:
    """A node of a schema as its rules see it."""

    schema: Object
    path: str
    shape: Shape
    correlated: bool = True
    """Its values can be told apart in the old object: rules may use oldSelf."""
    repeats: float | None = 1
    """How often it can occur; None if no bound is given."""

    @property
    def times(self) -> float:
        return self.shape.repeats if self.repeats is None else self.repeats

    def below(self) -> "Iterator[_Place]":
        """The nodes right below."""
        schema = self.schema
        granular = self.correlated and schema.get("x-kubernetes-map-type") != "atomic"
        for name, part in (schema.get("properties") or {}).items():
            shape = self.shape.fields.get(escaped(name)) or shape_of(part) or DYN
            path = f"{self.path}.properties[{name}]"
            yield replace(self, schema=part, path=path, shape=shape, correlated=granular)
        for key, bound in (("additionalProperties", "maxProperties"), ("items", "maxItems")):
            if not isinstance(part := schema.get(key), dict):
                continue
            kept = granular
            if key == "items":
                kept = self.correlated and schema.get("x-kubernetes-list-type") == "map"
            most = schema.get(bound)
            repeats = None if most is None or self.repeats is None else self.repeats * most
            shape = self.shape.item or shape_of(part) or DYN
            yield _Place(part, f"{self.path}.{key}", shape, kept, repeats)


@dataclass(slots=True)
class _Check:
    """What was found so far."""

    problems: list[FieldError] = field(default_factory=list)
    total: float = 0


def check_rules(schema: Object, path: str) -> list[FieldError]:
    """What is wrong with the rules of a whole schema that stands at `path`."""
    check = _Check()
    pending = [_Place(schema, path, shape_of(schema, resource=True) or DYN)]
    while pending:
        place = pending.pop()
        for at, rule in enumerate(place.schema.get(_RULE) or ()):
            check.problems += _rule(rule, f"{place.path}.{_RULE}[{at}]", place, check)
        pending += reversed(list(place.below()))
    if check.total > MAX_TOTAL:
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        check.problems.append(errors.forbidden_field(path, _exceeds(name, check.total, MAX_TOTAL)))
    return check.problems


def _exceeds(name: str, cost: float, limit: float) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.1f}x"
    if factor < 1.5:
        shown = f"{factor:.6f}x"
    return (
        f"{name} exceeds budget by factor of {shown} (try simplifying the rule, or adding "
        "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _rule(rule: Object, path: str, place: _Place, check: _Check) -> Iterator[FieldError]:
    text = rule.get("rule", "")
    if not text.strip():
        yield errors.required(f"{path}.rule", "rule is not specified")
        return
    yield from _words(rule, path)
    if (field_path := rule.get("fieldPath", "").strip()) and not _leads(place.schema, field_path):
        yield errors.invalid_value(f"{path}.fieldPath", field_path, "must be a valid path")
    optional = rule.get("optionalOldSelf", False)
    try:
        compiled = cel.compile_rule(text.strip(), optional_old=optional)
        found = compiled.estimate(place.shape)
    except cel.CelError as error:
        yield errors.invalid_value(f"{path}.rule", rule, str(error))
        return
    if found.shape.kind not in ("bool", "dyn"):
        detail = "cel expression must evaluate to a bool"
        yield errors.invalid_value(f"{path}.rule", rule, detail)
    cost = found.cost * place.times
    check.total += cost
    if cost > MAX_COST:
        detail = _exceeds("estimated rule cost", cost, MAX_COST)
        yield errors.forbidden_field(f"{path}.rule", detail)
    if compiled.uses_old and not place.correlated:
        detail = "oldSelf cannot be used on the uncorrelatable portion of the schema"
        yield errors.invalid_value(f"{path}.rule", text, detail)
    if optional and not compiled.uses_old:
        detail = "may not be set if oldSelf is not used in rule"
        yield errors.invalid_value(f"{path}.optionalOldSelf", True, detail)
    if expression := rule.get("messageExpression", "").strip():
        try:
            message = cel.compile_rule(expression, optional_old=optional).estimate(place.shape)
            if message.shape.kind not in ("string", "dyn"):
                raise cel.CelError("messageExpression must evaluate to a string")
        except cel.CelError as error:
            yield errors.invalid_value(f"{path}.messageExpression", rule, str(error))
            return
        check.total += message.cost
        if message.cost > MAX_COST:
            detail = _exceeds("estimated messageExpression cost", message.cost, MAX_COST)
            yield errors.forbidden_field(f"{path}.messageExpression", detail)


def _leads(schema: Object, path: str) -> bool:
    """Whether `.a.b` or `['a'].b` leads from a schema to a field that it has."""
    at, node = 0, schema
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return False
        part = (node.get("properties") or {}).get(step[1] or step[2])
        part = node.get("additionalProperties") if part is None else part
        if not isinstance(part, dict):
            return False
        at, node = step.end(), part
    return True


def _words(rule: Object, path: str) -> Iterator[FieldError]:
    """What is wrong with a rule besides its expressions."""
    text, message = rule["rule"], rule.get("message", "")
    if message and not message.strip():
        yield errors.invalid_value(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield errors.invalid_value(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        yield errors.required(f"{path}.message", detail)
    if rule.get("reason") and rule["reason"] not in _REASONS:
        yield errors.not_supported(f"{path}.reason", rule["reason"], _REASONS)
