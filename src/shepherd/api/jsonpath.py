"""JSONPath as kubectl writes it: `.status.conditions[?(@.type=="Ready")].status`.

Only what finds values: fields, indices, slices, wildcards, filters and recursive descent; no
`range`. Source: "JSONPath Support" in the Kubernetes documentation; client-go util/jsonpath.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

MAX_LENGTH = 4096
"""Of a path in characters."""
MAX_DESCENTS = 1
"""Recursive descents (`..`) in a path: each multiplies what there is to look at by the depth."""

_STEP = re.compile(
    r"""\.\.(?P<deep>[^.\[\]]+)
      | \.(?P<field>(?:\\.|[^.\[\]\\])+)
      | \['(?P<single>(?:\\.|[^'\\])*)'\] | \["(?P<double>(?:\\.|[^"\\])*)"\]
      | \[(?P<index>-?\d{1,9})\] | (?P<all>\[\*\])
      | \[(?P<start>-?\d{0,9}):(?P<end>-?\d{0,9})\]
      | \[\?\((?P<filter>[^()]*)\)\]""",
    re.VERBOSE,
)
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_FILTER = re.compile(
    r"@(?P<path>[^=!<>\s]*)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>\S.*))?", re.DOTALL
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}

_Step = Callable[[Any], Iterator[Any]]
"""From a value to what the step finds in it."""


class JsonPathError(ValueError):
    """A path that cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path, ready to find values."""

    steps: tuple[_Step, ...]

    def find(self, value: Any) -> list[Any]:
        """Every value that the path leads to."""
        found = [value]
        for step in self.steps:
            found = [item for value in found for item in step(value)]
        return found

    def first(self, value: Any) -> Any:
        """The first value that the path leads to, or None."""
        found = self.find(value)
        return found[0] if found else None


@lru_cache(maxsize=1024)
def parse(text: str) -> JsonPath:
    """Read a path, with or without `{}` around it. Raises JsonPathError."""
    if len(text) > MAX_LENGTH:
        raise JsonPathError(f"a path may not be longer than {MAX_LENGTH} characters")
    rest = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if rest and rest[0] not in ".[":
        raise JsonPathError(f"unrecognized character in action: {rest[0]!r}: must begin with `.`")
    if _QUOTED.sub("", rest).count("..") > MAX_DESCENTS:
        raise JsonPathError(f"a path may not have more than {MAX_DESCENTS} recursive descent (..)")
    steps: list[_Step] = []
    at = 0
    while at < len(rest) and rest != ".":
        match = _STEP.match(rest, at)
        if match is None:
            raise JsonPathError(f"cannot read {rest[at:]!r}")
        steps.append(_step(match))
        at = match.end()
    return JsonPath(tuple(steps))


def fields(text: str) -> list[str] | None:
    """The names in a path of plain fields (`.spec.replicas`); None for any other path."""
    names = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or match["field"] in (None, "*"):
            return None
        names.append(_unescaped(match["field"]))
        at = match.end()
    return names


def _step(match: re.Match[str]) -> _Step:
    groups = match.groupdict()
    if (name := groups["deep"]) is not None:
        return _deep(name)
    for kind in ("field", "single", "double"):
        if (name := groups[kind]) is not None:
            return _everything if name == "*" and kind == "field" else _field(_unescaped(name))
    if groups["index"] is not None:
        return _slice(int(groups["index"]), None)
    if groups["all"]:
        return _everything
    if groups["start"] is not None:
        start, end = groups["start"], groups["end"]
        return _slice(int(start or 0), slice(int(start or 0), int(end) if end else None))
    return _filter(groups["filter"])


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _everything(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _slice(index: int, part: slice | None) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if not isinstance(value, list):
            return
        if part:
            yield from value[part]
        elif -len(value) <= index < len(value):
            yield value[index]

    return step


def _deep(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and (name == "*" or name in value):
            yield from value.values() if name == "*" else (value[name],)
        for below in _everything(value):
            yield from step(below)

    return step


def _filter(text: str) -> _Step:
    match = _FILTER.fullmatch(text.strip())
    if match is None:
        raise JsonPathError(f"cannot read the filter {text!r}")
    path, compare = parse(match["path"]), _COMPARE.get(match["op"] or "")
    wanted = _literal(match["value"]) if compare else None

    def passes(value: Any) -> bool:
        found = path.find(value)
        if compare is None or not found:
            return bool(found)
        try:
            return compare(found[0], wanted)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from filter(passes, value)

    return step


def _literal(text: str) -> Any:
    if text[:1] in "'\"" and text[-1:] == text[:1] and len(text) > 1:
        return _unescaped(text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise JsonPathError(f"{text!r} is neither a text in quotes nor a number") from None
