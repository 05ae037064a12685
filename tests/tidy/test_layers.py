"""The rules of docs/ARCHITECTURE.md that code can check."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "shepherd"
MODULES = sorted(SOURCE.rglob("*.py"))

# Decisions: no I/O, no time, no chance. Whole packages end in a slash.
PURE = ("api/", "agent/pod_plan.py", "agent/pod_status.py", "scheduler/cycle.py")
IMPURE = {"asyncio", "time", "random", "os", "socket", "subprocess", "threading", "sqlite3"}


def test_imports_follow_the_layers() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def _imports(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def test_pure_modules_touch_neither_the_world_nor_time_nor_chance() -> None:
    for path in MODULES:
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(PURE):
            assert not _imports(ast.parse(path.read_text())) & IMPURE, name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 500
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or node.lineno) - node.lineno < 70, node.name
