"""An API server over a store in memory, and a client that speaks to it in process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from shepherd.api.resource import Object
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response, Stream, User, parse_query
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.base import Write
from shepherd.store.memory import MemoryStore

ADMIN = User("admin", ("system:masters",))


@dataclass
class Answer:
    """What a test sees of a response."""

    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Api:
    """The API as a test calls it."""

    server: ApiServer
    store: MemoryStore
    open: list[Stream] = field(default_factory=list)

    async def send(self, method: str, target: str, body: Any = None, /, **headers: str) -> Response:
        parts = urlsplit(target)
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(
            method,
            parts.path,
            parse_query(parts.query),
            names,
            b"" if body is None else content,
            peer=ADMIN,
        )
        return await self.server.handle(request)

    async def ask(self, method: str, target: str, body: Any = None, /, **headers: str) -> Answer:
        response = await self.send(method, target, body, **headers)
        assert isinstance(response.body, bytes), "a stream was not expected"
        return Answer(response.status, response.headers, response.body)

    async def ok(self, method: str, target: str, body: Any = None, /, **headers: str) -> Any:
        answer = await self.ask(method, target, body, **headers)
        assert answer.code in (200, 201, 202), answer.body
        return answer.json

    async def fails(
        self, code: int, method: str, target: str, body: Any = None, /, **headers: str
    ) -> Object:
        answer = await self.ask(method, target, body, **headers)
        assert answer.code == code, answer.body
        status: Object = answer.json
        assert status["kind"] == "Status"
        assert status["code"] == code
        return status

    async def watch(self, target: str, /, **headers: str) -> "Events":
        response = await self.send("GET", target, **headers)
        assert not isinstance(response.body, bytes), response.body
        self.open.append(response.body)
        return Events(response.body)


class Events:
    """A watch stream, event by event."""

    def __init__(self, body: Stream) -> None:
        self._body = body
        self._lines: list[bytes] = []

    async def next(self) -> Object:
        while not self._lines:
            self._lines = (await anext(self._body)).splitlines()
        event: Object = msgspec.json.decode(self._lines.pop(0))
        return event

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def close(self) -> None:
        await self._body.aclose()

    async def ended(self) -> bool:
        return not self._lines and await anext(self._body, None) is None


class LateStore(MemoryStore):
    """A store whose commits take a turn of the event loop, as those to a disk do."""

    async def commit(self, *writes: Write) -> int:
        await asyncio.sleep(0)
        return await super().commit(*writes)


@asynccontextmanager
async def running(store: MemoryStore) -> AsyncIterator[Api]:
    server = ApiServer(
        store,
        config=ServerConfig(),
        clock=SystemClock(),
        random=Random(1),
        authenticator=InsecureAuthenticator(),
    )
    await server.start()
    api = Api(server, store)
    yield api
    for body in api.open:
        await body.aclose()
    await store.close()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with running(MemoryStore()) as api:
        yield api


@pytest.fixture
async def late() -> AsyncIterator[Api]:
    """The same over a store in which others may come first."""
    async with running(LateStore()) as api:
        yield api
