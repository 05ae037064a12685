"""`-o jsonpath=TEMPLATE`: text with values in braces, as kubectl fills it.

`{.spec.replicas}` finds values, `{"\\n"}` is text, `{range .items[*]}...{end}` repeats. Source:
"JSONPath Support" in the Kubernetes documentation; client-go util/jsonpath.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from shepherd.api.jsonpath import JsonPathError, parse
from shepherd.cli.session import Usage

Part = Callable[[Any, Any], str]
"""From the value at hand and the whole object to text."""

_ACTION = re.compile(r"""\{((?:[^{}"']|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*)\}""")


def template(text: str) -> Callable[[Any], str]:
    """What fills the template from an object. Raises Usage."""
    tokens = _tokens(text)
    parts = _parts(tokens, within=False)
    return lambda obj: "".join(part(obj, obj) for part in parts)


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Pieces of the template, each with whether it stood in braces."""
    at = 0
    for match in _ACTION.finditer(text):
        if match.start() > at:
            yield False, text[at : match.start()]
        yield True, match[1].strip()
        at = match.end()
    if at < len(text):
        if "{" in text[at:]:
            raise Usage(f"jsonpath: {text[at:]!r} opens a brace that is not closed")
        yield False, text[at:]


def _parts(tokens: Iterator[tuple[bool, str]], *, within: bool) -> list[Part]:
    """The parts up to the end, or (`within` a range) to `{end}`."""
    parts: list[Part] = []
    for action, text in tokens:
        if not action:
            parts.append(_text(text))
        elif text == "end":
            if not within:
                raise Usage("jsonpath: {end} without {range}")
            return parts
        elif text.startswith("range "):
            parts.append(_range(_finder(text.removeprefix("range ")), _parts(tokens, within=True)))
        elif text[:1] in ("'", '"'):
            parts.append(_text(_unquoted(text)))
        else:
            parts.append(_values(_finder(text)))
    if within:
        raise Usage("jsonpath: {range} without {end}")
    return parts


def _finder(path: str) -> Callable[[Any, Any], list[Any]]:
    """What finds the values of a path: of the value at hand, or after `$` of the whole."""
    path = path.strip()
    try:
        found = parse(path.removeprefix("@"))
    except JsonPathError as error:
        raise Usage(f"jsonpath: {error}") from error
    return lambda value, root: found.find(root if path.startswith("$") else value)


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    try:
        return str(json.loads(f'"{inner}"')) if text[0] == '"' else inner.replace("\\'", "'")
    except ValueError as error:
        raise Usage(f"jsonpath: {text} is not a text in quotes") from error


def _text(text: str) -> Part:
    return lambda value, root: text


def _values(find: Callable[[Any, Any], list[Any]]) -> Part:
    return lambda value, root: " ".join(map(_shown, find(value, root)))


def _range(find: Callable[[Any, Any], list[Any]], parts: list[Part]) -> Part:
    return lambda value, root: "".join(
        part(item, root) for item in find(value, root) for part in parts
    )


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
