"""Events: repeats folded, floods limited, outages survived."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shepherd.api.errors import not_found, too_many_requests
from shepherd.api.kinds import NODE, POD
from shepherd.api.objects import ObjectMeta
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.recorder import Recorder, reference
from shepherd.client.transport import InProcessTransport
from shepherd.lib.http import Request, Response, User
from shepherd.lib.tasks import cancel_and_wait


class Server:
    """Keeps events as an API server does, fails as told."""

    def __init__(self) -> None:
        self.events: dict[str, Object] = {}
        self.failures: list[Exception | Response] = []
        self.writes = 0
        self.time = 1_700_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    async def handle(self, request: Request) -> Response:
        if self.failures:
            failure = self.failures.pop()
            if isinstance(failure, Exception):
                raise failure
            return failure
        self.writes += 1
        body = json.loads(request.body)
        if request.method == "POST":
            self.events[body["metadata"]["name"]] = body
            return Response(201, {}, request.body)
        name = request.path.rsplit("/", 1)[1]
        if name not in self.events:
            return Response(404, {}, json.dumps(not_found("", "events", name).status()).encode())
        self.events[name] |= body
        return Response(200, {}, b"{}")

    def counts(self) -> list[tuple[str, int]]:
        return [(event["message"], event["count"]) for event in self.events.values()]


ABOUT = reference(POD, ObjectMeta(name="p", namespace="ns", uid="u1", resource_version="5"))


@asynccontextmanager
async def recording(server: Server) -> AsyncIterator[Recorder]:
    client = Client(InProcessTransport(server.handle, User("me")))
    recorder = Recorder(client, "tester", clock=server, host="h1")
    task = asyncio.ensure_future(recorder.run())
    try:
        yield recorder
    finally:
        await cancel_and_wait(task)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_an_event_in_the_form_that_kubectl_reads() -> None:
    server = Server()
    async with recording(server) as recorder:
        recorder.event(ABOUT, "Normal", "Started", "it runs")
        await settle()
    [(name, event)] = server.events.items()
    assert name == f"p.{int(server.time * 1e9):x}"
    assert event["metadata"]["namespace"] == "ns"
    assert event["involvedObject"] == {
        "kind": "Pod",
        "namespace": "ns",
        "name": "p",
        "uid": "u1",
        "apiVersion": "v1",
        "resourceVersion": "5",
    }
    assert event["source"] == {"component": "tester", "host": "h1"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2023-11-14T22:13:20Z"


async def test_repeats_raise_the_count_of_one_event() -> None:
    server = Server()
    async with recording(server) as recorder:
        for _ in range(3):
            recorder.event(ABOUT, "Warning", "Failed", "no")
        await settle()
        assert (server.counts(), server.writes) == ([("no", 3)], 1)
        server.time += 60
        recorder.event(ABOUT, "Warning", "Failed", "no")
        await settle()
        assert server.counts() == [("no", 4)]
        [event] = server.events.values()
        assert event["firstTimestamp"] < event["lastTimestamp"]


async def test_an_event_that_was_deleted_is_written_anew() -> None:
    server = Server()
    async with recording(server) as recorder:
        recorder.event(ABOUT, "Normal", "R", "m")
        await settle()
        server.events.clear()
        recorder.event(ABOUT, "Normal", "R", "m")
        await settle()
    assert server.counts() == [("m", 2)]


async def test_many_messages_of_one_reason_are_combined() -> None:
    server = Server()
    async with recording(server) as recorder:
        for number in range(20):
            recorder.event(ABOUT, "Warning", "Failed", f"try {number}")
        await settle()
    combined = [text for text, _ in server.counts() if text.startswith("(combined from similar")]
    assert len(combined) == 1
    assert len(server.events) == 11


async def test_a_flood_about_one_object_is_limited_and_counted() -> None:
    server = Server()
    async with recording(server) as recorder:
        for _ in range(100):
            recorder.event(ABOUT, "Warning", "Failed", "no")
        recorder.event(reference(NODE, ObjectMeta(name="n")), "Normal", "R", "other object")
        await settle()
        assert dict(server.counts()) == {"no": 25, "other object": 1}
        assert recorder.dropped == 75


async def test_an_outage_delays_events_and_loses_none() -> None:
    server = Server()
    server.failures = [
        Response(429, {}, json.dumps(too_many_requests("later").status()).encode()),
        ConnectionError("away"),
    ]
    async with recording(server) as recorder:
        recorder.event(ABOUT, "Normal", "R", "m")
        await settle()
        assert (server.counts(), recorder.dropped) == ([("m", 1)], 0)
