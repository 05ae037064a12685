"""`sheepctl exec`: run a command in a container of a pod, with this terminal as its own.

In SPDY, which every server of the Kubernetes API speaks: a stream each for input, output, errors,
the outcome and the terminal's size. Source: client-go tools/remotecommand.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Iterator

import click

from shepherd.api.errors import ApiError
from shepherd.api.kinds import POD
from shepherd.cli.session import Failure, Session, connection_options, pass_session
from shepherd.client.base import Client
from shepherd.lib import spdy
from shepherd.lib.http import Request, Response, Takeover

_HANDSHAKE = {"upgrade": "SPDY/3.1", "x-stream-protocol-version": "v4.channel.k8s.io"}
_STREAMS = {"error": 1, "stdin": 3, "stdout": 5, "stderr": 7, "resize": 9}
_CHUNK_BYTES = 32 * 1024
_WAITING = 8
"""Pieces that wait in each direction."""


@click.command("exec")
@click.argument("pod")
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("-c", "--container", default="", help="In this container (default: the only one).")
@click.option("-i", "--stdin", is_flag=True, help="Pass what is typed, or piped, to the command.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal: with -i for shells.")
@connection_options
@pass_session
def command(
    session: Session, pod: str, words: tuple[str, ...], container: str, stdin: bool, tty: bool
) -> int:
    """Run a command in a running container; its exit code is ours.

    For example: sheepctl exec -it web -- sh
    """
    terminal = tty and stdin and sys.stdin.isatty()
    query = [("command", word) for word in words]
    query += [("container", container)] if container else []
    wanted = {"stdin": stdin, "stdout": True, "stderr": not terminal, "tty": terminal}
    query += [(name, "true") for name, on in wanted.items() if on]
    names = ["error", *(name for name in ("stdin", "stdout", "stderr") if wanted[name])]

    async def run(client: Client) -> int:
        path = POD.path(session.namespace, pod.removeprefix("pod/"), "exec")
        talk = _Talk(await _ask(client, path, query))
        with _raw() if terminal else contextlib.nullcontext():
            return await talk.run([*names, "resize"] if terminal else names)

    return session.run(run)


async def _ask(client: Client, path: str, query: list[tuple[str, str]]) -> Takeover:
    """Raises ApiError, Failure."""
    headers = {**_HANDSHAKE, "user-agent": client.user_agent}
    response = await client.transport.send(Request("POST", path, query, headers))
    if response.takeover is None:
        raise await _refusal(response)
    return response.takeover


async def _refusal(response: Response) -> Exception:
    body = response.body
    text = body if isinstance(body, bytes) else b"".join([chunk async for chunk in body])
    try:
        return ApiError.from_status(response.status, json.loads(text))
    except (ValueError, AttributeError):
        return Failure(f"the server answered {response.status}: {text[:200].decode('latin-1')}")


class _Talk:
    """The conversation. It is itself the connection's other end (`lib.http.Duplex`)."""

    def __init__(self, takeover: Takeover) -> None:
        self._takeover = takeover
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)

    async def read(self) -> bytes:
        return await self._outgoing.get()

    async def write(self, data: bytes) -> None:
        await self._incoming.put(data)

    async def run(self, names: list[str]) -> int:
        """Open the named streams and pass them on until the command has ended; its exit code."""
        tasks = [asyncio.create_task(self._relay())]
        encoder = spdy.Encoder()
        for name in names:
            await self._outgoing.put(encoder.open(_STREAMS[name], {"streamtype": name}))
        if "stdin" in names:
            tasks.append(asyncio.create_task(self._type()))
        if "resize" in names:
            tasks.append(asyncio.create_task(self._resize()))
        try:
            return _exit_code(await self._listen())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _relay(self) -> None:
        try:
            await self._takeover(self)
        finally:
            await self._incoming.put(b"")

    async def _listen(self) -> bytes:
        """Print what the command prints; what the server says of its end."""
        decoder, said = spdy.Decoder(), b""
        outputs = {_STREAMS["stdout"]: sys.stdout.buffer, _STREAMS["stderr"]: sys.stderr.buffer}
        while data := await self._incoming.get():
            for frame in decoder.feed(data):
                if frame.type == spdy.PING and frame.stream % 2 == 0:
                    await self._outgoing.put(spdy.ping(frame.stream))
                elif frame.type == spdy.GOAWAY:
                    return said
                elif frame.type == 0 and frame.stream == _STREAMS["error"]:
                    said += frame.data
                elif frame.type == 0 and (output := outputs.get(frame.stream)):
                    await asyncio.to_thread(_print, output.fileno(), frame.data)
        return said

    async def _type(self) -> None:
        async for data in _typed():
            await self._outgoing.put(spdy.data(_STREAMS["stdin"], data))
        await self._outgoing.put(spdy.data(_STREAMS["stdin"], b"", fin=True))

    async def _resize(self) -> None:
        changed = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, changed.set)
        while True:
            width, height = os.get_terminal_size()
            size = json.dumps({"Width": width, "Height": height}).encode()
            await self._outgoing.put(spdy.data(_STREAMS["resize"], size))
            await changed.wait()
            changed.clear()


def _exit_code(said: bytes) -> int:
    """Raises Failure if the command did not run, or its end was not told."""
    try:
        status = json.loads(said)
        if status["status"] == "Success":
            return 0
        causes = status.get("details", {}).get("causes", [])
        return next(int(one["message"]) for one in causes if one.get("reason") == "ExitCode")
    except StopIteration:
        raise Failure(status.get("message", "the command could not be run")) from None
    except (ValueError, KeyError):
        raise Failure("the connection was lost before the command had ended") from None


def _print(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


async def _typed() -> AsyncIterator[bytes]:
    """What comes on standard input, read by a thread that nobody has to wait for at the end."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)

    def read() -> None:
        data = b"-"
        while data:
            data = os.read(sys.stdin.fileno(), _CHUNK_BYTES)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                asyncio.run_coroutine_threadsafe(pieces.put(data), loop).result()

    threading.Thread(target=read, daemon=True).start()
    while data := await pieces.get():
        yield data


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Every key goes to the command, as it is pressed."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
