"""From the bytes of a request to an object that fits its kind.

Whatever is wrong with a body is an ApiError that says what and where. Source: apiserver
`endpoints/handlers/{create,rest}`, apimachinery `runtime/serializer`.
"""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import msgspec

from shepherd.api.check import WrongType
from shepherd.api.check import check as check_type
from shepherd.api.errors import (
    ApiError,
    bad_request,
    invalid,
    not_supported,
    unsupported_media_type,
)
from shepherd.api.protobuf import ProtobufError, read_envelope, read_message
from shepherd.api.resource import Object
from shepherd.api.schema import type_of
from shepherd.api.yamltext import YamlError, load_all

MAX_DEPTH = 100
"""Of the lists and objects in a body."""
MAX_VALUES = 200_000
"""Of one body: the items of its lists and the fields of its objects."""
MAX_PROBLEMS = 100
"""Duplicate keys named in one answer."""

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

FieldValidation = Literal["Strict", "Warn", "Ignore"]
Check = Callable[[Object], tuple[Object, list[str]]]
"""From an object to its normal form and its unknown fields. Raises WrongType."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object, and what to warn its sender of (fieldValidation=Warn)."""

    object: Object
    warnings: list[str] = field(default_factory=list)


def field_validation(text: str) -> FieldValidation:
    """The `fieldValidation` parameter; Warn if there is none. Raises ApiError 422."""
    match text:
        case "" | "Warn":
            return "Warn"
        case "Strict" | "Ignore":
            return text
    allowed = ["Ignore", "Strict", "Warn"]
    errors = [not_supported("fieldValidation", text, allowed)]
    raise invalid("meta.k8s.io", "CreateOptions", "", errors)


def decode_object(
    body: bytes, content_type: str, group: str, version: str, kind: str,
    *, validation: FieldValidation = "Warn", check: Check | None = None,
) -> Decoded:  # fmt: skip
    """The object of that kind in a body of JSON, YAML or protobuf. Raises ApiError 400 or 415.

    A body may leave out kind and apiVersion, but not name others. The result has both, has known
    fields only (of kinds in the schema), and no nulls.
    """
    problems: list[str] = []
    if media_type(content_type) == PROTOBUF:
        obj = _decode_protobuf(body, group, version, kind)
    else:
        obj, problems = decode_value(body, content_type)
        if not isinstance(obj, dict):
            raise bad_request(f"the body must be an object, not {_json_name(obj)}")
    api_version = f"{group}/{version}" if group else version
    _expect(obj, api_version, kind)
    obj = {"kind": kind, "apiVersion": api_version} | obj
    return check_object(
        obj, group, version, kind, validation=validation, problems=problems, check=check
    )


def check_object(
    obj: Object, group: str, version: str, kind: str,
    *, validation: FieldValidation = "Warn", problems: list[str] | None = None,
    check: Check | None = None,
) -> Decoded:  # fmt: skip
    """An object against the schema of its kind; patched objects come here too.

    `check` takes the place of the schema data for kinds that it does not know.

    `problems` are those of its text. Raises ApiError 400.
    """
    problems = list(problems or [])
    head = f'{kind} in version "{version}" cannot be handled as a {kind}: '
    if check is None and (known := type_of(group, version, kind)):
        check = partial(check_type, type=known)
    if check:
        try:
            obj, unknown = check(obj)
        except WrongType as error:
            raise bad_request(head + str(error)) from None
        problems += [f'unknown field "{path}"' for path in unknown]
    if problems and validation == "Strict":
        raise bad_request(f"{head}strict decoding error: {', '.join(problems)}")
    return Decoded(obj, problems if validation == "Warn" else [])


def decode_value(body: bytes, content_type: str = JSON) -> tuple[Any, list[str]]:
    """The JSON value in a body of JSON or YAML (patches too), and its duplicate fields.

    Media types that end in `+json` or `+yaml` are read as those. Raises ApiError 400 or 415.
    """
    media = media_type(content_type)
    if not body.strip():
        raise bad_request("the request body is empty")
    if media in {YAML, "text/yaml", "application/x-yaml"} or media.endswith("+yaml"):
        if body.lstrip()[:1] == b"{":  # JSON is YAML, and is read a hundred times faster
            with suppress(ApiError):
                return _decode_json(body)
        return _decode_yaml(body)
    if media == JSON or media.endswith("+json"):
        return _decode_json(body)
    raise unsupported_media_type(
        f"the body of the request was in an unknown format ({media}) - accepted media types "
        f"include: {JSON}, {YAML}, {PROTOBUF}"
    )


