"""OpenAPI v2 in protobuf, the form that kubectl reads: gnostic's openapi.v2.Document.

Each message of the form is a table from its JSON keys to how they are written. A document is one
message, and messages may be joined: whoever writes one part after the other holds only that part.
Source: google/gnostic openapiv2/OpenAPIv2.proto.
"""

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

Json = dict[str, Any]
Encode = Callable[[Any], bytes]
"""From a value in JSON to the bytes of a field, its number included."""
Fields = Mapping[str, Encode]

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_UINT64 = 2**64 - 1


def document_head(swagger: str, info: Json) -> bytes:
    """How a document begins."""
    return _message(_DOCUMENT, {"swagger": swagger, "info": info})


def document_part(part: str, name: str, value: Json) -> bytes:
    """One path or one definition: `part` is "paths" or "definitions"."""
    return _message(_DOCUMENT, {part: {name: value}})


# -- wire --------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    out = bytearray()
    number &= _UINT64  # what is negative comes as its complement
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _message(fields: Fields, value: Json) -> bytes:
    """The fields of a message. Keys that the form does not know are left out."""
    parts = []
    for key, item in value.items():
        if encode := fields.get(key):
            parts.append(encode(item))
        elif key.startswith("x-") and "x-" in fields:
            parts.append(fields["x-"]((key, item)))
    return b"".join(parts)


# -- kinds of fields ---------------------------------------------------------------------------


def _text(number: int) -> Encode:
    return lambda value: _bytes(number, value.encode())


def _integer(number: int) -> Encode:
    return lambda value: _varint(number << 3 | _VARINT) + _varint(value)


def _double(number: int) -> Encode:
    return lambda value: _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def _any(number: int) -> Encode:
    """Any value, as YAML; JSON is YAML too."""
    return lambda value: _bytes(number, _bytes(2, msgspec.json.encode(value)))


def _extension(number: int) -> Encode:
    """A key that begins with `x-`, with its value."""
    value = _any(2)
    return lambda pair: _bytes(number, _bytes(1, pair[0].encode()) + value(pair[1]))


def _one(number: int, fields: Fields) -> Encode:
    """A message."""
    return lambda value: _bytes(number, _message(fields, value))


def _each(encode: Encode) -> Encode:
    """The field comes once for each item of a list."""
    return lambda values: b"".join(map(encode, values))


def _named(number: int, value: Encode) -> Encode:
    """The field comes once for each pair of a map. `value` writes field 2 of the pair."""
    return lambda items: b"".join(
        _bytes(number, _bytes(1, name.encode()) + value(item)) for name, item in items.items()
    )


def _within(number: int, encode: Encode) -> Encode:
    """A message that only holds what `encode` writes."""
    return lambda value: _bytes(number, encode(value))


# -- the messages ------------------------------------------------------------------------------

_SCHEMA: dict[str, Encode] = {}


def _type(value: str) -> bytes:
    return _bytes(22, _bytes(1, value.encode()))


def _additional(value: Json | bool) -> bytes:
    allowed = _integer(2) if isinstance(value, bool) else _one(1, _SCHEMA)
    return _bytes(21, allowed(value))


_SCHEMA |= {
    "$ref": _text(1),
    "format": _text(2),
    "title": _text(3),
    "description": _text(4),
    "default": _any(5),
    "multipleOf": _double(6),
    "maximum": _double(7),
    "exclusiveMaximum": _integer(8),
    "minimum": _double(9),
    "exclusiveMinimum": _integer(10),
    "maxLength": _integer(11),
    "minLength": _integer(12),
    "pattern": _text(13),
    "maxItems": _integer(14),
    "minItems": _integer(15),
    "uniqueItems": _integer(16),
    "maxProperties": _integer(17),
    "minProperties": _integer(18),
    "required": _each(_text(19)),
    "enum": _each(_any(20)),
    "additionalProperties": _additional,
    "type": _type,
    "items": _within(23, _one(1, _SCHEMA)),
    "properties": _within(25, _named(1, _one(2, _SCHEMA))),
    "example": _any(30),
    "x-": _extension(31),
}
SCHEMA_KEYS = frozenset(_SCHEMA) - {"x-"}
"""What a schema may say in this form, beside extensions."""

_BODY: Fields = {
    "name": _text(2), "in": _text(3), "required": _integer(4), "schema": _one(5, _SCHEMA),
}  # fmt: skip
_QUERY: Fields = {
    "required": _integer(1), "in": _text(2), "name": _text(4), "type": _text(6),
    "uniqueItems": _integer(20),
}  # fmt: skip
_PATH: Fields = {
    "required": _integer(1), "in": _text(2), "name": _text(4), "type": _text(5),
    "uniqueItems": _integer(19),
}  # fmt: skip
_PLACES: Mapping[str, Encode] = {
    "body": _one(1, _BODY),
    "query": _within(2, _one(3, _QUERY)),
    "path": _within(2, _one(4, _PATH)),
}


def _parameter(number: int, value: Json) -> bytes:
    return _bytes(number, _bytes(1, _PLACES[value["in"]](value)))


_RESPONSE: Fields = {"description": _text(1), "schema": _within(2, _one(1, _SCHEMA))}
_OPERATION: Fields = {
    "operationId": _text(5),
    "produces": _each(_text(6)),
    "consumes": _each(_text(7)),
    "parameters": _each(partial(_parameter, 8)),
    "responses": _within(9, _named(1, _within(2, _one(1, _RESPONSE)))),
    "x-": _extension(13),
}
_PATH_ITEM: Fields = {
    "get": _one(2, _OPERATION),
    "put": _one(3, _OPERATION),
    "post": _one(4, _OPERATION),
    "delete": _one(5, _OPERATION),
    "patch": _one(8, _OPERATION),
    "parameters": _each(partial(_parameter, 9)),
}
_DOCUMENT: Fields = {
    "swagger": _text(1),
    "info": _one(2, {"title": _text(1), "version": _text(2)}),
    "paths": _within(8, _named(2, _one(2, _PATH_ITEM))),
    "definitions": _within(9, _named(1, _one(2, _SCHEMA))),
}
