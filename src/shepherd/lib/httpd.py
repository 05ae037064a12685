"""Puts a `Handler` on a socket: the one module that knows aiohttp's server side.

It reads requests within a size limit, writes whole or streamed responses with back-pressure, and
tells who the connection's certificate proves. What a request means is the handler's business.
"""

import asyncio
import gzip
import json
import logging
import socket
import ssl as ssl_module
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from aiohttp import web
from aiohttp.http import HttpProcessingError

from shepherd.lib.duplex import READ_BYTES, SocketDuplex
from shepherd.lib.http import Handler, Request, Response, Stream, Takeover, User, parse_query

log = logging.getLogger("shepherd.httpd")

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes of a request body that is read whole (as kube-apiserver)."""
GZIP_FROM = 128 * 1024
"""Bytes from which a body is worth compressing (as kube-apiserver)."""
STALL_SECONDS = 60.0
"""How long the head of a connection's first request may take to arrive, and a request's body; and a
peer to take a part of a streamed answer."""
LINE_LIMIT = 64 * 1024
"""Bytes of the request line, and of each header."""
HEADERS_LIMIT = 128
_PAUSE_AT = 16 * 1024
"""Bytes that wait to be sent below which no transport makes its writer wait (asyncio: a quarter of
the 64 KiB at which it begins to)."""


def _is_ours(record: logging.LogRecord) -> bool:
    """A request that is no HTTP is its sender's mistake, worth a line and no traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, HttpProcessingError):
        return True
    log.info("%s: %s", record.getMessage(), " ".join(str(error).split())[:200])
    return False


_aiohttp_log = logging.getLogger("shepherd.httpd.aiohttp")
_aiohttp_log.addFilter(_is_ours)

Streamed = Callable[[str, str], bool]


def _never(method: str, path: str) -> bool:
    return False


