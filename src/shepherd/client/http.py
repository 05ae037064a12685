"""`HttpTransport`: requests over a socket. The only module that imports aiohttp's client."""

import asyncio
import socket
import ssl as tls
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from shepherd.client.upgrade import upgrade
from shepherd.lib.http import Body, Request, Response

_CONNECT_SECONDS = 10.0
_FIRST_BYTE_SECONDS = 60.0
_CONNECTIONS = 256
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""A peer that vanished (power cut, lost network) is noticed within a minute, also by a watch on
which nothing was due. Not every system lets a socket set all of them."""


class HttpTransport:
    """Keeps a pool of connections to the server at `url` (`https://host:port`).

    `ssl` holds the CA to trust and the client certificate to show; `token` is sent as a bearer
    token; `server_name` is whose certificate it must be, where `url` has but an address.
    `first_byte_seconds` bounds the wait for an answer to a request whose body is not a stream; a
    streamed answer may then last for ever.
    """

    def __init__(
        self,
        url: str,
        *,
        ssl: tls.SSLContext | None = None,
        token: str = "",
        server_name: str = "",
        connect_seconds: float = _CONNECT_SECONDS,
        first_byte_seconds: float = _FIRST_BYTE_SECONDS,
        connections: int = _CONNECTIONS,
    ) -> None:
        self.url = url.rstrip("/")
        self._ssl = ssl
        self._server_name = server_name or None
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._connect_seconds = connect_seconds
        self._first_byte_seconds = first_byte_seconds
        self._connections = connections
        self._opened: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Response:
        target = quote(request.path) + (f"?{urlencode(request.query)}" if request.query else "")
        patience = self._first_byte_seconds if request.stream is None else None
        try:
            if "upgrade" in request.headers:
                async with asyncio.timeout(self._first_byte_seconds):
                    headers = request.headers | self._headers
                    return await upgrade(self.url, target, request, headers, self._ssl)
            async with asyncio.timeout(patience):
                response = await self._session().request(
                    request.method,
                    URL(self.url + target, encoded=True),
                    headers=_lines(request.headers | self._headers),
                    data=request.stream or request.body or None,
                    allow_redirects=False,
                    server_hostname=self._server_name,
                )
                body = await self._body(response)
        except TimeoutError:
            raise ConnectionError(f"{self.url} did not answer in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionError(f"cannot reach {self.url}: {_cause(error)}") from error
        headers = {name.lower(): value for name, value in response.headers.items()}
        if "warning" in headers:
            headers["warning"] = ", ".join(response.headers.getall("Warning"))
        return Response(response.status, headers, body)

    async def _body(self, response: aiohttp.ClientResponse) -> Body:
        """Only streams have no length; an answer that has one is read here and now."""
        if response.content_length is None:
            return _Stream(self.url, response)
        try:
            return await response.read()
        except BaseException:
            response.close()
            raise

    async def close(self) -> None:
        if self._opened:
            await self._opened.close()
            self._opened = None

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector = aiohttp.TCPConnector(
                ssl=self._ssl or True, limit=self._connections, socket_factory=_socket
            )
            self._opened = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_seconds),
                skip_auto_headers=("Accept-Encoding", "User-Agent", "Content-Type"),
            )
        return self._opened


def _lines(headers: dict[str, str]) -> list[tuple[str, str]]:
    """A header with several lines goes out once for each."""
    return [(name, line) for name, value in headers.items() for line in value.split("\n")]


class _Stream:
    """The body of an answer as it arrives; `aclose` ends it, begun or not."""

    def __init__(self, url: str, response: aiohttp.ClientResponse) -> None:
        self._url = url
        self._response = response

    def __aiter__(self) -> "_Stream":
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionError(f"lost {self._url}: {_cause(error)}") from error
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        self._response.close()


def _socket(address: Any) -> socket.socket:
    family, kind, protocol = address[:3]
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


def _cause(error: BaseException) -> str:
    """Why, in one line."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.strerror:
        return str(error.os_error.strerror)
    return str(error).splitlines()[0] if str(error) else type(error).__name__
