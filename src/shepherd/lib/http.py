"""The seam: an HTTP API is a function from a `Request` to a `Response`.

The server's API and the agent's own endpoints are such functions; `lib.httpd` puts one on a
socket, and the in-process transport of `client` calls one directly. So the same bytes and the same
rules serve every caller, and nothing behind the seam knows a web framework.
"""

import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit


@dataclass(frozen=True, slots=True)
class User:
    """Who is asking (Kubernetes `UserInfo`)."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Request:
    """One HTTP request, body read whole (its size was limited by whoever built it)."""

    method: str
    path: str
    """Percent-decoded, without the query."""
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    """Instead of `body`, for the few paths that take bodies of any size (image archives)."""
    peer: User | None = None
    """Whom the connection itself proves: the TLS client certificate's subject (CN is the name, each
    O a group), or whom a trusted in-process transport speaks for."""
    remote: str = ""
    """The peer's address, for logs."""

    def param(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        for key, value in self.query:
            if key == name:
                return value
        return default

    def params(self, name: str) -> list[str]:
        """Every value of a query parameter that may repeat."""
        return [value for key, value in self.query if key == name]

    @property
    def target(self) -> str:
        """Path and query as they go on the wire (the path is quoted by the transport)."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class Duplex(Protocol):
    """The raw two-way byte stream of a connection that left HTTP (101 Switching Protocols)."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send, waiting while the peer is slow."""
        ...


class Stream(Protocol):
    """A body piece by piece. Whoever does not read it to its end closes it, and so lets go of
    whatever it holds. An async generator of bytes is one."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    def __anext__(self) -> Awaitable[bytes]: ...

    def aclose(self) -> Awaitable[None]: ...


Body = bytes | Stream
Takeover = Callable[[Duplex], Awaitable[None]]


@dataclass(slots=True)
class Response:
    """One HTTP response. A streamed body is closed (`aclose`) when the peer goes away."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: Body = b""
    takeover: Takeover | None = None
    """For status 101: what speaks on the connection afterwards. Whoever serves gives it the
    caller's connection; a caller by socket gets one that joins the two (`client.upgrade`)."""


Handler = Callable[[Request], Awaitable[Response]]


def parse_query(text: str) -> list[tuple[str, str]]:
    """A query string as pairs; a name without `=` has an empty value."""
    return parse_qsl(text, keep_blank_values=True)


def is_for_loopback(request: Request) -> bool:
    """Whether Host, and Origin where a browser tells one, are this machine's loopback.

    Who serves there without asking for proof must refuse all else. A web page could reach it by a
    name of its own that resolves to 127.0.0.1 (DNS rebinding), or as a request to another site.
    """
    named = [request.headers.get("host", "localhost")]
    if origin := request.headers.get("origin"):
        named.append(origin.partition("://")[2])
    return all(map(_is_loopback, named))


def _is_loopback(authority: str) -> bool:
    try:
        host = urlsplit(f"//{authority}").hostname
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
