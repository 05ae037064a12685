"""What the agent says of its pods comes to stand, whoever writes at the same time."""

import asyncio
from random import Random
from typing import Any

import msgspec

from shepherd.agent.pod_state import BoundPod
from shepherd.agent.status_writer import StatusWriter
from shepherd.api.objects import decode
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.transport import InProcessTransport
from shepherd.lib.http import Request, Response, User
from shepherd.testing.virtual import VirtualClock, eventually, run_virtual


def ready(value: str) -> Object:
    return {"conditions": [{"type": "Ready", "status": value}]}


class Server:
    """Holds one pod. The node controller writes over its readiness `before` an answer of ours, or
    right `after` it, so that news of that is faster than the answer."""

    def __init__(self, when: str) -> None:
        self.pod: Object = {"metadata": {"name": "p", "uid": "u", "resourceVersion": "1"}}
        self.writer = StatusWriter(
            Client(InProcessTransport(self.handle, User("node", ()))),
            clock=VirtualClock(),
            random=Random(1),
        )
        self._when = when

    async def handle(self, request: Request) -> Response:
        assert isinstance(request.body, bytes)
        when, self._when = self._when, ""
        if when == "before":
            self._write(ready("False") | {"phase": "Pending"})
            # The patch that is on its way was made when the API still said Ready.
            self._write({"phase": "Running"})
        else:
            self._write(msgspec.json.decode(request.body)["status"])
        answer = msgspec.json.encode(self.pod)
        if when == "after":
            self._write(ready("False"))
            self.writer.observe(self.bound())
        return Response(200, {"content-type": "application/json"}, answer)

    def _write(self, status: Object) -> None:
        meta = self.pod["metadata"]
        version = str(int(meta["resourceVersion"]) + 1)
        self.pod = {
            "metadata": meta | {"resourceVersion": version},
            "status": self.pod.get("status", {}) | status,
        }

    def bound(self) -> BoundPod:
        return decode(self.pod, BoundPod)


def comes_true(when: str) -> None:
    async def main() -> None:
        server = Server(when)
        serving = asyncio.ensure_future(server.writer.serve(server.bound()))
        await asyncio.sleep(0)
        wanted: dict[str, Any] = ready("True") | {"phase": "Running"}
        server.writer.push("u", wanted, urgent=True)

        async def right() -> bool:
            return bool(server.pod.get("status") == wanted)

        await eventually(right)
        await server.writer.flush("u")
        server.writer.drop("u")
        serving.cancel()

    run_virtual(main())


def test_what_was_written_over_just_before_is_said_again() -> None:
    comes_true("before")


def test_what_was_written_over_before_the_answer_came_is_said_again() -> None:
    comes_true("after")


def test_what_nobody_writes_over_is_said_once() -> None:
    comes_true("")
