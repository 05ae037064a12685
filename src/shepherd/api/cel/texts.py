"""The text of an expression, and what of it stands in string literals."""

import re
from collections.abc import Callable

_ESCAPED = r"\\(?:.|\Z)"
LITERAL = re.compile(
    rf"""//[^\n]*|[rRbB]{{0,2}}(?:\"{{3}}(?:{_ESCAPED}|[^\\])*?(?:\"{{3}}|\Z)|"""
    rf"""'{{3}}(?:{_ESCAPED}|[^\\])*?(?:'{{3}}|\Z)|"""
    rf"""\"(?:{_ESCAPED}|[^"\\])*(?:\"|\Z)|'(?:{_ESCAPED}|[^'\\])*(?:'|\Z))""",
    re.DOTALL,
)
"""And comments: what is in quotes there is none. What nothing closes goes to the end, so that no
text is looked at more than once."""


DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
"""What each bracket does to the depth of nesting."""


def blanked(text: str) -> str:
    """`text` with spaces in place of its string literals; as long as before."""
    return LITERAL.sub(lambda found: " " * len(found.group()), text)


def closing(text: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`; 0 if none does."""
    depth = 0
    for at, char in enumerate(blanked(text)[start:], start):
        depth += DEPTH.get(char, 0)
        if depth == 0:
            return at + 1
    return 0


def closings(bare: str) -> dict[int, int]:
    """Behind which bracket each one ends that is closed, in a text without literals."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for at, char in enumerate(bare):
        if DEPTH.get(char) == 1:
            opened.append(at)
        elif char in DEPTH and opened:
            found[opened.pop()] = at + 1
    return found


def outside(text: str, change: Callable[[str], str]) -> str:
    """`text` with what is outside of its string literals changed."""
    parts = []
    at = 0
    for literal in LITERAL.finditer(text):
        parts += [change(text[at : literal.start()]), literal.group()]
        at = literal.end()
    return "".join([*parts, change(text[at:])])
