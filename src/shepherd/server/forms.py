"""How objects go out: as stored, as a Table for `kubectl get`, or with their metadata alone.

A form turns stored bytes into answers. The plain form only splices and joins bytes. Source:
"Kubernetes API Concepts", alternate representations of resources.
"""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, Protocol

import msgspec

from shepherd.api import errors
from shepherd.api.kinds.cells import AGE
from shepherd.api.meta import stamp
from shepherd.api.resource import Column, Object, Resource
from shepherd.server.codec import decode, with_revision
from shepherd.server.conversion import CONVERSIONS
from shepherd.server.routes import Route
from shepherd.store.base import Item

As = Literal["plain", "table", "metadata"]

_TURN = 500
"""Objects of a list that are encoded before others get a turn on the event loop."""
_META = "meta.k8s.io/v1"
_INITIAL_END = "k8s.io/initial-events-end"


class Form(Protocol):
    """One way to write the objects of one resource."""

    key: str
    """Equal for streams whose events are the same bytes."""

    def one(self, value: bytes, revision: int) -> bytes:
        """A single object; without a revision (0) after a dry run."""
        ...

    async def many(self, items: list[Item], metadata: Object) -> bytes:
        """A list. `metadata` is that of the list."""
        ...

    def event(self, type: str, value: bytes, revision: int) -> bytes:
        """One line of a watch stream."""
        ...

    def opening(self, type: str, value: bytes, revision: int) -> bytes:
        """The first line of a watch stream: a Table names its columns there."""
        ...

    def bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        """The line that says how far the stream has come."""
        ...


class Plain:
    """Objects as they are stored, or as an alias serves them."""

    def __init__(self, route: Route) -> None:
        self.key = f"plain {route.api_version}"
        self._kind = route.resource.kind
        self._list_kind = route.resource.list_kind or f"{self._kind}List"
        self._api_version = route.api_version
        self._converted = route.converted

    def one(self, value: bytes, revision: int) -> bytes:
        if not self._converted:
            return stamp(value, revision) if revision else value
        obj = with_revision(decode(value), revision) if revision else decode(value)
        return msgspec.json.encode(CONVERSIONS[self._api_version].to_served(obj))

    async def many(self, items: list[Item], metadata: Object) -> bytes:
        return await _join(self._list_kind, self._api_version, metadata, items, self._item)

    def _item(self, item: Item) -> bytes:
        return self.one(item.value, item.revision)

    def event(self, type: str, value: bytes, revision: int) -> bytes:
        return _line(type, self.one(value, revision))

    opening = event

    def bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        return _bookmark(self._kind, self._api_version, revision, initial_end)


class MetadataOnly:
    """PartialObjectMetadata: for clients that index by labels or owners only."""

    def __init__(self, route: Route) -> None:
        self.key = f"metadata {route.api_version}"

    def one(self, value: bytes, revision: int) -> bytes:
        return msgspec.json.encode(_partial(with_revision(decode(value), revision)))

    async def many(self, items: list[Item], metadata: Object) -> bytes:
        return await _join(
            "PartialObjectMetadataList",
            _META,
            metadata,
            items,
            lambda item: self.one(item.value, item.revision),
        )

    def event(self, type: str, value: bytes, revision: int) -> bytes:
        return _line(type, self.one(value, revision))

    opening = event

    def bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        return _bookmark("PartialObjectMetadata", _META, revision, initial_end)


