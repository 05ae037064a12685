"""What a bench answers: rows, and how they are printed."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    name: str
    value: float
    unit: str
    target: str = ""
    """What it should reach, e.g. `>= 400` or `<= 1.0`; empty if there is no such demand."""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if not self.target:
            return None
        relation, bound = self.target.split()
        return self.value >= float(bound) if relation == ">=" else self.value <= float(bound)


def table(rows: Sequence[Row]) -> str:
    """The rows in aligned columns; a `!` marks a figure that falls short."""
    head = ("", "WHAT", "VALUE", "UNIT", "TARGET", "NOTE")
    lines = [head] + [
        (
            "!" if row.met is False else "",
            row.name,
            number(row.value),
            row.unit,
            row.target,
            row.note,
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column == 2 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def number(value: float) -> str:
    """Three significant digits below a thousand, whole numbers above."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def as_json(rows: Sequence[Row]) -> str:
    return json.dumps([asdict(row) | {"met": row.met} for row in rows], indent=2)
