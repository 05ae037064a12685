"""The table of docs/limits.md says what the code does."""

import importlib
import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "limits.md"
ROW = re.compile(
    r"\| (?P<what>.+) \| (?P<limit>\d+) \| .+ \| `(?P<module>[\w.]+)\.(?P<name>\w+)` \|"
)
ROWS = [
    match.groupdict() for match in map(ROW.fullmatch, DOCUMENT.read_text().splitlines()) if match
]


def test_every_row_is_read() -> None:
    assert len(ROWS) == DOCUMENT.read_text().count("`shepherd.")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["what"])
def test_a_limit_is_as_documented(row: dict[str, str]) -> None:
    module = importlib.import_module(row["module"])
    assert getattr(module, row["name"]) == int(row["limit"])
