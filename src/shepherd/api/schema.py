"""The fields of every Kubernetes kind, as data: the ground under decoding, patches and OpenAPI.

`schema.json.gz` is made by tools/build_schema.py (docs/adr/0004-schema-data.md). Only its outline
is read at first use; each type is decoded when something asks for it.
"""

from functools import cache, cached_property
from pkgutil import get_data
from typing import Any
from zlib import decompress

import msgspec

_GZIP = 31
_ZEROS: dict[str, Any] = {"string": "", "bool": False}


class Shape(msgspec.Struct, frozen=True):
    """What a value is: a scalar or a named type, alone or in a list or map.

    Scalars: string, bool, int32, int64, double, bytes (base64), quantity, intstr, time, microtime,
    json (anything), raw (any object), fields (of managedFields), and three of JSON schemas that may
    be a schema or something else: schema-or-array, schema-or-bool, schema-or-strings.
    """

    container: str
    """"" for the value itself, `list`, `map`, or `map of lists`."""
    of: str
    """A scalar, or a type such as `core.v1.Container`."""
    wrapped: bool = False
    """In protobuf the list is a message of its own."""

    @property
    def scalar(self) -> bool:
        return "." not in self.of


@cache
def _shape(text: str) -> Shape:
    wrapped = "<>" in text
    text = text.replace("<>", "[]")
    for mark, container in (("{}[]", "map of lists"), ("[]", "list"), ("{}", "map")):
        if text.startswith(mark):
            return Shape(container, text.removeprefix(mark), wrapped)
    return Shape("", text)


class Field(msgspec.Struct, array_like=True, frozen=True):
    """One field of a type, in the form of schema.json.gz."""

    name: str
    type: str
    number: int = 0
    """Of the protobuf field; 0 when it arrives inside an inlined message or not at all."""
    flags: str = ""
    """r: required; p: a pointer, so that its zero in protobuf is a value; z: absence means zero."""
    collection: str = ""
    """Of a list: atomic, set, map:key,key. Of a map or object: atomic, granular."""
    patch: str = ""
    """Strategic merge: merge, replace, retainKeys, and the merge key: `merge:name`."""
    stated_default: str = ""
    """As JSON."""

    @property
    def shape(self) -> Shape:
        return _shape(self.type)

    @property
    def required(self) -> bool:
        return "r" in self.flags

    @property
    def pointer(self) -> bool:
        return "p" in self.flags

    @property
    def default(self) -> Any:
        """What absence means to Go: what is stated, zero, or {} for an object; None: nothing."""
        if self.stated_default:
            return msgspec.json.decode(self.stated_default)
        if "z" in self.flags:
            return _ZEROS.get(self.type, 0)
        shape = self.shape
        return None if self.pointer or shape.container or shape.scalar else {}

    @property
    def list_type(self) -> str:
        """atomic, set or map; lists are atomic unless said otherwise."""
        return self.collection.partition(":")[0] or "atomic"

    @property
    def list_keys(self) -> list[str]:
        """The fields that tell the items of a `map` list apart."""
        keys = self.collection.partition(":")[2]
        return keys.split(",") if keys else []

    @property
    def strategies(self) -> list[str]:
        return self.patch.partition(":")[0].split(",")

    @property
    def merge_key(self) -> str:
        return self.patch.partition(":")[2]


class _Entry(msgspec.Struct, array_like=True):
    fields: list[Field] = []
    inlined: list[tuple[int, str]] = []
    map_type: str = ""


class Type:
    """One message type: `core.v1.PodSpec`."""

    def __init__(self, name: str, entry: _Entry) -> None:
        self.name = name
        self.fields = {field.name: field for field in entry.fields}
        self.inlined = entry.inlined
        """Protobuf number and type of the messages whose fields JSON shows as this type's own."""
        self.atomic = entry.map_type == "atomic"
        """Server-side apply treats values of it as one."""

    @cached_property
    def numbers(self) -> dict[int, Field]:
        return {field.number: field for field in self.fields.values() if field.number}


class _Outline(msgspec.Struct):
    packages: dict[str, str]
    kinds: dict[str, dict[str, str]]
    types: dict[str, msgspec.Raw]


@cache
def _outline() -> _Outline:
    data = get_data("shepherd.api", "schema.json.gz")
    assert data is not None
    return msgspec.json.decode(decompress(data, _GZIP), type=_Outline)


@cache
def get_type(name: str) -> Type:
    """The type of that name. Raises KeyError."""
    return Type(name, msgspec.json.decode(_outline().types[name], type=_Entry))


def type_of(group: str, version: str, kind: str) -> Type | None:
    """The type of a kind, or None if the schema has no such kind."""
    api_version = f"{group}/{version}" if group else version
    name = _outline().kinds.get(api_version, {}).get(kind)
    if name is None and kind == "DeleteOptions":  # the same in every group
        name = "meta.v1.DeleteOptions"
    return get_type(name) if name else None


def kinds_of(type_name: str) -> list[tuple[str, str, str]]:
    """(group, version, kind) of a type; empty for those that are only parts of kinds."""
    found = []
    for api_version, kinds in _outline().kinds.items():
        group, _, version = api_version.rpartition("/")
        found += [(group, version, kind) for kind, name in kinds.items() if name == type_name]
    return found


def openapi_name(type_name: str) -> str:
    """The name of a type in OpenAPI documents: `io.k8s.api.core.v1.Pod`."""
    package, _, name = type_name.rpartition(".")
    return f"{_outline().packages[package]}.{name}"