class _UnreadableError(Exception):
    """The request cannot be given to the handler."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.response = _status(code, reason, message)


class HttpServer:
    """A listening server. Use `serve` to make one."""

    def __init__(self, connections: "_Connections", server: asyncio.Server) -> None:
        self._connections = connections
        self._server = server

    @property
    def port(self) -> int:
        """The port it really listens on."""
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self, grace_seconds: float = 5.0) -> None:
        """Accept nothing more, end the streams, let requests in flight finish; bounded in time."""
        self._server.close()
        await self._connections.drain(grace_seconds)
        await self._server.wait_closed()


async def serve(
    handler: Handler,
    host: str = "",
    port: int = 0,
    *,
    ssl: ssl_module.SSLContext | None = None,
    body_limit: int = BODY_LIMIT,
    streamed: Streamed = _never,
    sock: socket.socket | None = None,
) -> HttpServer:
    """Listen on `host:port` (port 0 picks a free one) or on `sock`. Raises OSError.

    A request for which `streamed(method, path)` holds gets its body as `Request.stream`, of any
    size; other bodies beyond `body_limit` are answered with 413.
    """
    connections = _Connections(handler, body_limit, streamed)
    loop = asyncio.get_running_loop()
    if sock is not None:
        server = await loop.create_server(connections, sock=sock, ssl=ssl)
    else:
        server = await loop.create_server(connections, host, port, ssl=ssl, backlog=1024)
    return HttpServer(connections, server)


class _Connections(web.Server):
    """The open connections: who is behind each, and which of them carry a streamed response."""

    def __init__(self, handler: Handler, body_limit: int, streamed: Streamed) -> None:
        super().__init__(
            self._answer,
            access_log=None,
            logger=_aiohttp_log,
            max_line_size=LINE_LIMIT,
            max_field_size=LINE_LIMIT,
            max_headers=HEADERS_LIMIT,
            lingering_time=1.0,
            auto_decompress=False,
        )
        self._handler = handler
        self._body_limit = body_limit
        self._is_streamed = streamed
        self._peers: dict[web.RequestHandler, User | None] = {}
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        """When to give up those that have asked for nothing yet."""
        self._streams: dict[web.RequestHandler, asyncio.Task[object]] = {}
        self._closing = False

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._peers[handler] = certificate_user(transport.get_extra_info("peercert"))
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(STALL_SECONDS, transport.abort)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        super().connection_lost(handler, exc)
        self._peers.pop(handler, None)
        self._heard(handler)
        # A watch that waits for its next event would never notice that nobody listens.
        if task := self._streams.get(handler):
            task.cancel()

    def _heard(self, handler: web.RequestHandler) -> None:
        if timer := self._silent.pop(handler, None):
            timer.cancel()

    async def drain(self, grace_seconds: float) -> None:
        self._closing = True
        for task in self._streams.values():
            task.cancel()
        self.pre_shutdown()
        await self.shutdown(grace_seconds)

    async def _answer(self, raw: web.BaseRequest) -> web.StreamResponse:
        self._heard(raw.protocol)
        try:
            request = await self._read(raw)
            response = await self._handler(request)
        except _UnreadableError as error:
            response = error.response
        except ConnectionError as error:
            # Nobody is to get an answer: what was between us and the API broke.
            log.info("%s %s broke off: %r", raw.method, raw.raw_path, error)
            response = Response(503)
            if raw.transport:
                raw.transport.abort()
        except Exception:
            log.exception("%s %s failed", raw.method, raw.raw_path)
            message = "Internal error occurred: the server's log says more"
            response = _status(500, "InternalError", message)
        if response.takeover:
            return await self._hand_over(raw, response, response.takeover)
        if isinstance(response.body, bytes):
            return await _whole(raw, response, response.body)
        return await self._stream(raw, response, response.body)

    async def _read(self, raw: web.BaseRequest) -> Request:
        target = raw.raw_path
        if not target.startswith("/"):
            parts = urlsplit(target)
            target = f"/{parts.path.lstrip('/')}?{parts.query}"
        path, _, query = target.partition("?")
        peername = raw.transport.get_extra_info("peername") if raw.transport else None
        request = Request(
            raw.method,
            unquote(path) if "%" in path else path,
            parse_query(query) if query else [],
            _headers(raw),
            peer=self._peers.get(raw.protocol),
            remote=str(peername[0]) if peername else "",
        )
        if not raw.can_read_body:
            return request
        if request.headers.get("expect", "").lower() == "100-continue" and raw.transport:
            raw.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._is_streamed(request.method, request.path):
            request.stream = raw.content.iter_any()
        else:
            request.body = await self._read_body(raw)
        return request

    async def _read_body(self, raw: web.BaseRequest) -> bytes:
        too_large = _UnreadableError(
            413,
            "RequestEntityTooLarge",
            f"the request body is larger than {self._body_limit} bytes",
        )
        if (raw.content_length or 0) > self._body_limit:
            raise too_large
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(STALL_SECONDS):
                async for chunk in raw.content.iter_any():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > self._body_limit:
                        raise too_large
        except TimeoutError as error:
            message = f"the request body did not arrive within {STALL_SECONDS:g} seconds"
            raise _UnreadableError(408, "Timeout", message) from error
        except web.RequestPayloadError as error:
            message = f"the request body cannot be read: {error}"
            raise _UnreadableError(400, "BadRequest", message) from error
        return b"".join(chunks)

    async def _stream(
        self, raw: web.BaseRequest, response: Response, body: Stream
    ) -> web.StreamResponse:
        out = web.StreamResponse(status=response.status, headers=response.headers)
        task = asyncio.current_task()
        assert task is not None
        self._streams[raw.protocol] = task
        try:
            await out.prepare(raw)
            async for chunk in body:
                await _write(raw, out, chunk)
            await out.write_eof()
        except asyncio.CancelledError:
            if not self._closing or task.uncancel():
                raise
            # The server is closing: the stream ends as if it had been read to its end.
            await out.write_eof()
        except Exception as error:
            # Half of the answer is out: only a broken connection can tell that the rest is missing.
            expected = isinstance(error, ConnectionError)
            log.log(
                logging.INFO if expected else logging.ERROR,
                "%s %s broke off: %r",
                raw.method,
                raw.raw_path,
                error,
                exc_info=not expected,
            )
            if raw.transport:
                raw.transport.abort()
        finally:
            self._streams.pop(raw.protocol, None)
            await body.aclose()
        return out

    async def _hand_over(
        self, raw: web.BaseRequest, response: Response, takeover: Takeover
    ) -> web.StreamResponse:
        """Say 101 and let `takeover` speak on the bare connection, until it returns."""
        task = asyncio.current_task()
        assert task is not None
        self._streams[raw.protocol] = task
        out = _Switched(status=response.status)
        try:
            if raw.transport is None:
                await takeover(_Gone())
                return out
            duplex = _detach(raw.protocol, raw.transport, response)
            try:
                await takeover(duplex)
            finally:
                duplex.close()
        except asyncio.CancelledError:
            if not self._closing or task.uncancel():
                raise
        except ConnectionError as error:
            log.info("%s %s broke off: %r", raw.method, raw.raw_path, error)
        finally:
            self._streams.pop(raw.protocol, None)
            raw.protocol.force_close()
        return out


class _Switched(web.StreamResponse):
    """The answer that was the protocol's change: for aiohttp nothing is left to send."""

    async def prepare(self, request: web.BaseRequest) -> None:
        self.force_close()

    async def write_eof(self, data: bytes = b"") -> None:
        pass


