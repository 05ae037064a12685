"""One look at a container: an HTTP GET, a TCP connection, a gRPC health call or a command.

Probes and lifecycle hooks are made of these. The HTTP client is 30 lines because a probe needs no
more than a status line, many times a second.
"""

import asyncio
import shlex
import ssl as tls
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from shepherd.agent import grpc_health
from shepherd.api.objects import Container
from shepherd.api.objects.pod import (
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    LifecycleHandler,
    Probe,
    TCPSocketAction,
)
from shepherd.runtime.base import Runtime, SheepError

_OUTPUT_LIMIT = 10 * 1024
_REDIRECTS = 10
_NOWHERE = "this host or address cannot be"
"""Pods and containers choose where a check goes; a name such as `a..b` is no host's."""


class CheckError(Exception):
    """The check itself could not be made; it says nothing about the container."""


@dataclass(frozen=True, slots=True)
class Result:
    ok: bool
    output: str = ""
    """What was seen, for events."""


@dataclass(frozen=True, slots=True)
class Target:
    """The container that is looked at."""

    container_id: str
    spec: Container
    host: str
    """The pod's address, or the node's with hostNetwork."""


class Checks:
    """Makes checks; on a simulated runtime those over the network become an `exec`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def probe(self, target: Target, probe: Probe) -> Result:
        """Raises CheckError. A time-out is a failure."""
        seconds = float(probe.timeout_seconds)
        if probe.exec:
            return await self._exec(target, probe.exec, seconds)
        try:
            async with asyncio.timeout(seconds):
                if probe.http_get:
                    return await self._http(target, probe.http_get)
                if probe.tcp_socket:
                    return await self._tcp(target, probe.tcp_socket)
                if probe.grpc:
                    return await self._grpc(target, probe.grpc)
        except TimeoutError:
            return Result(False, "context deadline exceeded")
        except ValueError as error:
            return Result(False, f"{_NOWHERE}: {error}")
        raise CheckError("missing probe handler")

    async def hook(self, target: Target, handler: LifecycleHandler, seconds: float) -> Result:
        """A postStart or preStop hook (other than sleep), for `seconds` at most."""
        if handler.exec:
            return await self._exec(target, handler.exec, seconds)
        try:
            async with asyncio.timeout(seconds):
                if handler.http_get:
                    return await self._http(target, handler.http_get)
                if handler.tcp_socket:
                    return await self._tcp(target, handler.tcp_socket)
        except TimeoutError:
            return Result(False, f"did not end within {seconds:g} s")
        except ValueError as error:
            return Result(False, f"{_NOWHERE}: {error}")
        return Result(True)

    async def _exec(self, target: Target, action: ExecAction, seconds: float) -> Result:
        return await self._command(target, action.command, seconds)

    async def _command(self, target: Target, command: list[str], seconds: float) -> Result:
        try:
            result = await self._runtime.exec(target.container_id, command, timeout_seconds=seconds)
        except TimeoutError:
            shown = shlex.join(command)
            return Result(False, f'command timed out: "{shown}" timed out after {seconds:g}s')
        except SheepError as error:
            raise CheckError(error.message) from error
        except ValueError as error:
            raise CheckError(f"{command}: {error}") from error
        return Result(result.exit_code == 0, result.output.decode(errors="replace"))

    async def _http(self, target: Target, action: HTTPGetAction) -> Result:
        port = port_number(action.port, target.spec)
        host = action.host or target.host
        shown = f"[{host}]" if ":" in host else host
        path = action.path if action.path.startswith("/") else f"/{action.path}"
        url = f"{action.scheme.lower() or 'http'}://{shown}:{port}{path}"
        if self._runtime.describe().simulated:
            return await self._command(target, ["http-get", url], 60.0)
        headers = {h.name: h.value for h in action.http_headers}
        try:
            return await http_get(url, headers)
        except OSError as error:
            return Result(False, f'Get "{url}": {_cause(error)}')

    async def _tcp(self, target: Target, action: TCPSocketAction) -> Result:
        port = port_number(action.port, target.spec)
        host = action.host or target.host
        if self._runtime.describe().simulated:
            return await self._command(target, ["tcp-connect", f"{host}:{port}"], 60.0)
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            return Result(False, f"dial tcp {host}:{port}: {_cause(error)}")
        writer.close()
        return Result(True)

    async def _grpc(self, target: Target, action: GRPCAction) -> Result:
        if self._runtime.describe().simulated:
            return await self._command(target, ["grpc", f"{target.host}:{action.port}"], 60.0)
        try:
            serving = await grpc_health.check(target.host, action.port, action.service)
        except OSError as error:
            where = f"{target.host}:{action.port}"
            return Result(False, f"cannot reach gRPC at {where}: {_cause(error)}")
        return Result(serving, "" if serving else "service is not SERVING")


def _cause(error: OSError) -> str:
    """What the machine says of it, without the number."""
    return error.strerror.lower() if error.strerror else str(error)


def port_number(port: int | str, container: Container) -> int:
    """A port by number or by its name in the container. Raises CheckError."""
    if isinstance(port, int) or port.isdecimal():
        return int(port)
    for declared in container.ports:
        if declared.name == port:
            return declared.container_port
    raise CheckError(f"couldn't find port {port!r} in container {container.name}")


async def http_get(url: str, headers: dict[str, str]) -> Result:
    """200 to 399 is success. Redirects to the same host are followed, others count as success.

    Certificates are not verified (kubernetes pkg/probe/http). Raises OSError, and ValueError for an
    address that cannot be.
    """
    for _ in range(_REDIRECTS):
        status, fields, body = await _exchange(url, headers)
        following = _redirect(url, fields.get("location", "")) if 300 <= status < 400 else ""
        if not following:
            break
        url = following
    if 200 <= status < 400:
        return Result(True, body)
    return Result(False, f"HTTP probe failed with statuscode: {status}")


def _redirect(url: str, location: str) -> str:
    """Where a redirect leads on the same host; empty when it leads away or nowhere. Raises
    ValueError for nonsense."""
    following = urljoin(url, location)
    same = urlsplit(following).hostname == urlsplit(url).hostname
    return following if location and same else ""


async def _exchange(url: str, headers: dict[str, str]) -> tuple[int, dict[str, str], str]:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    reader, writer = await asyncio.open_connection(
        parts.hostname, port, ssl=_unverified() if secure else None
    )
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        default = {
            "Host": parts.netloc, "User-Agent": "kube-probe/1.37", "Accept": "*/*",
            "Connection": "close",
        }  # fmt: skip
        lines = "".join(f"{name}: {value}\r\n" for name, value in (default | headers).items())
        writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        head = await reader.readuntil(b"\r\n")
        words = head.split(None, 2)
        if len(words) < 2 or not words[1].isdigit():
            raise ConnectionError(f"malformed HTTP response {head[:60]!r}")
        fields = await _fields(reader)
        body = await reader.read(_OUTPUT_LIMIT)
        return int(words[1]), fields, body.decode(errors="replace")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ConnectionError("EOF") from error
    finally:
        writer.close()


async def _fields(reader: asyncio.StreamReader) -> dict[str, str]:
    fields = {}
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        name, _, value = line.decode("latin-1").partition(":")
        fields[name.strip().lower()] = value.strip()
    return fields


def _unverified() -> tls.SSLContext:
    context = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = tls.CERT_NONE
    return context
