"""The informer: the same as the server's state, through restarts, expiry and silence."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from shepherd.api.errors import expired
from shepherd.api.kinds import POD
from shepherd.api.objects import Pod
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.informer import Informer
from shepherd.client.transport import InProcessTransport
from shepherd.lib.http import Request, Response, User
from shepherd.lib.tasks import cancel_and_wait


class FastClock:
    """Waits take a turn of the loop."""

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def pod(name: str, revision: int, *, uid: str = "u", node: str = "") -> Object:
    meta = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(revision)}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}}


class Server:
    """Answers watches by script: each entry is a list of events, or an error to answer with."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.streams: asyncio.Queue[asyncio.Queue[bytes | None] | Exception | Response] = (
            asyncio.Queue()
        )

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        stream = await self.streams.get()
        if isinstance(stream, Exception):
            raise stream
        if isinstance(stream, Response):
            return stream
        return Response(200, {}, self._body(stream))

    async def _body(self, stream: asyncio.Queue[bytes | None]) -> AsyncGenerator[bytes, None]:
        while (chunk := await stream.get()) is not None:
            yield chunk

    def open(self) -> "Stream":
        stream = Stream()
        self.streams.put_nowait(stream.queue)
        return stream


class Stream:
    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def send(self, type: str, obj: Object) -> None:
        self.queue.put_nowait(json.dumps({"type": type, "object": obj}).encode() + b"\n")

    def listed(self, revision: int, *pods: Object) -> None:
        """All that exists, and the bookmark that says so."""
        for obj in pods:
            self.send("ADDED", obj)
        annotations = {"k8s.io/initial-events-end": "true"}
        meta = {"resourceVersion": str(revision), "annotations": annotations}
        self.send("BOOKMARK", {"metadata": meta})

    def end(self) -> None:
        self.queue.put_nowait(None)


class Follower:
    """An informer of pods that notes what its handler was told."""

    def __init__(self, server: Server) -> None:
        client = Client(InProcessTransport(server.handle, User("me")))
        self.informer = Informer(client, POD, Pod, clock=FastClock(), random=Random(1))
        self.informer.index("node", lambda p: [p.spec.node_name] if p.spec.node_name else [])
        self.told: list[str] = []
        self.informer.on_change(self.note)

    def note(self, old: Pod | None, new: Pod | None) -> None:
        sign = "+" if old is None else "-" if new is None else "~"
        obj = new or old
        assert obj is not None
        self.told.append(sign + obj.metadata.name)


@asynccontextmanager
async def following(server: Server) -> AsyncIterator[Follower]:
    follower = Follower(server)
    task = asyncio.ensure_future(follower.informer.run())
    try:
        yield follower
    finally:
        await cancel_and_wait(task)


async def until(follower: Follower, *told: str) -> None:
    """Wait until the handler has been told this, and nothing else."""
    while len(follower.told) < len(told):  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert follower.told == list(told)


async def test_it_follows_adds_changes_and_deletions_and_keeps_indices() -> None:
    server = Server()
    stream = server.open()
    stream.listed(5, pod("a", 3), pod("b", 4))
    async with following(server) as it:
        await it.informer.synced()
        stream.send("MODIFIED", pod("a", 6, node="n1"))
        stream.send("DELETED", pod("b", 7))
        await until(it, "+a", "+b", "~a", "-b")
        assert [p.metadata.name for p in it.informer.by_index("node", "n1")] == ["a"]
        assert it.informer.get("ns/b") is None
        assert len(it.informer) == 1
        stream.send("MODIFIED", pod("a", 8, node="n2"))
        await until(it, "+a", "+b", "~a", "-b", "~a")
        assert it.informer.by_index("node", "n1") == []


async def test_a_watch_that_ends_goes_on_from_where_it_was() -> None:
    server = Server()
    first, second = server.open(), server.open()
    first.listed(5, pod("a", 3))
    first.send("MODIFIED", pod("a", 9))
    first.end()
    second.send("MODIFIED", pod("a", 10))
    async with following(server) as it:
        await until(it, "+a", "~a", "~a")
    assert server.requests[0].param("sendInitialEvents") == "true"
    assert server.requests[1].param("resourceVersion") == "9"
    assert server.requests[1].param("sendInitialEvents") == ""


async def test_expiry_lists_anew_and_tells_the_differences_only() -> None:
    server = Server()
    first = server.open()
    first.listed(5, pod("same", 1), pod("changed", 2), pod("gone", 3), pod("replaced", 4))
    first.send("ERROR", expired("too old").status())
    second = server.open()
    second.listed(
        9, pod("same", 1), pod("changed", 7), pod("new", 8), pod("replaced", 9, uid="other")
    )
    async with following(server) as it:
        await until(
            it,
            *("+same", "+changed", "+gone", "+replaced"),
            *("~changed", "+new", "-replaced", "+replaced", "-gone"),
        )
    assert server.requests[1].param("sendInitialEvents") == "true"


async def test_a_server_that_is_away_or_refuses_is_tried_again() -> None:
    server = Server()
    server.streams.put_nowait(ConnectionError("refused"))
    server.streams.put_nowait(Response(503, {}, b"starting"))
    server.open().listed(5, pod("a", 3))
    async with following(server) as it:
        await it.informer.synced()
        assert it.informer.get("ns/a")


async def test_it_reads_its_own_writes_ahead_of_the_watch() -> None:
    server = Server()
    stream = server.open()
    stream.listed(5, pod("a", 3))
    async with following(server) as it:
        await it.informer.synced()
        it.informer.observe(pod("b", 6))
        assert it.informer.get("ns/b")
        stream.send("ADDED", pod("b", 6))
        stream.send("DELETED", pod("b", 8))
        await until(it, "+a", "+b", "-b")
        it.informer.observe(pod("b", 7))
        assert it.informer.get("ns/b") is None, "the watch knew better already"


async def test_an_own_write_behind_a_list_survives_it() -> None:
    server = Server()
    first, second = server.open(), server.open()
    first.listed(5, pod("a", 3))
    async with following(server) as it:
        await it.informer.synced()
        it.informer.observe(pod("mine", 9))
        first.send("ERROR", expired("too old").status())
        second.listed(8, pod("a", 3), pod("b", 7))
        await until(it, "+a", "+mine", "+b")
        second.send("ADDED", pod("mine", 9))
        second.send("MODIFIED", pod("mine", 10))
        await until(it, "+a", "+mine", "+b", "~mine")


async def test_a_restored_server_with_older_revisions_wins() -> None:
    server = Server()
    first, second = server.open(), server.open()
    first.listed(50, pod("a", 40), pod("b", 41))
    first.send("ERROR", expired("unknown revision").status())
    second.listed(9, pod("a", 3))
    async with following(server) as it:
        await until(it, "+a", "+b", "~a", "-b")


async def test_an_object_of_odd_form_is_left_out_and_the_rest_goes_on() -> None:
    server = Server()
    server.open().listed(5, pod("a", 3) | {"spec": {"nodeName": 7}}, pod("b", 4))
    async with following(server) as it:
        await it.informer.synced()
        await until(it, "+b")


async def test_a_handler_that_comes_late_is_told_all() -> None:
    server = Server()
    server.open().listed(5, pod("a", 3), pod("b", 4))
    async with following(server) as it:
        await it.informer.synced()
        late: list[str] = []
        it.informer.on_change(lambda old, new: late.append(new.metadata.name if new else ""))
        assert late == ["a", "b"]
