"""`Client`: the verbs of the API as calls. Objects are JSON dicts, errors are `ApiError`."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

from shepherd.api.resource import Object, Resource
from shepherd.client.transport import Transport

PatchType = Literal["merge", "strategic", "json", "apply"]


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


class Client:
    """Speaks to the API server through a `Transport`.

    Every call raises `ApiError` for an answer other than success and `ConnectionError` when the
    server cannot be reached.
    """

    def __init__(self, transport: Transport, *, user_agent: str = "shepherd") -> None:
        self.transport = transport
        self.user_agent = user_agent

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, sub: str = ""
    ) -> Object:
        raise NotImplementedError

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
        raise NotImplementedError

    async def create(
        self, resource: Resource, obj: Object, namespace: str | None = None, *, sub: str = "",
        name: str = "",
    ) -> Object:  # fmt: skip
        """POST. With `sub` (binding, eviction, token) `name` is the parent's."""
        raise NotImplementedError

    async def update(self, resource: Resource, obj: Object, *, sub: str = "") -> Object:
        """PUT under the object's own resourceVersion, if it carries one."""
        raise NotImplementedError

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Any,
        *,
        type: PatchType = "merge",
        sub: str = "",
    ) -> Object:
        raise NotImplementedError

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
    ) -> Object:
        """`uid` and `resource_version` are preconditions: 409 if they no longer hold."""
        raise NotImplementedError

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        initial_events: bool = False,
        timeout_seconds: int = 0,
    ) -> AsyncIterator[WatchEvent]:
        """Events until the server ends the watch. Raises ApiError (410 when too old)."""
        raise NotImplementedError

    async def raw(
        self, method: str, path: str, *, query: dict[str, str] | None = None,
        body: bytes = b"", content_type: str = "", accept: str = "application/json",
    ) -> bytes:  # fmt: skip
        """Any request; the body of a successful answer."""
        raise NotImplementedError
