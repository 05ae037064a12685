"""`Client`: the verbs of the API as calls. Objects are JSON dicts, errors are `ApiError`."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from shepherd.api.errors import ApiError
from shepherd.api.resource import Object, Resource
from shepherd.client.transport import Transport
from shepherd.lib.http import Body, Request, Response

PatchType = Literal["merge", "strategic", "json", "apply"]
Params = Mapping[str, str]

_PATCH_CONTENT: dict[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_JSON = "application/json"
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')

LINE_LIMIT_BYTES = 16 * 2**20
"""A watch event longer than this ends the watch: the memory of a reader stays bounded."""


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A list and the resourceVersion to watch from."""

    items: list[Object]
    resource_version: str
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK (an ERROR is raised)."""

    type: str
    object: Object


class RawEvent(msgspec.Struct):
    """One event of a watch whose object is not decoded yet: the reader knows its type."""

    type: str
    object: msgspec.Raw


_decode = msgspec.json.Decoder()
_decode_event = msgspec.json.Decoder(RawEvent)


class Client:
    """Speaks to the API server through a `Transport`.

    Every call raises `ApiError` for an answer other than success and `ConnectionError` when the
    server cannot be reached. `params` are further query parameters, such as dryRun,
    fieldValidation and force. `on_warning` gets the text of each `Warning` header.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "shepherd",
        field_manager: str = "",
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self.transport = transport
        self.user_agent = user_agent
        self.field_manager = field_manager
        self._on_warning = on_warning

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, sub: str = ""
    ) -> Object:
        return _object(await self.raw("GET", resource.path(namespace, name, sub)))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ObjectList:
        """The objects of one namespace, or (None) of all."""
        query = _present(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit or ""),
            resourceVersion=resource_version,
        )
        if continue_token:
            query["continue"] = continue_token
        answer = _object(await self.raw("GET", resource.path(namespace), query=query))
        meta = answer.get("metadata", {})
        return ObjectList(
            answer.get("items") or [], meta.get("resourceVersion", ""), meta.get("continue", "")
        )

    async def create(
        self,
        resource: Resource,
        obj: Object,
        namespace: str | None = None,
        *,
        sub: str = "",
        name: str = "",
        params: Params | None = None,
    ) -> Object:
        """POST. With `sub` (binding, eviction, token) `name` is the parent's."""
        namespace = namespace or obj.get("metadata", {}).get("namespace")
        return await self._write(
            "POST", resource.path(namespace, name or None, sub), obj, params=params
        )

    async def update(
        self, resource: Resource, obj: Object, *, sub: str = "", params: Params | None = None
    ) -> Object:
        """PUT under the object's own resourceVersion, if it carries one."""
        meta = obj["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"], sub)
        return await self._write("PUT", path, obj, params=params)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Any,
        *,
        type: PatchType = "merge",
        sub: str = "",
        params: Params | None = None,
    ) -> Object:
        path = resource.path(namespace, name, sub)
        return await self._write(
            "PATCH", path, patch, content_type=_PATCH_CONTENT[type], params=params
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        propagation: str = "",
        uid: str = "",
        resource_version: str = "",
        params: Params | None = None,
    ) -> Object:
        """`uid` and `resource_version` are preconditions: 409 if they no longer hold."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        if preconditions := _present(uid=uid, resourceVersion=resource_version):
            options["preconditions"] = preconditions
        return await self._write("DELETE", resource.path(namespace, name), options, params=params)

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        label_selector: str = "",
        propagation: str = "",
    ) -> None:
        """Delete every object of a namespace that the selector chooses."""
        query = _present(labelSelector=label_selector, propagationPolicy=propagation)
        await self.raw("DELETE", resource.path(namespace), query=query)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        initial_events: bool = False,
        timeout_seconds: int = 0,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events until the server ends the watch. Raises ApiError (410 when too old)."""
        events = self.watch_raw(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            initial_events=initial_events,
            timeout_seconds=timeout_seconds,
        )
        async with aclosing(events):
            async for event in events:
                yield WatchEvent(event.type, _object(event.object))

    async def watch_raw(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        initial_events: bool = False,
        timeout_seconds: int = 0,
        accept: str = _JSON,
    ) -> AsyncGenerator[RawEvent, None]:
        """`watch` with the objects as bytes, for readers that decode into a type of their own, and
        in the form that they accept."""
        query = _present(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=str(timeout_seconds or ""),
        )
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        chunks = await self.stream("GET", resource.path(namespace), query=query, accept=accept)
        try:
            async with aclosing(split_lines(chunks)) as lines:
                async for line in lines:
                    event = _decode_event.decode(line)
                    if event.type == "ERROR":
                        raise ApiError.from_status(500, _object(event.object))
                    yield event
        finally:
            await _close(chunks)

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Params | None = None,
        body: Body = b"",
        content_type: str = "",
        accept: str = _JSON,
    ) -> bytes:
        """Any request; the body of a successful answer. `body` may be a stream of any length."""
        response = await self._send(method, path, query, body, content_type, accept)
        return await _read(response.body)

    async def stream(
        self, method: str, path: str, *, query: Params | None = None, accept: str = _JSON
    ) -> AsyncIterator[bytes]:
        """Any request; the body as it arrives (logs, watches). Close it (`aclose`) to end it."""
        response = await self._send(method, path, query, b"", "", accept)
        return _once(response.body) if isinstance(response.body, bytes) else response.body

    async def close(self) -> None:
        await self.transport.close()

    async def _write(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        content_type: str = _JSON,
        params: Params | None = None,
    ) -> Object:
        query = dict(params or {})
        if self.field_manager and method != "DELETE":
            query.setdefault("fieldManager", self.field_manager)
        data = msgspec.json.encode(body)
        return _object(
            await self.raw(method, path, query=query, body=data, content_type=content_type)
        )

    async def _send(
        self,
        method: str,
        path: str,
        query: Params | None,
        body: Body,
        content_type: str,
        accept: str,
    ) -> Response:
        headers = _present(accept=accept, **{"user-agent": self.user_agent})
        if content_type:
            headers["content-type"] = content_type
        request = Request(method, path, list((query or {}).items()), headers)
        if isinstance(body, bytes):
            request.body = body
        else:
            request.stream = body
        response = await self.transport.send(request)
        if self._on_warning and (warnings := response.headers.get("warning")):
            for text in _WARNING.findall(warnings):
                self._on_warning(re.sub(r"\\(.)", r"\1", text))
        if response.status >= 300:
            raise _error(response, await _read(response.body))
        return response


