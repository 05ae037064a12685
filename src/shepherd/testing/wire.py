"""The network of a simulated cluster: requests are late, lost or doubled, streams are cut."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import msgspec

from shepherd.lib.clock import Clock
from shepherd.lib.http import Handler, Request, Response, User
from shepherd.lib.tasks import cancel_and_wait

WRITES = ("POST", "PUT", "PATCH")


@dataclass(frozen=True, slots=True)
class Faults:
    """Chances (0..1) for each request, and the longest delay each way, in seconds."""

    lost_request: float = 0.0
    lost_response: float = 0.0
    """The server acts, and nobody learns of it."""
    doubled: float = 0.0
    """The server acts twice; the second answer arrives."""
    delay_seconds: float = 0.0


NO_FAULTS = Faults()

Acknowledged = Callable[[dict[str, Any]], None]


def unnoticed(obj: dict[str, Any]) -> None:
    """Nobody wants to know."""


class Server:
    """One life of the API server, between its start and its stop."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.stopped = asyncio.Event()


class Wire:
    """A `Transport` to whichever server is alive, with faults."""

    def __init__(
        self,
        server: Callable[[], Server],
        user: User | None,
        *,
        clock: Clock,
        random: Random,
        faults: Faults = NO_FAULTS,
        acknowledged: Acknowledged = unnoticed,
    ) -> None:
        self._server = server
        self._user = user
        self._clock = clock
        self._random = random
        self.faults = faults
        self._acknowledged = acknowledged
        self.cut = asyncio.Event()
        """Set while the caller is cut off from the server."""

    async def send(self, request: Request) -> Response:
        if self._user:
            request.peer = self._user
        server, faults, chance = self._server(), self.faults, self._random
        await self._delay()
        if self._gone(server) or chance.random() < faults.lost_request:
            raise ConnectionError("the request was lost")
        if request.stream is None and chance.random() < faults.doubled:
            await _drop(await server.handler(replace(request)))
        response = await server.handler(request)
        await self._delay()
        if self._gone(server) or chance.random() < faults.lost_response:
            await _drop(response)
            raise ConnectionError("the response was lost")
        if not isinstance(response.body, bytes):
            response.body = self._stream(response.body, server)
        elif (
            self._acknowledged is not unnoticed
            and request.method in WRITES
            and response.status < 300
        ):
            self._acknowledged(msgspec.json.decode(response.body))
        return response

    async def close(self) -> None:
        pass

    def _gone(self, server: Server) -> bool:
        return server.stopped.is_set() or self.cut.is_set()

    async def _delay(self) -> None:
        if self.faults.delay_seconds:
            await self._clock.sleep(self._random.uniform(0.0, self.faults.delay_seconds))

    async def _stream(self, body: AsyncIterator[bytes], server: Server) -> AsyncIterator[bytes]:
        """The body until it ends, or the server or the way to it does."""
        ends = [asyncio.create_task(event.wait()) for event in (server.stopped, self.cut)]
        chunk: asyncio.Task[bytes] | None = None
        try:
            while True:
                chunk = asyncio.create_task(_next(body))
                await asyncio.wait((chunk, *ends), return_when=asyncio.FIRST_COMPLETED)
                if self._gone(server):
                    raise ConnectionError("the stream was cut")
                if not chunk.result():
                    return
                yield chunk.result()
        finally:
            for end in ends:
                await cancel_and_wait(end)
            if chunk:
                await cancel_and_wait(chunk)
            await body.aclose()  # type: ignore[attr-defined]


async def _next(body: AsyncIterator[bytes]) -> bytes:
    return await anext(body, b"")


async def _drop(response: Response) -> None:
    """Nobody reads it."""
    if not isinstance(response.body, bytes):
        await response.body.aclose()  # type: ignore[attr-defined]
