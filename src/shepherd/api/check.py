"""An object against its schema: wrong types are errors, unknown fields are dropped and named.

It runs on every write, so each type becomes a chain of closures once. As in Kubernetes, null means
absent, quantities and times take their canonical form, and what is required is left to validation.
Source: apimachinery `runtime/serializer/json`, sigs.k8s.io/json.
"""

import binascii
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from shepherd.api.quantity import QuantityError, canonical
from shepherd.api.resource import Object
from shepherd.api.schema import Shape, Type, get_type

MAX_UNKNOWN = 100
"""Unknown fields named in one answer; more are dropped silently, as upstream."""

Path = tuple[Any, ...]
"""A step and the path before it, linked: `("image", (0, ("containers", ())))`."""
Checker = Callable[[Any, Path, list[str]], Any]
"""From a value, where it stands and the unknown fields so far to its normal form."""


class WrongType(ValueError):  # noqa: N818  (it is the answer's text, not an internal failure)
    """A value that its field cannot hold; the message names the field."""


def check(obj: Object, type: Type) -> tuple[Object, list[str]]:
    """The object in normal form, and the paths of its unknown fields (which are gone).

    `obj` is not changed; whatever needs no change is shared. Raises WrongType.
    """
    unknown: list[str] = []
    root = type.name.rpartition(".")[2]
    checked: Object = _struct(type.name)(obj, (root, ()), unknown)
    return checked, unknown


def path_text(path: Path) -> str:
    """`spec.containers[0].image`, without the root type."""
    return _dotted(path).partition(".")[2]


def _dotted(path: Path) -> str:
    steps: list[str] = []
    while path:
        step, path = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps))[1:]


def _wrong(value: Any, path: Path, wanted: str) -> WrongType:
    match value:
        case bool():
            found = "bool"
        case int():
            found = "number" if wanted == "string" else f"number {str(value)[:40]}"
        case float():
            found = "number" if wanted == "string" else f"number {value}"
        case str():
            found = "string"
        case list():
            found = "array"
        case _:
            found = "object" if isinstance(value, dict) else "null"
    place = f"Go struct field {_dotted(path)} of type {wanted}"
    return WrongType(f"json: cannot unmarshal {found} into {place}")


