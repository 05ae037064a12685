"""The text of an expression, and what of it stands in string literals."""

import re
from collections.abc import Callable

LITERAL = re.compile(
    r'''[rRbB]{0,2}(?:"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\''''
    r"""|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""",
    re.DOTALL,
)


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


def outside(text: str, change: Callable[[str], str]) -> str:
    """`text` with what is outside of its string literals changed."""
    parts = []
    at = 0
    for literal in LITERAL.finditer(text):
        parts += [change(text[at : literal.start()]), literal.group()]
        at = literal.end()
    return "".join([*parts, change(text[at:])])
