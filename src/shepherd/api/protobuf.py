"""Kubernetes protobuf bodies, read over the schema.

kubectl and every Go client send built-in kinds so, and have no fall-back. Only reading is needed:
they accept JSON answers. A body is the magic `k8s\\0` and a runtime.Unknown with the type and the
message. Source: apimachinery `runtime/serializer/protobuf`, protobuf.dev "Encoding".
"""

import struct
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from shepherd.api.resource import Object
from shepherd.api.schema import Field, Type, get_type

MAGIC = b"k8s\x00"
MAX_DEPTH = 100
MAX_FIELDS = 200_000
"""Of one message, an item of a list counted as one."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Wire = int | bytes


class ProtobufError(ValueError):
    """Bytes that are no such message."""


class Envelope(msgspec.Struct, frozen=True):
    """What a body says it holds, and the message."""

    api_version: str
    kind: str
    message: bytes


def read_envelope(body: bytes) -> Envelope:
    """The type and the message of a body. Raises ProtobufError."""
    if not body.startswith(MAGIC):
        raise ProtobufError("the protobuf prefix is missing")
    parts = dict(wires(body[len(MAGIC) :]))
    meta = dict(wires(_bytes(parts.get(1, b""))))
    return Envelope(_text(meta.get(1, b"")), _text(meta.get(2, b"")), _bytes(parts.get(2, b"")))


def read_message(data: bytes, type: Type, depth: int = 0) -> Object:
    """A message as JSON. Fields that the schema does not know are skipped. Raises ProtobufError."""
    if depth > MAX_DEPTH:
        raise ProtobufError(f"messages are nested more than {MAX_DEPTH} deep")
    result: Object = {}
    inlined = dict(type.inlined)
    for count, (number, wire) in enumerate(wires(data)):
        _limit(count)
        if field := type.numbers.get(number):
            _add(result, field, wire, depth)
        elif number in inlined:
            result |= read_message(_bytes(wire), get_type(inlined[number]), depth + 1)
    return result


def _limit(count: int) -> None:
    if count > MAX_FIELDS:
        raise ProtobufError(f"a message has more than {MAX_FIELDS} fields")


def _add(result: Object, field: Field, wire: Wire, depth: int) -> None:
    shape = field.shape
    match shape.container:
        case "list":
            items = _items(_bytes(wire)) if shape.wrapped else _unpacked(shape.of, wire)
            result.setdefault(field.name, []).extend(_value(shape.of, i, depth) for i in items)
        case "map" | "map of lists":
            entry = dict(wires(_bytes(wire)))
            value = entry.get(2, b"")
            if shape.container == "map":
                found = _value(shape.of, entry.get(2, _empty(shape.of)), depth)
            else:
                found = [_value(shape.of, item, depth) for item in _items(_bytes(value))]
            result.setdefault(field.name, {})[_text(entry.get(1, b""))] = found
        case _:
            found = _value(shape.of, wire, depth)
            # Go writes the zero of every field that is no pointer: there it means "absent".
            absent = found in ("", 0, {}, None) and not (field.pointer or field.required)
            if found is not None and not absent:
                result[field.name] = found


def _items(data: bytes) -> list[Wire]:
    return [wire for number, wire in wires(data) if number == 1]


def _unpacked(scalar: str, wire: Wire) -> list[Wire]:
    """The numbers of a packed list; other lists come one item at a time."""
    if scalar not in _NUMBERS or isinstance(wire, int):
        return [wire]
    numbers: list[Wire] = []
    at = 0
    while at < len(wire):
        number, at = _varint(wire, at)
        numbers.append(number)
        _limit(len(numbers))
    return numbers


def wires(data: bytes) -> Iterator[tuple[int, Wire]]:
    """(field number, raw value) of each field of a message."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ProtobufError("a field has the number 0")
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in {_FIXED64, _FIXED32}:
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ProtobufError(f"field {number} has the unknown wire type {kind}")
        if at + size > end:
            raise ProtobufError("unexpected end of the message")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint and where the next thing starts."""
    result = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise ProtobufError("a number is longer than 64 bits")
    raise ProtobufError("unexpected end of the message")


def _bytes(wire: Wire) -> bytes:
    if isinstance(wire, int):
        raise ProtobufError("a number stands where a message or text must be")
    return wire


def _number(wire: Wire) -> int:
    if not isinstance(wire, int):
        raise ProtobufError("a message or text stands where a number must be")
    return wire - 2**64 if wire >= 2**63 else wire


def _text(wire: Wire) -> str:
    try:
        return _bytes(wire).decode()
    except UnicodeDecodeError:
        raise ProtobufError("a text is not valid UTF-8") from None


def _value(of: str, wire: Wire, depth: int) -> Any:
    if reader := _READERS.get(of):
        return reader(wire, depth)
    return read_message(_bytes(wire), get_type(of), depth + 1)


def _empty(of: str) -> Wire:
    return 0 if of in _NUMBERS else b""


def _int32(wire: Wire) -> int:
    value = _number(wire) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def _double(wire: Wire) -> float:
    if isinstance(wire, int) or len(wire) != 8:
        raise ProtobufError("a floating-point number has not 8 bytes")
    value: float = struct.unpack("<d", wire)[0]
    if value - value != 0:
        raise ProtobufError("a number is infinite or none at all")
    return value


def _quantity(wire: Wire) -> str:
    return _text(dict(wires(_bytes(wire))).get(1, b"")) or "0"


def _intstr(wire: Wire) -> int | str:
    parts = dict(wires(_bytes(wire)))
    return _text(parts.get(3, b"")) if parts.get(1) else _int32(parts.get(2, 0))


def _time(wire: Wire, form: str) -> str | None:
    """An empty message is Go's zero time: none."""
    parts = dict(wires(_bytes(wire)))
    if not parts:
        return None
    seconds, nanos = _number(parts.get(1, 0)), _int32(parts.get(2, 0))
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ProtobufError("a time is out of range") from None
    return moment.strftime(form)