def _string(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is not str:
        raise _wrong(value, path, "string")
    return value


def _bool(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is not bool:
        raise _wrong(value, path, "bool")
    return value


def _integer(bits: int) -> Checker:
    limit = 2 ** (bits - 1)

    def integer(value: Any, path: Path, unknown: list[str]) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise _wrong(value, path, f"int{bits}")
        return value

    return integer


_int32 = _integer(32)


def _double(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max):
        return value
    raise _wrong(value, path, "float64")


def _quantity(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) not in {str, int, float}:
        raise _wrong(value, path, "resource.Quantity")
    try:
        text = canonical(value.strip() if isinstance(value, str) else value)
    except QuantityError as error:
        raise WrongType(f"{path_text(path)}: {error}") from None
    return value if text == value else text


def _intstr(value: Any, path: Path, unknown: list[str]) -> Any:
    return value if type(value) is str else _int32(value, path, unknown)


_rfc3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


@lru_cache(maxsize=1024)
def _utc(text: str, form: str) -> str | None:
    if not _rfc3339.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC).strftime(form)
    except (ValueError, OverflowError):
        return None


def _time_in(form: str) -> Checker:
    def time(value: Any, path: Path, unknown: list[str]) -> Any:
        if type(value) is not str:
            raise _wrong(value, path, "string")
        # The longest is checked first: a cache must not keep what a client makes up.
        text = _utc(value, form) if len(value) < 64 else None
        if text is None:
            problem = f'parsing time "{value[:64]}" as "2006-01-02T15:04:05Z07:00": no such time'
            raise WrongType(f"{path_text(path)}: {problem}")
        return value if text == value else text

    return time


def _bytes(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is not str:
        raise _wrong(value, path, "[]uint8")
    text = value.replace("\n", "").replace("\r", "")
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise WrongType(f"{path_text(path)}: illegal base64 data") from None
    return value if text == value else text


def _any(value: Any, path: Path, unknown: list[str]) -> Any:
    return value


def _any_object(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is not dict:
        raise _wrong(value, path, "map[string]interface {}")
    return value


def _json_schema(value: Any, path: Path, unknown: list[str]) -> Any:
    return _struct("apiextensions.v1.JSONSchemaProps")(value, path, unknown)


def _schema_or_array(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is list:
        return [_json_schema(item, (at, path), unknown) for at, item in enumerate(value)]
    return _json_schema(value, path, unknown)


def _schema_or_bool(value: Any, path: Path, unknown: list[str]) -> Any:
    return value if type(value) is bool else _json_schema(value, path, unknown)


def _schema_or_strings(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is list:
        return [_string(item, (at, path), unknown) for at, item in enumerate(value)]
    return _json_schema(value, path, unknown)


_SCALARS: dict[str, tuple[Checker, Any]] = {
    "string": (_string, ""),
    "bool": (_bool, False),
    "int32": (_int32, 0),
    "int64": (_integer(64), 0),
    "double": (_double, 0),
    "bytes": (_bytes, ""),
    "quantity": (_quantity, "0"),
    "intstr": (_intstr, 0),
    "time": (_time_in("%Y-%m-%dT%H:%M:%SZ"), None),
    "microtime": (_time_in("%Y-%m-%dT%H:%M:%S.%fZ"), None),
    "raw": (_any, None),
    "json": (_any, None),
    "fields": (_any_object, None),
    "schema-or-array": (_schema_or_array, None),
    "schema-or-bool": (_schema_or_bool, None),
    "schema-or-strings": (_schema_or_strings, None),
}
"""How each scalar is checked, and what a null among others of it means."""

_FAST = {"string": str, "bool": bool, "raw": object, "json": object}
"""Scalars that an exact Python type proves right."""


@cache
def _checker(shape: Shape) -> Checker:
    one, zero = _SCALARS[shape.of] if shape.scalar else (_struct(shape.of), {})
    match shape.container:
        case "list":
            return _list(one, zero, _FAST.get(shape.of), f"[]{_go_name(shape.of)}")
        case "map":
            return _map(one, zero, _FAST.get(shape.of), f"map[string]{_go_name(shape.of)}")
        case "map of lists":
            inner = _list(one, zero, _FAST.get(shape.of), f"[]{_go_name(shape.of)}")
            return _map(inner, [], None, f"map[string][]{_go_name(shape.of)}")
    return one


def _go_name(name: str) -> str:
    return name.partition(".")[2] or name


def _list(one: Checker, zero: Any, fast: type | None, wanted: str) -> Checker:
    def items(value: Any, path: Path, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise _wrong(value, path, wanted)
        result = value
        for at, item in enumerate(value):
            if type(item) is fast:
                continue
            normal = zero if item is None else one(item, (at, path), unknown)
            if normal is not item:
                if result is value:
                    result = list(value)
                result[at] = normal
        return result

    return items


def _map(one: Checker, zero: Any, fast: type | None, wanted: str) -> Checker:
    def entries(value: Any, path: Path, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _wrong(value, path, wanted)
        result = value
        for key, item in value.items():
            if type(item) is fast:
                continue
            normal = zero if item is None else one(item, (key, path), unknown)
            if normal is not item:
                if result is value:
                    result = dict(value)
                result[key] = normal
        return result

    return entries


@cache
def _struct(name: str) -> Checker:
    table: dict[str, tuple[type | None, Checker]] = {}
    """Field -> the Python type that needs no further check, checker. Filled on first use, for
    types may hold themselves."""

    def fill() -> None:
        for field in get_type(name).fields.values():
            fast = None if field.shape.container else _FAST.get(field.shape.of)
            table[field.name] = (fast, _checker(field.shape))

    def struct(value: Any, path: Path, unknown: list[str]) -> Any:
        if not table:
            fill()
        if type(value) is not dict:
            raise _wrong(value, path, _go_name(name))
        result = value
        for key, item in value.items():
            known = table.get(key)
            if known is not None and type(item) is known[0]:
                continue
            if known is None and len(unknown) < MAX_UNKNOWN:
                unknown.append(path_text((key, path)))
            normal = None if item is None or known is None else known[1](item, (key, path), unknown)
            if normal is not item or item is None:
                if result is value:
                    result = dict(value)
                if normal is None:
                    del result[key]
                else:
                    result[key] = normal
        return result

    return struct
