"""`sheepctl` against an API server in this process: no sockets, the same bytes."""

import io
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

import msgspec
import pytest

from shepherd.api.errors import bad_request
from shepherd.api.kinds import RESOURCES
from shepherd.api.meta import object_key
from shepherd.api.resource import Object
from shepherd.cli.main import run
from shepherd.cli.session import Session, warn
from shepherd.client.base import Client
from shepherd.client.transport import InProcessTransport
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response, User
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.base import Put
from shepherd.store.memory import MemoryStore

T = TypeVar("T")
ADMIN = User("admin", ("system:masters",))


@dataclass
class Result:
    """What a user sees of a command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The lines of a table, split at its gaps."""
        return [[c.strip() for c in line.split("   ") if c] for line in self.out.splitlines()]


class FakeAgent:
    """Answers for the agents: logs and images."""

    def __init__(self) -> None:
        self.logs: dict[str, bytes] = {}
        self.asked: list[Request] = []
        self.loaded = b""

    async def send(self, origin: str, request: Request) -> Response:
        self.asked.append(request)
        if request.path.startswith("/containerLogs/"):
            if request.path.split("/")[3] not in self.logs:
                status = bad_request("the container is waiting to start").status()
                return Response(400, {}, msgspec.json.encode(status))
            return Response(200, {"content-type": "text/plain"}, self._log(request.path))
        image: Object = {"id": "sha256:0123456789abcdef", "names": ["demo:1"]}
        if request.stream is not None:
            self.loaded = b"".join([chunk async for chunk in request.stream])
            if self.loaded == b"garbage":
                status = bad_request("cannot import the archive: it is no image archive").status()
                return Response(400, {}, msgspec.json.encode(status))
        else:
            image = image | {"names": ["demo:1", "demo@sha256:0"], "sizeBytes": 2_500_000}
        return Response(200, {}, msgspec.json.encode({"images": [image]}))

    async def _log(self, path: str) -> AsyncGenerator[bytes, None]:
        yield self.logs[path.split("/")[3]]


class Cluster:
    """A server with a store in memory. Each command runs in an event loop of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._patch = monkeypatch
        self._store = MemoryStore()
        self.agent = FakeAgent()
        self.forbidden: set[str] = set()
        """Paths that this user may not ask for."""

    @asynccontextmanager
    async def connect(self, session: Session) -> AsyncIterator[Client]:
        server = ApiServer(
            self._store,
            config=ServerConfig(),
            clock=SystemClock(),
            random=Random(1),
            authenticator=InsecureAuthenticator(),
            dialer=self.agent,
        )
        await server.start()
        session.server = "https://in.process"

        async def handle(request: Request) -> Response:
            if request.path in self.forbidden:
                return Response(403, {}, b'{"kind": "Status", "code": 403, "message": "no"}')
            return await server.handle(request)

        yield Client(InProcessTransport(handle, ADMIN), on_warning=warn)

    def __call__(self, *arguments: str, stdin: str = "") -> Result:
        """Run `sheepctl` with these arguments."""
        self._patch.setattr(sys, "stdin", io.StringIO(stdin))
        code = run(list(arguments), Session(connect=self.connect))
        out, err = self._capsys.readouterr()
        return Result(code, out, err)

    def ask(self, call: Callable[[Client], Awaitable[T]]) -> T:
        """Let a client of one's own ask the API."""
        return Session(connect=self.connect).run(call)

    def given(self, kind: str, name: str, /, namespace: str = "default", **fields: Any) -> Object:
        """An object straight in the API, status and all."""
        resource = next(resource for resource in RESOURCES if resource.kind == kind)
        obj: Object = {
            "kind": kind,
            "apiVersion": resource.api_version,
            "metadata": {"name": name} | fields.pop("metadata", {}),
        } | fields

        async def make(client: Client) -> Object:
            space = namespace if resource.namespaced else None
            made = await client.create(resource, obj, space)
            if "status" not in fields or not resource.status:
                return made
            return await client.update(resource, made | {"status": fields["status"]}, sub="status")

        return self.ask(make)

    def set_status(self, kind: str, obj: Object, status: Object) -> None:
        """Write an object's status, as its controller does."""
        resource = next(resource for resource in RESOURCES if resource.kind == kind)
        metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}

        async def write(client: Client) -> None:
            wanted = obj | {"metadata": metadata, "status": status}
            await client.update(resource, wanted, sub="status")

        self.ask(write)

    def bind(self, pod: Object, node: str) -> None:
        """Put a pod on a node, as the scheduler does."""
        stored = pod | {"spec": pod["spec"] | {"nodeName": node}}
        metadata = {k: v for k, v in pod["metadata"].items() if k != "resourceVersion"}
        resource = next(resource for resource in RESOURCES if resource.kind == "Pod")
        key = object_key(resource, metadata["namespace"], metadata["name"])
        value = msgspec.json.encode(stored | {"metadata": metadata})

        async def put(client: Client) -> None:
            await self._store.commit(Put(key, value))

        self.ask(put)


@pytest.fixture
def sheepctl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(capsys, monkeypatch)


@pytest.fixture
def connected() -> Callable[[Callable[[Request], Response]], Session]:
    """From what a server answers to a session with that server."""

    def make(answer: Callable[[Request], Response]) -> Session:
        class Server:
            async def send(self, request: Request) -> Response:
                return answer(request)

            async def close(self) -> None:
                pass

        @asynccontextmanager
        async def connect(session: Session) -> AsyncIterator[Client]:
            yield Client(Server())

        return Session(connect=connect)

    return make