async def split_lines(
    chunks: AsyncIterator[bytes], limit_bytes: int = LINE_LIMIT_BYTES
) -> AsyncGenerator[bytes, None]:
    """The lines of a stream without their ends; empty ones are left out.

    Raises ConnectionError at a line longer than `limit_bytes`. A last line without an end was cut
    off and is dropped.
    """
    rest: list[bytes] = []
    held = 0
    async for chunk in chunks:
        *lines, tail = chunk.split(b"\n")
        for line in lines:
            if rest:
                line = b"".join([*rest, line])
                rest.clear()
                held = 0
            if line:
                yield line
        if tail:
            rest.append(tail)
            held += len(tail)
            if held > limit_bytes:
                raise ConnectionError(f"the server sent a line longer than {limit_bytes} bytes")


def _present(**values: str) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


def _object(data: bytes | msgspec.Raw) -> Object:
    value = _decode.decode(data)
    if not isinstance(value, dict):
        raise ConnectionError("the server answered something that is not a JSON object")
    return value


def _error(response: Response, body: bytes) -> ApiError:
    """The error that an answer describes, whether or not it is a `Status`."""
    try:
        status = _decode.decode(body)
    except msgspec.DecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = body[:200].decode(errors="replace").strip()
        status = {"message": text} if text else {}
    error = ApiError.from_status(response.status, status)
    error.headers = response.headers
    return error


async def _read(body: Body) -> bytes:
    if isinstance(body, bytes):
        return body
    try:
        return b"".join([chunk async for chunk in body])
    finally:
        await _close(body)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _close(stream: AsyncIterator[Any]) -> None:
    """End an iterator that may be a generator (or has an `aclose` of its own)."""
    if aclose := getattr(stream, "aclose", None):
        await aclose()
