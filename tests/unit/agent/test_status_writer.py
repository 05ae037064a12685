"""Statuses that somebody else writes over, while the agent writes: they are told again."""

import asyncio
from random import Random

import msgspec

from shepherd.agent.pod_state import BoundPod
from shepherd.agent.status_writer import StatusWriter
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.transport import InProcessTransport
from shepherd.lib.http import Request, Response, User
from shepherd.lib.tasks import background
from shepherd.testing.virtual import VirtualClock, run_virtual


def status(phase: str, ready: str) -> Object:
    return {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}


class Server:
    """Holds one pod's status; the node controller may write right before or after the agent."""

    def __init__(self) -> None:
        self.status = status("Pending", "True")
        self.version = 1
        self.before = self.after = False
        self.writes = 0
        self.writer: StatusWriter

    @property
    def pod(self) -> BoundPod:
        meta = {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": str(self.version)}
        return msgspec.convert({"metadata": meta, "status": self.status}, BoundPod)

    def not_ready(self) -> None:
        """As the node controller says while a node is out of reach; the agent's watch shows it."""
        self.status = self.status | {"conditions": [{"type": "Ready", "status": "False"}]}
        self.version += 1
        self.writer.observe(self.pod)

    async def handle(self, request: Request) -> Response:
        self.writes += 1
        if self.before:
            self.before = False
            self.not_ready()
        self.status = self.status | msgspec.json.decode(request.body)["status"]
        self.version += 1
        answer = msgspec.to_builtins(self.pod)
        if self.after:
            self.after = False
            self.not_ready()
        return Response(200, {}, msgspec.json.encode(answer))


def told(*, before: bool = False, after: bool = False) -> tuple[Object, int]:
    """What the server holds once the agent has said Running and ready, and by how many writes."""
    server = Server()

    async def main() -> None:
        client = Client(InProcessTransport(server.handle, User("system:node:n1")))
        writer = server.writer = StatusWriter(client, clock=VirtualClock(), random=Random(1))
        async with background(writer.serve(server.pod)):
            await asyncio.sleep(0)
            server.before, server.after = before, after
            writer.push("u", status("Running", "True"), urgent=True)
            await writer.flush("u")
            writer.observe(server.pod)
            await writer.flush("u")

    run_virtual(main())
    return server.status, server.writes


def test_a_status_is_written_once() -> None:
    assert told() == (status("Running", "True"), 1)


def test_what_was_written_over_before_or_after_is_told_again() -> None:
    assert told(before=True) == (status("Running", "True"), 2)
    assert told(after=True) == (status("Running", "True"), 2)
