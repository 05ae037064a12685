"""What the documentation names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
_TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")
_MODULE = re.compile(r"`((?:agent|api|controllers|runtime|scheduler|server|testing)/[\w/]+)`")
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[\w-]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tests_modules_and_files_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text()
    for file, name in _TEST.findall(text):
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"
    for link in _LINK.findall(text):
        assert (page.parent / link).exists(), link
    for module in _MODULE.findall(text):
        path = ROOT / "src" / "shepherd" / module
        assert path.is_dir() or path.with_suffix(".py").exists(), module