def media_type(content_type: str) -> str:
    """A Content-Type without its parameters; JSON if there is none."""
    return content_type.partition(";")[0].strip().lower() or JSON


def _expect(obj: Object, api_version: str, kind: str) -> None:
    if kind == "DeleteOptions":  # clients send it under any version
        obj.pop("apiVersion", None)
        obj.pop("kind", None)
    given = obj.get("apiVersion") or api_version
    if given != api_version:
        raise bad_request(
            f"the API version in the data ({given}) does not match the expected API version "
            f"({api_version})"
        )
    if (given := obj.get("kind") or kind) != kind:
        raise bad_request(f"{given} in version {api_version} cannot be handled as a {kind}")


def _json_name(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _decode_json(body: bytes) -> tuple[Any, list[str]]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        text = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise bad_request(f"the body is not valid JSON: {text}") from None
    # A quote and a colon end a key, unless the quote is part of a text. Where the counts differ
    # there may be duplicates, or only an unusual way of writing.
    keys = body.count(b'":') - body.count(b'\\":')
    if keys == bounded(value):
        return value, []
    return value, _duplicates_of_json(body)


def bounded(value: Any) -> int:
    """The keys of all objects in `value`. Raises ApiError 400 if it is too deep or too large."""
    keys = items = depth = 0
    level = [value]
    while level:
        depth += 1
        if depth > MAX_DEPTH + 1:
            raise bad_request(f"nested too deep: more than {MAX_DEPTH} levels")
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                keys += len(item)
                below += [v for v in item.values() if type(v) is dict or type(v) is list]
            elif type(item) is list:
                items += len(item)
                below += [v for v in item if type(v) is dict or type(v) is list]
            if keys + items > MAX_VALUES:
                raise bad_request(f"too large: more than {MAX_VALUES} values")
        level = below
    return keys


def _duplicates_of_json(body: bytes) -> list[str]:
    """The slow way, for bodies that seem to have duplicates."""
    duplicates: dict[int, list[str]] = {}

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            duplicates[id(found)] = [name for name, count in counts.items() if count > 1]
        return found

    value = json.loads(body, object_pairs_hook=note)
    return _name_duplicates(value, duplicates)


def _name_duplicates(value: Any, duplicates: dict[int, list[str]]) -> list[str]:
    problems: list[str] = []

    def visit(value: dict[str, Any] | list[Any], path: str) -> None:
        if len(problems) >= MAX_PROBLEMS:
            return
        if isinstance(value, dict):
            start = f"{path}." if path else ""
            problems.extend(f'duplicate field "{start}{k}"' for k in duplicates.get(id(value), ()))
            for key, item in value.items():
                if isinstance(item, dict | list):
                    visit(item, start + key)
        else:
            for at, item in enumerate(value):
                if isinstance(item, dict | list):
                    visit(item, f"{path}[{at}]")

    if duplicates:
        visit(value, "")
    return problems[:MAX_PROBLEMS]


_YAML_MARKS = (b"\n", b",", b":", b"[", b"{", b"- ", b"? ")
"""Every value in a YAML text takes one of them at least."""


def _decode_yaml(body: bytes) -> tuple[Any, list[str]]:
    # Counted before the text is read, for its reader cannot be stopped and takes 3 µs a value.
    if sum(map(body.count, _YAML_MARKS)) > MAX_VALUES:
        raise bad_request(f"the YAML is too large: more than {MAX_VALUES} lines and values")
    try:
        documents, duplicates = load_all(body.decode())
    except UnicodeDecodeError:
        raise bad_request("the body is not valid UTF-8") from None
    except YamlError as error:
        raise bad_request(f"the body is not valid YAML: {error}") from None
    if len(documents) != 1:
        raise bad_request(f"the body must be one YAML document, not {len(documents)}")
    bounded(documents[0])
    return documents[0], _name_duplicates(documents[0], duplicates)


def _decode_protobuf(body: bytes, group: str, version: str, kind: str) -> Object:
    known = type_of(group, version, kind)
    if known is None:
        raise unsupported_media_type(f"{kind} has no protobuf form; send {JSON}")
    try:
        envelope = read_envelope(body)
        obj = {"kind": envelope.kind, "apiVersion": envelope.api_version}
        obj = {key: value for key, value in obj.items() if value}
        _expect(obj, f"{group}/{version}" if group else version, kind)
        obj |= read_message(envelope.message, known)
    except ProtobufError as error:
        raise bad_request(f"the body is not valid protobuf: {error}") from None
    bounded(obj)
    return obj
