"""matchConditions: expressions in CEL, all of which must hold of a write.

Source: "Matching requests: matchConditions" in the documentation of dynamic admission control;
apiserver pkg/admission/plugin/webhook/matchconditions.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shepherd.api.cel.expressions import CelError
from shepherd.api.resource import Object
from shepherd.server.dynamic.evaluation import Evaluation


@dataclass(slots=True)
class Verdict:
    """What the conditions say of a write."""

    holds: bool = True
    problems: list[str] = field(default_factory=list)
    """Of the evaluation; none matters where a condition does not hold."""


class Conditions:
    """The conditions of one webhook or policy."""

    def __init__(self, conditions: Iterable[Object]) -> None:
        self._texts = tuple(condition["expression"] for condition in conditions)

    @property
    def empty(self) -> bool:
        return not self._texts

    async def judge(self, evaluation: Evaluation) -> Verdict:
        verdict = Verdict()
        for text in self._texts:
            try:
                if await evaluation.value(text) is not True:
                    return Verdict(holds=False)
            except CelError as error:
                verdict.problems.append(f"expression '{text}' resulted in error: {error}")
        return verdict
