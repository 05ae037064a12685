"""SPDY with a server: the near end of exec and port-forward.

Every server of the Kubernetes API speaks it. Source: client-go transport/spdy.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shepherd.api.errors import ApiError
from shepherd.cli.session import Failure
from shepherd.client.base import Client
from shepherd.lib import spdy
from shepherd.lib.http import Request, Response
from shepherd.lib.tasks import cancel_and_wait

_WAITING = 8
"""Pieces that wait in each direction."""


@asynccontextmanager
async def converse(
    client: Client, path: str, query: list[tuple[str, str]], protocol: str
) -> AsyncIterator["Conversation"]:
    """Ask to leave HTTP for SPDY, and talk. Raises ApiError, Failure."""
    headers = {
        "upgrade": "SPDY/3.1",
        "x-stream-protocol-version": protocol,
        "user-agent": client.user_agent,
    }
    response = await client.transport.send(Request("POST", path, query, headers))
    if response.takeover is None:
        raise await _refusal(response)
    conversation = Conversation()

    async def relay() -> None:
        assert response.takeover
        try:
            await response.takeover(conversation)
        finally:
            await conversation.write(b"")

    relaying = asyncio.create_task(relay())
    try:
        yield conversation
    finally:
        await cancel_and_wait(relaying)


async def _refusal(response: Response) -> Exception:
    body = response.body
    text = body if isinstance(body, bytes) else b"".join([chunk async for chunk in body])
    try:
        return ApiError.from_status(response.status, json.loads(text))
    except (ValueError, AttributeError):
        return Failure(f"the server answered {response.status}: {text[:200].decode('latin-1')}")


class Conversation:
    """Streams by their numbers, which we choose: odd and rising.

    It is itself the connection's other end (`lib.http.Duplex`).
    """

    def __init__(self) -> None:
        self._encoder = spdy.Encoder()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)

    async def read(self) -> bytes:
        return await self._outgoing.get()

    async def write(self, data: bytes) -> None:
        await self._incoming.put(data)

    async def open(self, stream: int, headers: dict[str, str]) -> None:
        await self._outgoing.put(self._encoder.open(stream, headers))

    async def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        await self._outgoing.put(spdy.data(stream, data, fin=end))

    async def frames(self) -> AsyncIterator[spdy.Frame]:
        """What the server sends, until it leaves; its pings are answered."""
        decoder = spdy.Decoder()
        while data := await self._incoming.get():
            for frame in decoder.feed(data):
                if frame.type == spdy.GOAWAY:
                    return
                if frame.type != spdy.PING:
                    yield frame
                elif frame.stream % 2 == 0:
                    await self._outgoing.put(spdy.ping(frame.stream))
