"""`Injector`: faults on cue, for clients on the socket.

    cluster.faults.answer(409, method="PUT", times=2)
    cluster.faults.cut_watches()

What a fault is about is told by `method` and `path`: a fault without them meets any request, one
with a path those whose path contains it ("/pods"). Faults by chance are `wire.Faults`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec

from shepherd.api import errors
from shepherd.api.errors import ApiError
from shepherd.lib.clock import Clock
from shepherd.lib.http import Request, Response, Stream
from shepherd.testing.wire import Wire, refuse, until

_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict",
    410: "Expired", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip
_PIECES = 10
"""In how many parts a slow body comes."""

Act = Callable[[Request], Awaitable[Response]]


@dataclass(slots=True)
class _Cue:
    """What is to happen to the next requests that match."""

    act: Act
    times: int
    method: str
    path: str

    def takes(self, request: Request) -> bool:
        if self.times <= 0 or self.method not in ("", request.method):
            return False
        return self.path in request.path


@dataclass(eq=False, slots=True)
class _Watch:
    """A watch that a client has open."""

    path: str
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    last: bytes = b""
    """What is sent before an orderly end; nothing: the connection breaks."""


class Injector:
    """A `Handler` before the API. Its methods may be called from any thread: they hold for every
    request that is sent after they return."""

    def __init__(self, wire: Wire, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._wire = wire
        self._loop = loop
        self._clock = clock
        self._cues: list[_Cue] = []
        self._watches: set[_Watch] = set()
        self._doubled = ""
        self._stalled: str | None = None

    # Requests

    def answer(
        self, code: int, *, times: int = 1, method: str = "", path: str = "", retry_after: int = 1
    ) -> None:
        """Answer the next requests with an error; the server does not see them.

        `retry_after` is what a 429 asks for, in seconds.
        """
        error = ApiError(code, _REASONS.get(code, "Unknown"), "a fault that a test asked for")
        if code == 429:
            error = errors.too_many_requests(error.message, retry_after)

        async def act(request: Request) -> Response:
            return refuse(error)

        self._add(_Cue(act, times, method, path))

    def lose_requests(self, *, times: int = 1, method: str = "", path: str = "") -> None:
        """Break the connection instead of reading the next requests."""

        async def act(request: Request) -> Response:
            raise ConnectionError("the request was lost")

        self._add(_Cue(act, times, method, path))

    def lose_responses(self, *, times: int = 1, method: str = "", path: str = "") -> None:
        """Do what the next requests ask, and break the connection instead of answering."""

        async def act(request: Request) -> Response:
            await self._wire.send(request)
            raise ConnectionError("the response was lost")

        self._add(_Cue(act, times, method, path))

    def slow_down(
        self, seconds: float, *, times: int = 1, method: str = "", path: str = ""
    ) -> None:
        """Send the next answers in small pieces that take so long, of the cluster's time."""

        async def act(request: Request) -> Response:
            response = await self._wire.send(request)
            if isinstance(response.body, bytes):
                response.body = self._pieces(response.body, seconds / _PIECES)
            return response

        self._add(_Cue(act, times, method, path))

    # Watches

    def cut_watches(self, path: str = "") -> None:
        """Break the connections of the watches that are open now."""
        self._end_watches(path, b"")

    def expire_watches(self, path: str = "") -> None:
        """End the watches that are open now with an ERROR event, 410."""
        status = errors.expired("too old resource version").status()
        self._end_watches(path, msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n")

    def stall_watches(self, path: str = "") -> None:
        """Send nothing on watches, open now or later, until `resume_watches`: as a network does
        that drops packets without a word."""
        self._soon(lambda: self._stall(path))

    def resume_watches(self) -> None:
        """Send what has waited."""
        self._soon(lambda: self._stall(None))

    def double_events(self, path: str = "/") -> None:
        """Send every event twice, from now on; an empty path ends that."""

        def act() -> None:
            self._doubled = path

        self._soon(act)

    def clear(self) -> None:
        """No faults from now on."""
        self._soon(self._cues.clear)
        self.resume_watches()
        self.double_events("")

    # As a handler

    async def handle(self, request: Request) -> Response:
        for cue in self._cues:
            if cue.takes(request):
                cue.times -= 1
                return await cue.act(request)
        response = await self._wire.send(request)
        if request.param("watch") and not isinstance(response.body, bytes):
            response.body = self._watched(request.path, response.body)
        return response

    async def _watched(self, path: str, body: Stream) -> AsyncGenerator[bytes, None]:
        watch = _Watch(path)
        self._watches.add(watch)
        if not self._is_stalled(watch):
            watch.flowing.set()
        try:
            async with aclosing(until(body, watch.ended)) as chunks:
                async for chunk in self._passed_on(chunks, watch):
                    yield chunk
        except ConnectionError:
            if not watch.last:
                raise
            yield watch.last
        finally:
            self._watches.discard(watch)

    async def _passed_on(self, chunks: Stream, watch: _Watch) -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            await watch.flowing.wait()
            if watch.ended.is_set():
                raise ConnectionError("the stream was cut")
            doubled = self._doubled and self._doubled in watch.path
            for line in chunk.splitlines(keepends=True):
                yield line * 2 if doubled and line.endswith(b"\n") else line

    def _stall(self, path: str | None) -> None:
        self._stalled = path
        for watch in self._watches:
            if self._is_stalled(watch):
                watch.flowing.clear()
            else:
                watch.flowing.set()

    def _is_stalled(self, watch: _Watch) -> bool:
        return self._stalled is not None and self._stalled in watch.path

    def _end_watches(self, path: str, last: bytes) -> None:
        def act() -> None:
            for watch in self._watches:
                if path in watch.path:
                    watch.last = last
                    watch.ended.set()
                    watch.flowing.set()

        self._soon(act)

    async def _pieces(self, body: bytes, pause_seconds: float) -> AsyncGenerator[bytes, None]:
        size = max(1, -(-len(body) // _PIECES))
        for start in range(0, len(body), size):
            await self._clock.sleep(pause_seconds)
            yield body[start : start + size]

    def _add(self, cue: _Cue) -> None:
        def act() -> None:
            self._cues = [old for old in self._cues if old.times > 0] + [cue]

        self._soon(act)

    def _soon(self, action: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(action)
