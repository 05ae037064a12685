"""YAML as people write manifests: 1.2 booleans, octal modes, everything as JSON.

`yes`, `no`, `on`, `off` and dates stay texts, keys become texts, tags beyond JSON's are refused,
and aliases may not make a document much larger than it is.
"""

import re
from functools import cache
from typing import Any

MAX_EXPANDED = 12 * 1024 * 1024
"""What a text may amount to with its aliases followed: a byte per character, 8 per value."""

_RESOLVERS = [
    ("tag:yaml.org,2002:bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:int",
     r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)", "-+0123456789"),
    ("tag:yaml.org,2002:float",
     r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)"
     r"|\.(?:nan|NaN|NAN)", "-+0123456789."),
    ("tag:yaml.org,2002:null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:merge", "<<", "<"),
]  # fmt: skip

Duplicates = dict[int, list[str]]
"""id of a mapping -> the keys that its text gave more than once."""


class YamlError(ValueError):
    """A text that is no YAML, or holds what JSON cannot."""


def load_all(text: str) -> tuple[list[Any], Duplicates]:
    """Every document of a text as JSON values. Raises YamlError."""
    import yaml

    duplicates: Duplicates = {}
    try:
        loader = _loader()(text)
        loader.duplicates = duplicates
        try:
            documents = []
            while loader.check_data():
                documents.append(loader.get_data())
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(" ".join(str(error).split())) from None
    _bound(documents)
    return documents, duplicates


def _bound(documents: list[Any]) -> None:
    size, pending = 0, list(documents)
    while pending:
        value = pending.pop()
        size += 8
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            size += sum(map(len, value))
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        if size > MAX_EXPANDED or len(pending) > MAX_EXPANDED // 8:
            raise YamlError("its aliases make it too large")


@cache
def _loader() -> Any:
    """The loader class; made when first needed, for yaml is slow to import."""
    import yaml

    class Loader(yaml.CSafeLoader):
        duplicates: Duplicates
        yaml_implicit_resolvers = {}  # noqa: RUF012  (PyYAML's own form)
        yaml_constructors = {}  # noqa: RUF012

    for tag, pattern, first in _RESOLVERS:
        Loader.add_implicit_resolver(tag, re.compile(f"(?:{pattern})$", re.ASCII), list(first))
    for name, construct in (
        ("null", lambda loader, node: None),
        ("bool", lambda loader, node: node.value.lower() == "true"),
        ("int", lambda loader, node: _integer(node.value)),
        ("float", lambda loader, node: _float(node.value)),
        ("str", lambda loader, node: loader.construct_scalar(node)),
        ("seq", _sequence),
        ("map", _mapping),
    ):
        Loader.add_constructor(f"tag:yaml.org,2002:{name}", construct)
    Loader.add_constructor(None, _refuse)
    return Loader


def _refuse(loader: Any, node: Any) -> Any:
    raise ValueError(f"the tag {node.tag} in line {node.start_mark.line + 1} has no JSON form")


def _sequence(loader: Any, node: Any) -> Any:
    items: list[Any] = []
    yield items
    items.extend(loader.construct_object(item) for item in node.value)


def _mapping(loader: Any, node: Any) -> Any:
    mapping: dict[str, Any] = {}
    yield mapping
    own = {id(key) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"}
    loader.flatten_mapping(node)
    given: set[str] = set()
    for key_node, value_node in node.value:
        key = _key(loader.construct_object(key_node, deep=True), key_node)
        if id(key_node) in own:
            if key in given:
                loader.duplicates.setdefault(id(mapping), []).append(key)
            given.add(key)
        mapping[key] = loader.construct_object(value_node)


def _key(value: Any, node: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
    raise ValueError(f"the key in line {node.start_mark.line + 1} is not a text")


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    for prefix, base in (("0b", 2), ("0o", 8), ("0x", 16)):
        if digits.startswith(prefix):
            return sign * int(digits[2:], base)
    # A leading zero is octal, as file modes are written.
    octal = len(digits) > 1 and digits[0] == "0" and not set(digits) & {"8", "9"}
    return sign * int(digits, 8 if octal else 10)


def _float(text: str) -> float | int:
    """JSON has neither infinity nor NaN, and does not tell 1.0 from 1."""
    number = float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
    if number - number != 0:
        raise ValueError(f"the number {text} has no JSON form")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
