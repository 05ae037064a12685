"""The text of an expression, and what of it stands in string literals."""

import re
from collections.abc import Callable

LITERAL = re.compile(
    r'''[rRbB]{0,2}(?:"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\''''
    r"""|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""",
    re.DOTALL,
)


def blanked(text: str) -> str:
    """`text` with spaces in place of its string literals; as long as before."""
    return LITERAL.sub(lambda found: " " * len(found.group()), text)


def outside(text: str, change: Callable[[str], str]) -> str:
    """`text` with what is outside of its string literals changed."""
    parts = []
    at = 0
    for literal in LITERAL.finditer(text):
        parts += [change(text[at : literal.start()]), literal.group()]
        at = literal.end()
    return "".join([*parts, change(text[at:])])
