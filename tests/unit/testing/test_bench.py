"""What `python -m bench` prints."""

import importlib
import json
from typing import Any

import bench.__main__ as program
import pytest
from bench.report import Row, as_json, table

ROWS = [
    Row("start", 0.8512, "s", "<= 1.0"),
    Row("pods", 12345.6, "pods/s", ">= 20000", "two cores"),
    Row("memory", 70.0, "MB"),
]


def test_a_table_marks_what_falls_short() -> None:
    lines = table(ROWS).splitlines()
    assert lines[1].split() == ["start", "0.851", "s", "<=", "1.0"]
    assert lines[2].split() == ["!", "pods", "12,346", "pods/s", ">=", "20000", "two", "cores"]


def test_json_holds_the_whole_figures() -> None:
    rows = json.loads(as_json(ROWS))
    assert [row["met"] for row in rows] == [True, False, None]
    assert rows[1]["value"] == 12345.6


def test_a_bench_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Module:
        def __init__(self, name: str) -> None:
            self.name = name

        def measure(self) -> list[Row]:
            if self.name == "bench.broken":
                raise RuntimeError("no such disk")
            return ROWS

    importer: Any = Module
    monkeypatch.setattr(importlib, "import_module", importer)
    monkeypatch.setattr(program, "BENCHES", {"broken": "", "sound": ""})
    assert program.main(["--json"]) == 1
    printed = capsys.readouterr()
    assert "no such disk" in printed.err
    assert len(json.loads(printed.out)) == 3
    assert program.main(["sound"]) == 0


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["nonsense"])
    assert "no bench named nonsense" in capsys.readouterr().err
