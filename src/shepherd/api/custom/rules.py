"""x-kubernetes-validations: rules in CEL over an object and what it was before.

A rule sees its node as `self` and, where the node can be told apart in the old object, the old one
as `oldSelf`; a rule that speaks of `oldSelf` is skipped where there is none. Source: "Validation
rules" in the documentation of CustomResourceDefinitions; apiextensions-apiserver schema/cel.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shepherd.api import errors
from shepherd.api.cel import expressions as cel
from shepherd.api.cel.budget import Budget, BudgetError
from shepherd.api.cel.names import escaped
from shepherd.api.cel.shapes import DYN, shape_of
from shepherd.api.custom.structural import ABSENT, Structural
from shepherd.api.errors import FieldError
from shepherd.api.patch import same
from shepherd.api.resource import Object

_BLOCKING = (
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
)  # fmt: skip


class Rule:
    """One entry of x-kubernetes-validations, compiled when first used."""

    def __init__(self, rule: Object, node: Structural) -> None:
        self.text: str = rule["rule"].strip()
        self._message: str = rule.get("message", "").strip()
        self._message_expression: str = rule.get("messageExpression", "").strip()
        self._reason: str = rule.get("reason") or "FieldValueInvalid"
        self._field: str = rule.get("fieldPath", "").strip()
        self._optional_old: bool = rule.get("optionalOldSelf", False)
        self._node = node

    @cached_property
    def uses_old(self) -> bool:
        return self._expression.uses_old

    @cached_property
    def _expression(self) -> cel.Rule:
        return self._compiled(self.text)

    def _compiled(self, text: str) -> cel.Rule:
        """Raises CelError."""
        rule = cel.compile_rule(text, optional_old=self._optional_old)
        if self._node.converts:
            return rule.fitted(shape_of(self._node.schema, resource=self._node.resource) or DYN)
        return rule

    def check(self, value: Any, path: str, old: Any, budget: Budget) -> FieldError | None:
        """What the rule says against `value`. Raises BudgetError."""
        try:
            expression = self._expression
            if expression.uses_old and old is ABSENT and not self._optional_old:
                return None
            passed = expression.evaluate(value, self._given(old), budget)
        except BudgetError:
            raise
        except cel.CelError as error:
            return self._error(path, value, f"{error} evaluating rule: {self.text}")
        if passed is True:
            return None
        return self._error(path, value, self._detail(value, old, budget))

    def _given(self, old: Any) -> Any:
        """`oldSelf` as `compile_rule` wants it."""
        given = [] if old is ABSENT else [old]
        return given if self._optional_old else next(iter(given), None)

    def _detail(self, value: Any, old: Any, budget: Budget) -> str:
        if self._message_expression:
            try:
                expression = self._compiled(self._message_expression)
                text = expression.evaluate(value, self._given(old), budget)
            except cel.CelError:
                text = ""
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text
        return self._message or f"failed rule: {self.text}"

    def _error(self, path: str, value: Any, detail: str) -> FieldError:
        path = (path + self._field).removeprefix(".")
        match self._reason:
            case "FieldValueForbidden":
                return errors.forbidden_field(path, detail)
            case "FieldValueRequired":
                return errors.required(path, detail)
            case "FieldValueDuplicate":
                return errors.duplicate(path, value)
        if self._node.type not in ("object", "array"):
            return errors.invalid_value(path, value, detail)
        return FieldError("FieldValueInvalid", path, f"Invalid value: {detail}")


@dataclass(frozen=True, slots=True)
class _Part:
    """A child node: where it stands, and the old value that it is told apart by."""

    value: Any
    path: str
    old: Any
    node: "Rules"


class Rules:
    """The rules of a schema node and of those below it."""

    def __init__(self, node: Structural) -> None:
        self._node = node
        self._rules = [Rule(rule, node) for rule in node.rules]
        self._properties = {name: Rules(part) for name, part in node.properties.items()}
        self._additional = Rules(node.additional) if node.additional else None
        self._items = Rules(node.items) if node.items else None
        children = [*self._properties.values(), self._additional, self._items]
        self.empty: bool = not self._rules and all(child.empty for child in children if child)
        self._rewrites: bool = (
            node.type == "number"
            or any(escaped(name) != name for name in node.properties)
            or any(child._rewrites for child in children if child)
        )

    def check(self, value: Any, old: Any, path: str = "") -> list[FieldError]:
        """What the rules say against `value`. Never raises."""
        found: list[FieldError] = []
        if self.empty:
            return found
        budget = Budget(value)
        pending = [_Part(value, path, old, self)]
        while pending:
            part = pending.pop()
            if part.value is None:
                continue
            try:
                found.extend(part.node._own(part.value, part.path, part.old, budget))
            except BudgetError as error:
                return [*found, FieldError("FieldValueInvalid", part.path, str(error))]
            pending += part.node._children(part.value, part.path, part.old)
        return found

    def _own(self, value: Any, path: str, old: Any, budget: Budget) -> Iterator[FieldError]:
        if not self._rules:
            return
        shown = self._as_cel(value)
        before = ABSENT if old is ABSENT or old is None else self._as_cel(old)
        unchanged = old is not ABSENT and value == old and same(value, old)
        for rule in self._rules:
            problem = rule.check(shown, path, before, budget)
            if problem and not (unchanged and not rule.uses_old):
                yield problem

    def _children(self, value: Any, path: str, old: Any) -> Iterator[_Part]:
        start = f"{path}." if path else ""
        if type(value) is dict:
            before = old if type(old) is dict else {}
            for name, item in value.items():
                node = self._properties.get(name) or self._additional
                if node and not node.empty:
                    yield _Part(item, start + name, before.get(name, ABSENT), node)
        elif type(value) is list and self._items and not self._items.empty:
            by_key = self._node.by_key(old) if old is not ABSENT else {}
            for at, item in enumerate(value):
                before_item = by_key.get(self._node.key_of(item), ABSENT) if by_key else ABSENT
                yield _Part(item, f"{path}[{at}]", before_item, self._items)

    def _as_cel(self, value: Any) -> Any:
        """The value as rules see it: names escaped, numbers of type double."""
        if not self._rewrites:
            return value
        if type(value) is dict:
            return {
                (escaped(name) if name in self._properties else name): (
                    node._as_cel(item)
                    if (node := self._properties.get(name) or self._additional)
                    else item
                )
                for name, item in value.items()
            }
        if type(value) is list and self._items:
            return [self._items._as_cel(item) for item in value]
        if self._node.type == "number" and type(value) is int:
            return float(value)
        return value


def blocked(found: list[FieldError]) -> bool:
    """Whether what is wrong with an object's structure makes its rules meaningless."""
    return any(error.type in _BLOCKING for error in found)
