"""Where conversations begin: kubelet's `/exec`, `/attach` and `/portForward`."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from shepherd.agent.pods import Pods
from shepherd.agent.streams import channels, forward, websocket
from shepherd.agent.streams.command import NamedLink, converse, greeting
from shepherd.agent.streams.links import ChannelLink, SpdyLink, WebSocket
from shepherd.api import errors
from shepherd.lib.duplex import SocketDuplex
from shepherd.lib.http import Duplex, Request, Response, Takeover
from shepherd.runtime.base import ContainerInfo, Process, Runtime, Stdio

SPDY = "SPDY/3.1"
_TRUE = ("1", "true")
_PORTS = 64
"""At once over a WebSocket."""

Talk = Callable[[Duplex, str], Awaitable[None]]
"""What happens on the connection, in the protocol that was agreed on."""


class StreamEndpoints:
    """Answers the requests that leave HTTP. Each raises ApiError."""

    def __init__(self, runtime: Runtime, pods: Pods) -> None:
        self._runtime = runtime
        self._pods = pods

    async def exec(self, request: Request, namespace: str, name: str, container: str) -> Response:
        """`?command=..&input=1&output=1&error=1&tty=1`."""
        info = self._running(namespace, name, container)
        command, stdio = request.params("command"), _stdio(request)
        if not command:
            raise errors.bad_request("you must specify a command for the container")
        return _command(request, stdio, lambda: self._runtime.open_exec(info.id, command, stdio))

    async def attach(self, request: Request, namespace: str, name: str, container: str) -> Response:
        """`?input=1&output=1&error=1&tty=1`."""
        info, stdio = self._running(namespace, name, container), _stdio(request)
        return _command(request, stdio, lambda: self._runtime.attach(info.id, stdio))

    async def port_forward(self, request: Request, namespace: str, name: str) -> Response:
        """`?port=..` for plain WebSocket; in SPDY the client names them as it goes."""
        sandbox_id = self._running(namespace, name).sandbox_id

        async def dial(port: int) -> SocketDuplex:
            return await self._runtime.dial(sandbox_id, port)

        async def spdy(duplex: Duplex, protocol: str) -> None:
            await forward.forward_spdy(SpdyLink(duplex), dial, name)

        async def by_websocket(duplex: Duplex, protocol: str) -> None:
            socket = WebSocket(duplex)
            if protocol == forward.TUNNEL_PROTOCOL:
                await spdy(socket, protocol)
            else:
                await forward.forward_channels(ChannelLink(socket, protocol), ports, dial, name)

        if _upgrades_to(request, SPDY):
            return _spdy(request, (forward.PROTOCOL,), spdy)
        offers = channels.offered(request.headers.get("sec-websocket-protocol", ""))
        tunnel = forward.TUNNEL_PROTOCOL in offers
        ports = [] if tunnel else _ports(request)
        known = (forward.TUNNEL_PROTOCOL,) if tunnel else (channels.V4, channels.V1)
        return _websocket(request, known, by_websocket)

    def _running(self, namespace: str, name: str, container: str = "") -> ContainerInfo:
        """A container (or any) of a pod, if it runs. Raises ApiError."""
        pod = self._pods.find(namespace, name)
        worker = self._pods.worker(pod.metadata.uid) if pod else None
        if worker is None:
            raise errors.not_found("", "pods", name)
        running = worker.running()
        found = next((info for info in running if container in ("", info.name)), None)
        if found is None:
            shown = f' ("{container}")' if container else ""
            raise errors.ApiError(500, "InternalError", f"container not found{shown}")
        return found


def _stdio(request: Request) -> Stdio:
    on = [request.param(name) in _TRUE for name in ("input", "output", "error", "tty")]
    stdin, stdout, stderr, tty = on
    if not (stdin or stdout or stderr):
        raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return Stdio(stdin, stdout, stderr and not tty, tty)


def _ports(request: Request) -> list[int]:
    texts = ",".join(request.params("port")).split(",")
    if not all(text.isdecimal() and 0 < int(text) < 1 << 16 for text in texts):
        raise errors.bad_request(f'query parameter "port" is required: numbers, not {texts}')
    if len(texts) > _PORTS:
        raise errors.bad_request(f"at most {_PORTS} ports can be forwarded at once")
    return [int(text) for text in texts]


def _command(
    request: Request, stdio: Stdio, run: Callable[[], AbstractAsyncContextManager[Process]]
) -> Response:
    async def spdy(duplex: Duplex, protocol: str) -> None:
        if link := await NamedLink.opened(SpdyLink(duplex), stdio):
            await converse(link, run(), protocol)

    async def by_websocket(duplex: Duplex, protocol: str) -> None:
        link = ChannelLink(WebSocket(duplex), protocol)
        await link.send(greeting(stdio), b"")
        await converse(link, run(), protocol)

    if _upgrades_to(request, SPDY):
        return _spdy(request, channels.SPDY_PROTOCOLS, spdy)
    return _websocket(request, channels.WEBSOCKET_PROTOCOLS, by_websocket)


def _upgrades_to(request: Request, protocol: str) -> bool:
    return request.headers.get("upgrade", "").lower() == protocol.lower()


def _spdy(request: Request, known: Sequence[str], talk: Talk) -> Response:
    offers = channels.offered(request.headers.get("x-stream-protocol-version", ""))
    protocol = _agree(offers, known)
    headers = {"connection": "Upgrade", "upgrade": SPDY}
    if protocol:
        headers["x-stream-protocol-version"] = protocol
    return Response(101, headers, takeover=_on(talk, protocol))


def _websocket(request: Request, known: Sequence[str], talk: Talk) -> Response:
    key = request.headers.get("sec-websocket-key", "")
    if not _upgrades_to(request, "websocket") or not key:
        raise errors.bad_request("Upgrade request required")
    offers = channels.offered(request.headers.get("sec-websocket-protocol", ""))
    protocol = _agree(offers, known)
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-accept": websocket.accept_key(key),
    }
    if protocol:
        headers["sec-websocket-protocol"] = protocol
    return Response(101, headers, takeover=_on(talk, protocol))


def _agree(offers: Sequence[str], known: Sequence[str]) -> str:
    protocol = channels.choose(offers, known)
    if protocol is None:
        raise errors.bad_request(
            "unable to upgrade: unable to negotiate protocol: "
            f"client supports {list(offers)}, server accepts {list(known)}"
        )
    return protocol


def _on(talk: Talk, protocol: str) -> Takeover:
    async def takeover(duplex: Duplex) -> None:
        await talk(duplex, protocol)

    return takeover
