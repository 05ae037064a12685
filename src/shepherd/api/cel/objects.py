"""Objects and patches written in CEL: `Object.spec{replicas: 3}`, `JSONPatch{op: "add", ...}`.

The library constructs only types that it has descriptors of, so these become maps before it sees
them. Source: apiserver pkg/cel/mutation.
"""

import re

from shepherd.api.cel.names import plain
from shepherd.api.cel.texts import DEPTH, blanked

_HEAD = re.compile(r"(?<![\w.])(?:Object|JSONPatch)(?:\s*\.\s*\w+)*\s*(?=\{)")
_DEEPEST = 64
"""More than the library takes."""
_FIELD = re.compile(r"\s*(\??)\s*([A-Za-z_]\w*)\s*(?=:)")


def as_maps(text: str) -> str:
    """`text` with maps in place of objects."""
    bare = blanked(text)
    changes: list[tuple[int, int, str]] = []
    for head in _HEAD.finditer(bare):
        changes.append((*head.span(), ""))
        changes += _fields(bare, head.end())
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _fields(bare: str, brace: int) -> list[tuple[int, int, str]]:
    """What becomes of the names of an object's fields; it begins at `brace`."""
    found = []
    depth, at = 0, brace
    while at < len(bare):
        char = bare[at]
        depth += DEPTH.get(char, 0)
        if depth == 0 or depth > _DEEPEST:
            break
        at += 1
        if depth == 1 and char in "{," and (field := _FIELD.match(bare, at)):
            found.append((*field.span(), f'{field[1]}"{plain(field[2])}"'))
            at = field.end()
    return found