class _Gone:
    """The `Duplex` to a peer that left before it was answered: whoever takes over hears of it."""

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        raise ConnectionResetError("the peer is gone")


class _Bare(asyncio.StreamReaderProtocol):
    """Takes a connection from aiohttp, which still hears of its end."""

    def __init__(self, former: web.RequestHandler, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self._former = former

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._former.connection_lost(exc)


def _detach(
    former: web.RequestHandler, transport: asyncio.Transport, response: Response
) -> SocketDuplex:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=READ_BYTES)
    protocol = _Bare(former, reader)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    lines = ["HTTP/1.1 101 Switching Protocols"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    return SocketDuplex(reader, writer)


def _headers(raw: web.BaseRequest) -> dict[str, str]:
    """Names in lower case; a header that comes again continues its list (RFC 9110, 5.2)."""
    headers: dict[str, str] = {}
    for name, value in raw.headers.items():
        name = name.lower()
        if not value.isascii():  # what is no UTF-8 came as surrogates, which nothing can encode
            value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _write(raw: web.BaseRequest, out: web.StreamResponse, chunk: bytes) -> None:
    transport = raw.transport
    if transport is None:
        raise ConnectionResetError("the peer is gone")
    if transport.get_write_buffer_size() + len(chunk) < _PAUSE_AT:
        await out.write(chunk)
        return
    try:
        async with asyncio.timeout(STALL_SECONDS):
            await out.write(chunk)
    except TimeoutError as error:
        raise ConnectionResetError("the peer does not read") from error


async def _whole(raw: web.BaseRequest, response: Response, body: bytes) -> web.Response:
    headers = response.headers
    large = len(body) >= GZIP_FROM and "content-encoding" not in headers
    if large and "gzip" in raw.headers.get("Accept-Encoding", ""):
        body = await asyncio.to_thread(gzip.compress, body, 1)
        headers = headers | {"content-encoding": "gzip", "vary": "Accept-Encoding"}
    out = web.Response(status=response.status, headers=headers, body=body)
    if response.status in (408, 413):
        out.force_close()
    return out


def _status(code: int, reason: str, message: str) -> Response:
    """An error as a Kubernetes `Status`: the handler never saw the request, or failed on it."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return Response(code, {"content-type": "application/json"}, json.dumps(status).encode())


def certificate_user(certificate: dict[str, Any] | None) -> User | None:
    """Whom a verified client certificate names: CN is the user, each O a group."""
    if not certificate:
        return None
    name, groups = "", []
    for relative in certificate.get("subject", ()):
        for key, value in relative:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, tuple(groups)) if name else None
