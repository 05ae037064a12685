"""`sheepctl port-forward`: ports of this machine that lead to those of a pod.

Each connection has two streams of one conversation: its bytes, and what went wrong. Source:
client-go tools/portforward.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import click

from shepherd.api.kinds import POD, SERVICE
from shepherd.api.resource import Object
from shepherd.cli.conversation import Conversation, converse
from shepherd.cli.kinds import Kinds
from shepherd.cli.output import echo
from shepherd.cli.pods import running_pod
from shepherd.cli.session import Failure, Session, Usage, connection_options, pass_session, warn
from shepherd.client.base import Client
from shepherd.lib import spdy
from shepherd.lib.tasks import cancel_and_wait

_PROTOCOL = "portforward.k8s.io"
_CHUNK_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Ports:
    """A port here (0: any that is free) and what it leads to: a number or a name."""

    local: int
    remote: str


def parse_ports(text: str) -> Ports:
    """`8080:80`, `80` (the same here), `:80` (any here), `8080:http`. Raises Usage."""
    local, colon, remote = text.partition(":")
    remote = remote if colon else local
    here = local or "0"
    fits = here.isdecimal() and int(here) < 1 << 16 and remote
    if not fits or (remote.isdecimal() and not 0 < int(remote) < 1 << 16):
        raise Usage(f'"{text}" is no pair of ports: write it as 8080:80, 80 or :80')
    return Ports(int(here), remote)


def pod_port(pod: Object, service: Object | None, remote: str) -> int:
    """The port of the pod that is meant, by number or by name. Raises Failure."""
    wanted: int | str = int(remote) if remote.isdecimal() else remote
    if service:
        ports = service["spec"].get("ports") or ()
        found = next((p for p in ports if wanted in (p["port"], p.get("name"))), None)
        if found is None:
            name = service["metadata"]["name"]
            raise Failure(f"service/{name} has no port {remote}")
        wanted = found.get("targetPort") or found["port"]
    if isinstance(wanted, int):
        return wanted
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == wanted:
                return int(port["containerPort"])
    raise Failure(f'pod/{pod["metadata"]["name"]} has no port named "{wanted}"')


@click.command("port-forward")
@click.argument("what", metavar="POD | TYPE/NAME")
@click.argument("ports", nargs=-1, required=True, metavar="[HERE:]PORT...")
@click.option("--address", default="127.0.0.1", help="Where to listen (127.0.0.1).")
@connection_options
@pass_session
def command(session: Session, what: str, ports: tuple[str, ...], address: str) -> None:
    """Lead ports of this machine to those of a pod: `port-forward service/web 8080:80`."""
    wanted = [parse_ports(text) for text in ports]

    async def work(client: Client) -> None:
        target = await Kinds(client).target((what,) if "/" in what else ("pods", what))
        pod, named = await running_pod(client, target, session.namespace)
        service = named if target.resource is SERVICE else None
        pairs = [(one.local, pod_port(pod, service, one.remote)) for one in wanted]
        path = POD.path(session.namespace, pod["metadata"]["name"], "portforward")
        async with converse(client, path, [], _PROTOCOL) as conversation:
            await _Forwarder(conversation).run(address, pairs)
        raise Failure(f"the connection to pod/{pod['metadata']['name']} was lost")

    session.run(work)


class _Forwarder:
    """Accepts connections and passes on what they say, each on two streams of its own.

    There is no flow control: a program here that does not read holds up the others.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._last = -1
        self._open: dict[int, asyncio.StreamWriter] = {}
        """Connections by their stream of bytes; that of errors has the odd number before it."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, address: str, pairs: list[tuple[int, int]]) -> None:
        """Until the server has gone. Raises OSError for a port that cannot be had."""
        try:
            async with contextlib.AsyncExitStack() as listening:
                for local, remote in pairs:
                    server = await asyncio.start_server(self._accept(remote), address, local)
                    listening.callback(server.close)
                    here = server.sockets[0].getsockname()[1]
                    echo(f"Forwarding from {address}:{here} -> {remote}")
                async for frame in self._conversation.frames():
                    await self._take(frame)
        finally:
            for task in tuple(self._tasks):
                await cancel_and_wait(task)

    def _accept(self, port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._last += 4
            self._open[self._last] = writer
            task = asyncio.create_task(self._send(self._last, port, reader))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return accept

    async def _send(self, stream: int, port: int, reader: asyncio.StreamReader) -> None:
        """Open the streams of a connection, and pass on what comes from here."""
        conversation, error = self._conversation, stream - 2
        names = {"port": str(port), "requestid": str(stream)}
        await conversation.open(error, names | {"streamtype": "error"})
        await conversation.send(error, b"", end=True)
        await conversation.open(stream, names | {"streamtype": "data"})
        with contextlib.suppress(OSError):  # who connected has gone
            while data := await reader.read(_CHUNK_BYTES):
                await conversation.send(stream, data)
        await conversation.send(stream, b"", end=True)

    async def _take(self, frame: spdy.Frame) -> None:
        """Pass on what comes from there."""
        if frame.data and frame.stream + 2 in self._open:
            warn(frame.data.decode("utf-8", "replace"))
        if (writer := self._open.get(frame.stream)) is None:
            return
        with contextlib.suppress(OSError):
            writer.write(frame.data)
            await writer.drain()
        if frame.fin or frame.type == spdy.RST_STREAM:
            del self._open[frame.stream]
            writer.close()