def _json(wire: Wire) -> Any:
    """JSON inside a message: RawExtension, FieldsV1, a schema's values."""
    raw = _bytes(dict(wires(_bytes(wire))).get(1, b""))
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise ProtobufError("the JSON inside a message is malformed") from None


def _schema_or(other: str, wire: Wire, depth: int) -> Any:
    """A JSON schema (field 1 or 2), or what may stand in its place."""
    parts = list(wires(_bytes(wire)))
    schema_number = 2 if other == "bool" else 1
    for number, item in parts:
        if number == schema_number:
            return _value(_SCHEMA, item, depth)
    if other == "bool":
        return any(number == 1 and item for number, item in parts)
    return [_value(other, item, depth) for number, item in parts if number == 2]


_SCHEMA = "apiextensions.v1.JSONSchemaProps"
_NUMBERS = {"bool", "int32", "int64"}
_READERS: dict[str, Any] = {
    "string": lambda wire, depth: _text(wire),
    "bool": lambda wire, depth: _number(wire) != 0,
    "int32": lambda wire, depth: _int32(wire),
    "int64": lambda wire, depth: _number(wire),
    "double": lambda wire, depth: _double(wire),
    "bytes": lambda wire, depth: b64encode(_bytes(wire)).decode(),
    "quantity": lambda wire, depth: _quantity(wire),
    "intstr": lambda wire, depth: _intstr(wire),
    "time": lambda wire, depth: _time(wire, "%Y-%m-%dT%H:%M:%SZ"),
    "microtime": lambda wire, depth: _time(wire, "%Y-%m-%dT%H:%M:%S.%fZ"),
    "raw": lambda wire, depth: _json(wire),
    "fields": lambda wire, depth: _json(wire),
    "json": lambda wire, depth: _json(wire),
    "schema-or-array": partial(_schema_or, _SCHEMA),
    "schema-or-bool": partial(_schema_or, "bool"),
    "schema-or-strings": partial(_schema_or, "string"),
}
