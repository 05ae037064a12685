"""Objects and patches written in CEL: `Object.spec{replicas: 3}`, `JSONPatch{op: "add", ...}`.

The library constructs only types that it has descriptors of, so these become maps before it sees
them. Source: apiserver pkg/cel/mutation.
"""

import re

from shepherd.api.cel.texts import blanked

_HEAD = re.compile(r"(?<![\w.])(?:Object|JSONPatch)(?:\s*\.\s*\w+)*\s*(?=\{)")
_FIELD = re.compile(r"\s*(\??)\s*([A-Za-z_]\w*)\s*(?=:)")
_DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_ESCAPED = (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__"))


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
        depth += _DEPTH.get(char, 0)
        if depth == 0:
            break
        at += 1
        if depth == 1 and char in "{," and (field := _FIELD.match(bare, at)):
            found.append((*field.span(), f'{field[1]}"{_plain(field[2])}"'))
            at = field.end()
    return found


def _plain(name: str) -> str:
    """A field's name without the marks that CEL needs."""
    for written, meant in _ESCAPED:
        name = name.replace(written, meant)
    if len(name) > 4 and name.startswith("__") and name.endswith("__"):
        return name[2:-2]
    return name
