"""What the expressions about one object may cost together.

The library ends an evaluation after 10,000 turns of its loops, however much each of them does, and
knows no bound of what texts and lists grow to. So before expressions that make such, or have loops
and are about large objects, are evaluated, their cost is reckoned from the object itself; all
others cost a flat price. Source: apiserver pkg/apis/cel/config.go.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from shepherd.api.cel.expressions import CelError, Expression
from shepherd.api.cel.shapes import Shape, measured

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
        self._shapes: dict[int, tuple[Any, Shape]] = {}
        """Of what was measured, by its identity; nothing of it changes meanwhile."""
        self._large = len(msgspec.json.encode(obj)) > _LARGE_BYTES

    def charge(self, expression: Expression, values: Mapping[str, Any]) -> None:
        """Take what an evaluation costs. Raises BudgetError if that is more than is left."""
        cost: float = _FLAT
        if expression.grows or (self._large and expression.loops):
            shapes = {name: self._measured(value) for name, value in values.items()}
            cost = max(cost, expression.reckoned(shapes))
        self._left -= cost
        if self._left < 0:
            raise BudgetError(
                "validation failed due to running out of cost budget, "
                "no further validation rules will be run"
            )

    def _measured(self, value: Any) -> Shape:
        found = self._shapes.get(id(value))
        if found is None:
            found = self._shapes[id(value)] = value, measured(value)
        return found[1]
