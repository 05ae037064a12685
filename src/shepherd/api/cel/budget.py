"""What the expressions about one object may cost together.

The library ends an evaluation after 10,000 turns of its loops, however much each of them does. So
before expressions with loops are evaluated about large objects, their cost is reckoned from the
object itself; all others cost a flat price. Source: apiserver pkg/apis/cel/config.go.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from shepherd.api.cel.expressions import CelError, Expression
from shepherd.api.cel.shapes import measured

UNITS = 10_000_000
"""About a second at worst, and much less in practice."""
_FLAT = 1000
_LARGE_BYTES = 16 * 1024


class BudgetError(CelError):
    """Nothing is left."""


class Budget:
    """Of the expressions about one object."""

    def __init__(self, obj: Any) -> None:
        self._left: float = UNITS
        self._large = len(msgspec.json.encode(obj)) > _LARGE_BYTES

    def charge(self, expression: Expression, values: Mapping[str, Any]) -> None:
        """Take what an evaluation costs. Raises BudgetError if that is more than is left."""
        cost: float = _FLAT
        if self._large and expression.loops:
            shapes = {name: measured(value) for name, value in values.items()}
            with suppress(CelError):  # one that does not fit the object: to evaluate it tells more
                cost = max(cost, expression.estimate(shapes).cost)
        self._left -= cost
        if self._left < 0:
            raise BudgetError(
                "validation failed due to running out of cost budget, "
                "no further validation rules will be run"
            )
