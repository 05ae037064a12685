"""The faulty network does what it says."""

import asyncio
from collections.abc import AsyncGenerator
from random import Random
from typing import Any

import pytest

from shepherd.lib.http import Request, Response, User
from shepherd.testing.virtual import VirtualClock, run_virtual
from shepherd.testing.wire import Faults, Server, Wire


class Scene:
    """A wire to a server that counts what reaches it."""

    def __init__(self, **faults: float) -> None:
        self.reached = 0
        self.closed = False
        self.server = Server(self.handle)
        self.acknowledged: list[Any] = []
        self.wire = Wire(
            lambda: self.server,
            User("test"),
            clock=VirtualClock(),
            random=Random(1),
            faults=Faults(**faults),
            acknowledged=self.acknowledged.append,
        )

    async def handle(self, request: Request) -> Response:
        self.reached += 1
        assert request.peer == User("test")
        return Response(body=self._lines() if request.path == "/watch" else b'{"kind":"Pod"}')

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"line\n"
            await asyncio.sleep(3600.0)
        finally:
            self.closed = True

    async def post(self) -> Response:
        return await self.wire.send(Request("POST", "/pods"))


@pytest.mark.parametrize(
    ("faults", "reached", "arrives"),
    [
        ({}, 1, True),
        ({"lost_request": 1.0}, 0, False),
        ({"lost_response": 1.0}, 1, False),
        ({"doubled": 1.0}, 2, True),
    ],
)
def test_requests_are_lost_and_doubled(
    faults: dict[str, float], reached: int, arrives: bool
) -> None:
    async def main() -> None:
        scene = Scene(**faults)
        if arrives:
            assert (await scene.post()).status == 200
        else:
            with pytest.raises(ConnectionError):
                await scene.post()
        assert scene.reached == reached
        assert len(scene.acknowledged) == int(arrives)

    run_virtual(main())


@pytest.mark.parametrize("end", ["server", "wire"])
def test_streams_are_cut_with_the_server_or_the_wire(end: str) -> None:
    async def main() -> None:
        scene = Scene()
        body: Any = (await scene.wire.send(Request("GET", "/watch"))).body
        assert await anext(body) == b"line\n"
        cut = scene.server.stopped if end == "server" else scene.wire.cut
        asyncio.get_running_loop().call_later(5.0, cut.set)
        with pytest.raises(ConnectionError):
            await anext(body)
        assert scene.closed
        with pytest.raises(ConnectionError):
            await scene.post()

    run_virtual(main())