class Table:
    """What `kubectl get` shows: the server knows the columns, the client only prints them."""

    def __init__(self, resource: Resource, include: str, now: Callable[[], float]) -> None:
        self.key = f"table {resource.api_version} {include}"
        self._columns = table_columns(resource)
        self._include = include
        self._now = now

    def one(self, value: bytes, revision: int) -> bytes:
        row = self._row(value, revision)
        return self._table({"resourceVersion": str(revision)}, [row], columns=True)

    async def many(self, items: list[Item], metadata: Object) -> bytes:
        rows = []
        for count, item in enumerate(items, 1):
            rows.append(self._row(item.value, item.revision))
            if not count % _TURN:
                await asyncio.sleep(0)
        return self._table(metadata, rows, columns=True)

    def event(self, type: str, value: bytes, revision: int) -> bytes:
        row = self._row(value, revision)
        return _line(type, self._table({"resourceVersion": str(revision)}, [row], columns=False))

    def opening(self, type: str, value: bytes, revision: int) -> bytes:
        return _line(type, self.one(value, revision))

    def bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        metadata = _bookmark_metadata(revision, initial_end)
        row = {"cells": [None] * len(self._columns), "object": _partial({"metadata": metadata})}
        table = self._table({"resourceVersion": str(revision)}, [row], columns=False)
        return _line("BOOKMARK", table)

    def _row(self, value: bytes, revision: int) -> Object:
        obj = with_revision(decode(value), revision)
        now = self._now()
        row: Object = {"cells": [column.cell(obj, now) for column in self._columns]}
        if self._include == "Object":
            row["object"] = obj
        elif self._include == "Metadata":
            row["object"] = _partial(obj)
        return row

    def _table(self, metadata: Object, rows: list[Object], *, columns: bool) -> bytes:
        table = {
            "kind": "Table",
            "apiVersion": _META,
            "metadata": metadata,
            "columnDefinitions": [_definition(c) for c in self._columns] if columns else [],
            "rows": rows,
        }
        return msgspec.json.encode(table)


_NAME = Column(
    "Name",
    lambda obj, now: obj["metadata"]["name"],
    format="name",
    description="The object's name.",
)


@lru_cache
def table_columns(resource: Resource) -> tuple[Column, ...]:
    """All columns of a kind: NAME first and AGE last, unless it places its name itself."""
    declared = resource.columns
    if any(column.format == "name" for column in declared):
        return declared
    if any(column.name == "Age" for column in declared):
        return (_NAME, *declared)
    return (_NAME, *declared, AGE)


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": int(column.wide),
    }


def _partial(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": obj["metadata"]}


def _line(type: str, obj: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type.encode(), obj)


def _bookmark_metadata(revision: int, initial_end: bool) -> Object:
    metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {_INITIAL_END: "true"}
    return metadata


def _bookmark(kind: str, api_version: str, revision: int, initial_end: bool) -> bytes:
    obj = {
        "kind": kind,
        "apiVersion": api_version,
        "metadata": _bookmark_metadata(revision, initial_end),
    }
    return _line("BOOKMARK", msgspec.json.encode(obj))


async def _join(
    kind: str,
    api_version: str,
    metadata: Object,
    items: list[Item],
    encode: Callable[[Item], bytes],
) -> bytes:
    """The bytes of a list: its items are joined, never decoded."""
    parts: list[bytes] = []
    for count, item in enumerate(items, 1):
        parts.append(encode(item))
        if not count % _TURN:
            await asyncio.sleep(0)
    head = msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(parts))


@lru_cache(maxsize=256)
def negotiate(accept: str) -> As:
    """The form that an Accept header asks for first. Raises ApiError 406."""
    for choice in (accept or "*/*").split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        if media not in ("application/json", "application/*", "*/*"):
            continue
        wanted = dict(parameter.partition("=")[::2] for parameter in parameters)
        known = wanted.get("g") == "meta.k8s.io" and wanted.get("v") in ("v1", "v1beta1")
        match wanted.get("as"):
            case None:
                return "plain"
            case "Table" if known:
                return "table"
            case "PartialObjectMetadata" | "PartialObjectMetadataList" if known:
                return "metadata"
    raise errors.not_acceptable(
        "only the following media types are accepted: application/json, "
        "application/json;as=Table;v=v1;g=meta.k8s.io, "
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    )


def choose(route: Route, accept: str, include: str, now: Callable[[], float]) -> Form:
    """The form of an answer. Raises ApiError 400, 406."""
    match negotiate(accept):
        case "table":
            if include not in ("", "None", "Metadata", "Object"):
                raise errors.bad_request(
                    f'includeObject: unrecognized value "{include}": must be None, Metadata, Object'
                )
            return Table(route.resource, include or "Metadata", now)
        case "metadata":
            return MetadataOnly(route)
        case "plain":
            return Plain(route)
