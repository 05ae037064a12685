"""Expressions about one write: their variables, their cost, and what they ask of authorization."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from shepherd.api.cel.authorization import DECISIONS, Decisions, Question
from shepherd.api.cel.budget import Budget
from shepherd.api.cel.expressions import CelError, compile_expression
from shepherd.api.resource import Object

Decide = Callable[[Question], Awaitable[tuple[bool, str]]]
"""Whether it is allowed, and why (or why not)."""

_MOST_QUESTIONS = 8
"""Of one expression."""
_NAMED = re.compile(r"\bvariables\s*\.\s*(\w+)")


class Evaluation:
    """Evaluates expressions over `values`; composed variables when they are first asked for."""

    def __init__(
        self,
        names: tuple[str, ...],
        values: Object,
        decide: Decide,
        composed: Mapping[str, str] | None = None,
    ) -> None:
        """`names` are the variables that expressions may use; `composed` are the expressions of
        those in `variables`."""
        self._names = names
        self._values = values
        self._decide = decide
        self._composed = composed or {}
        self._known: Object = {}
        self._decisions = Decisions()
        self._budget = Budget([value for name, value in values.items() if name != "request"])

    def about(self, obj: Object) -> "Evaluation":
        """The same about what has become of the object."""
        return Evaluation(self._names, self._values | {"object": obj}, self._decide, self._composed)

    async def value(self, text: str) -> Any:
        """Raises CelError."""
        for name in self._wanted(text):
            try:
                self._known[name] = await self._answer(self._composed[name])
            except CelError as error:
                message = f'composited variable "{name}" fails to evaluate: {error}'
                raise CelError(message) from None
        return await self._answer(text)

    def _wanted(self, text: str) -> list[str]:
        """The variables yet to be known that it asks for, or those that they ask for.

        In the order of the policy, where each may ask for those above it: one that asks for itself
        or for a later one finds that there is none.
        """
        wanted: set[str] = set()
        texts = [text]
        while texts:
            for name in _NAMED.findall(texts.pop()):
                if name in self._composed and name not in self._known and name not in wanted:
                    wanted.add(name)
                    texts.append(self._composed[name])
        return [name for name in self._composed if name in wanted]

    async def _answer(self, text: str) -> Any:
        """What it comes to, once the authorizer has answered what it asks. Raises CelError."""
        for _ in range(_MOST_QUESTIONS):
            try:
                return self._evaluate(text)
            except CelError:
                if not self._decisions.wanted:
                    raise
            for question in self._decisions.wanted:
                self._decisions.known[question] = await self._decide(question)
        raise CelError(f"an expression may ask the authorizer {_MOST_QUESTIONS} times")

    def _evaluate(self, text: str) -> Any:
        given = self._values | {"variables": dict(self._known)}
        expression = compile_expression(text, self._names)
        self._budget.charge(expression, given)
        self._decisions.wanted.clear()
        token = DECISIONS.set(self._decisions)
        try:
            return expression.evaluate({name: given.get(name) for name in self._names})
        finally:
            DECISIONS.reset(token)
