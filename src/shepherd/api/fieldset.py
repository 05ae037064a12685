"""Sets of an object's fields, in the form in which managedFields holds them (`fieldsV1`).

A set is a tree: its keys are path elements (`f:name` a field, `k:{"name":"a"}` an item by its keys,
`v:"x"` an item by its value), and a field that is a member has either nothing below it or a `.`
beside what is below it. So sets are stored, compared and changed as they are, without a form of
their own; trees share parts and are never changed in place. Source: sigs.k8s.io/structured-merge-
diff, fieldpath.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

FieldSet = dict[str, Any]
Path = tuple[str, ...]

MEMBER: FieldSet = {}
"""What is below a member that has no members below it."""
_SELF = "."
_ELEMENTS = ("f:", "k:", "v:", "i:")


def is_member(below: FieldSet) -> bool:
    """Whether the field with this below it is itself in the set."""
    return not below or _SELF in below


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields in either."""
    if not a or not b:
        return a or b
    found = dict(a)
    for element, below in b.items():
        found[element] = _both(a[element], below) if element in a else below
    return found


def _both(a: FieldSet, b: FieldSet) -> FieldSet:
    found = union(a, b)
    if found and _SELF not in found and (is_member(a) or is_member(b)):
        found = found | {_SELF: MEMBER}
    return found


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields of `a` that are not in `b`."""
    if not b:
        return a
    found = {}
    for element, below in a.items():
        if element not in b:
            found[element] = below
        elif element != _SELF:
            left = difference(below, b[element])
            stays = is_member(below) and not is_member(b[element])
            if left or stays:
                found[element] = _marked(left, stays)
    return found


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields in both."""
    found = {}
    for element, below in a.items():
        if element in b and element != _SELF:
            both = intersection(below, b[element])
            stays = is_member(below) and is_member(b[element])
            if both or stays:
                found[element] = _marked(both, stays)
    return found


def _marked(below: FieldSet, member: bool) -> FieldSet:
    """`below` with or without the mark that its field is a member."""
    if is_member(below) == member:
        return MEMBER if below.keys() == {_SELF} else below
    if member:
        return below | {_SELF: MEMBER}
    return {element: rest for element, rest in below.items() if element != _SELF}


def outside(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields of `a` that are not in `b`, and have nothing below them in `b`."""
    found = {}
    for element, below in a.items():
        if element not in b:
            found[element] = below
        elif element != _SELF and (left := _marked(outside(below, b[element]), member=False)):
            found[element] = left
    return found


def paths(fields: FieldSet, start: Path = ()) -> Iterator[Path]:
    """The members, in order."""
    for element in sorted(fields):
        if element != _SELF:
            path = (*start, element)
            if is_member(fields[element]):
                yield path
            yield from paths(fields[element], path)


def path_text(path: Path) -> str:
    """`.spec.containers[name="web"].image`, as conflicts name fields."""
    parts = []
    for element in path:
        rest = element[2:]
        match element[0]:
            case "f":
                parts.append(f".{rest}")
            case "k":
                keys: dict[str, Any] = msgspec.json.decode(rest)
                parts.append("[" + ",".join(f"{k}={as_json(v)}" for k, v in keys.items()) + "]")
            case "v":
                parts.append(f"[={rest}]")
            case _:
                parts.append(f"[{rest}]")
    return "".join(parts)


def as_json(value: Any) -> str:
    """How path elements write values."""
    return msgspec.json.encode(value).decode()


def read(fields: Any) -> FieldSet:
    """A set that a client wrote. Raises ValueError if it is none."""
    if not isinstance(fields, dict):
        raise ValueError("fieldsV1 holds something other than objects")  # noqa: TRY004
    found = {}
    for element, below in fields.items():
        if element != _SELF and element[:2] not in _ELEMENTS:
            raise ValueError(f"fieldsV1 has no sense at {element!r}")
        if element[0] == "k" and not isinstance(msgspec.json.decode(element[2:]), dict):
            raise ValueError(f"fieldsV1 has no keys at {element!r}")
        found[element] = read(below)
    return MEMBER if found.keys() == {_SELF} else found
