"""Requests that ask to leave HTTP (`Upgrade`): sent on a connection of their own.

aiohttp's client knows no upgrade but its own WebSocket; what is relayed here is none of its
business, and nor ours: after 101 the bytes go both ways as they are.
"""

import asyncio
import ssl as tls
from urllib.parse import urlsplit

from shepherd.lib.duplex import SocketDuplex, join
from shepherd.lib.http import Duplex, Request, Response

_HEAD_BYTES = 64 * 1024
_REFUSAL_BYTES = 1024 * 1024
"""Of a body that explains why the peer did not upgrade."""


async def upgrade(
    url: str, target: str, request: Request, headers: dict[str, str], ssl: tls.SSLContext | None
) -> Response:
    """Send `request` for `target` to `url`; 101 comes with a `takeover` that relays.

    Raises OSError, ConnectionError.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port, ssl=(ssl or True) if secure else None, limit=_HEAD_BYTES
    )
    connection = SocketDuplex(reader, writer)
    try:
        await connection.write(_head(request, target, {"host": parts.netloc} | headers))
        status, answered = _parse(await reader.readuntil(b"\r\n\r\n"))
        if status != 101:
            body = await _refusal(reader, answered)
            connection.close()
            return Response(status, answered, body)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        connection.close()
        raise ConnectionError(f"{url} answered something that is not HTTP") from error
    except BaseException:
        connection.close()
        raise

    async def relay(peer: Duplex) -> None:
        try:
            await join(peer, connection)
        except BaseException:  # the peer was lost: what it sent is of no use to anybody
            connection.abort()
            raise
        connection.close()

    return Response(101, answered, takeover=relay)


def _head(request: Request, target: str, headers: dict[str, str]) -> bytes:
    headers = {"connection": "Upgrade", "content-length": str(len(request.body))} | headers
    if any(mark in text for pair in headers.items() for text in pair for mark in "\r\n"):
        raise ConnectionError("a header holds a line break")
    lines = [f"{request.method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + request.body


def _parse(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers of an answer. Raises ValueError."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(first.split(" ", 2)[1]), headers


async def _refusal(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    """The body of an answer other than 101, as far as it is worth passing on."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        length = int(headers.get("content-length", _REFUSAL_BYTES))
        return await _at_most(reader, min(length, _REFUSAL_BYTES))
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        if len(body) + size > _REFUSAL_BYTES:
            break
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    return body


async def _at_most(reader: asyncio.StreamReader, size: int) -> bytes:
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        return error.partial
