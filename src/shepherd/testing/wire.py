"""The network of a simulated cluster: requests are late, lost or doubled, streams are cut."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import msgspec

from shepherd.api import errors
from shepherd.lib.clock import Clock
from shepherd.lib.http import Handler, Request, Response, Stream, User
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
    rejected: float = 0.0
    """429, as from a server with too much to do."""
    conflict: float = 0.0
    """409 to an update or a patch, as if another writer had been faster."""
    expired: float = 0.0
    """410 to a list that goes on, or to a watch that does not begin with the present state."""
    cut: float = 0.0
    """For each part of a stream: it is the last one."""
    doubled_part: float = 0.0
    """For each part of a stream: it arrives twice."""


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
    """A `Transport` to whichever server is alive, with faults. Without a `user`, requests are from
    whom they prove."""

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
        """Raises ConnectionError for what the network does."""
        if self._user:
            request.peer = self._user
        server, faults = self._server(), self.faults
        await self._delay()
        if self._gone(server) or self._happens(faults.lost_request):
            raise ConnectionError("the request was lost")
        if error := self._refusal(request):
            return refuse(error)
        if request.stream is None and self._happens(faults.doubled):
            await _drop(await server.handler(replace(request)))
        response = await server.handler(request)
        await self._delay()
        if self._gone(server) or self._happens(faults.lost_response):
            await _drop(response)
            raise ConnectionError("the response was lost")
        if not isinstance(response.body, bytes):
            response.body = self._stream(until(response.body, server.stopped, self.cut))
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

    def _happens(self, chance: float) -> bool:
        return bool(chance) and self._random.random() < chance

    def _refusal(self, request: Request) -> errors.ApiError | None:
        """What a server might answer instead of acting."""
        faults = self.faults
        if self._happens(faults.rejected):
            return errors.too_many_requests("too many requests, please try again later")
        if request.method in ("PUT", "PATCH") and self._happens(faults.conflict):
            return errors.conflict("", "objects", "", "the object has been modified")
        goes_on = request.param("continue") or (
            request.param("watch") and request.param("resourceVersion") not in ("", "0")
        )
        if goes_on and self._happens(faults.expired):
            return errors.expired("too old resource version")
        return None

    async def _delay(self) -> None:
        if self.faults.delay_seconds:
            await self._clock.sleep(self._random.uniform(0.0, self.faults.delay_seconds))

    async def _stream(self, body: Stream) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in body:
                yield chunk
                if self._happens(self.faults.doubled_part):
                    yield chunk
                if self._happens(self.faults.cut):
                    raise ConnectionError("the stream was cut")
        finally:
            await body.aclose()


async def until(body: Stream, *ends: asyncio.Event) -> AsyncGenerator[bytes, None]:
    """The body to its end; raises ConnectionError as soon as one of the events is set."""
    waiters = [asyncio.ensure_future(event.wait()) for event in ends]
    chunk: asyncio.Future[bytes] | None = None
    try:
        while True:
            chunk = asyncio.ensure_future(_next(body))
            await asyncio.wait((chunk, *waiters), return_when=asyncio.FIRST_COMPLETED)
            if any(event.is_set() for event in ends):
                raise ConnectionError("the stream was cut")
            if not chunk.result():
                return
            yield chunk.result()
    finally:
        for task in (*waiters, chunk):
            if task:
                await cancel_and_wait(task)
        await body.aclose()


def refuse(error: errors.ApiError) -> Response:
    """The answer that tells of an error."""
    headers = {"content-type": "application/json"} | error.headers
    return Response(error.code, headers, msgspec.json.encode(error.status()))


async def _next(body: Stream) -> bytes:
    return await anext(body, b"")


async def _drop(response: Response) -> None:
    """Nobody reads it."""
    if not isinstance(response.body, bytes):
        await response.body.aclose()
