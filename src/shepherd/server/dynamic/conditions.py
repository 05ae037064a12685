"""matchConditions: expressions in CEL, all of which must hold of a write.

Source: "Matching requests: matchConditions" in the documentation of dynamic admission control;
apiserver pkg/admission/plugin/webhook/matchconditions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shepherd.api.cel.budget import Budget
from shepherd.api.cel.expressions import CelError, compile_expression
from shepherd.api.kinds.admissions import WEBHOOK_VARIABLES
from shepherd.api.resource import Object, Resource
from shepherd.server.dynamic.subject import Subject


@dataclass(slots=True)
class Verdict:
    """What the conditions say of a write."""

    holds: bool = True
    problems: list[str] = field(default_factory=list)
    """Of the evaluation; none matters where a condition does not hold."""


class Conditions:
    """The conditions of one webhook or policy."""

    def __init__(
        self, conditions: Iterable[Object], variables: tuple[str, ...] = WEBHOOK_VARIABLES
    ) -> None:
        self._conditions = tuple(conditions)
        self._variables = variables

    @property
    def empty(self) -> bool:
        return not self._conditions

    async def check(self, subject: Subject, resource: Resource) -> Verdict:
        """Of a write that is seen as one of `resource`."""
        new, old = await subject.view(resource)
        return self.judge({"object": new, "oldObject": old, "request": subject.request(resource)})

    def judge(self, values: Mapping[str, Any]) -> Verdict:
        verdict, budget = Verdict(), Budget((values["object"], values["oldObject"]))
        for condition in self._conditions:
            try:
                expression = compile_expression(condition["expression"], self._variables)
                budget.charge(expression, values)
                if expression.evaluate(values) is not True:
                    return Verdict(holds=False)
            except CelError as error:
                text = condition["expression"]
                verdict.problems.append(f"expression '{text}' resulted in error: {error}")
        return verdict
