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

from shepherd.api.kinds import POD
from shepherd.cli.conversation import Conversation, converse
from shepherd.cli.kinds import Kinds
from shepherd.cli.pods import running_pod
from shepherd.cli.session import Failure, Session, connection_options, pass_session
from shepherd.client.base import Client
from shepherd.lib.tasks import cancel_and_wait

_STREAMS = {"error": 1, "stdin": 3, "stdout": 5, "stderr": 7, "resize": 9}
_CHUNK_BYTES = 32 * 1024
_WAITING = 8
"""Pieces that wait in each direction."""


@click.command("exec")
@click.argument("what", metavar="POD | TYPE/NAME")
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("-c", "--container", default="", help="In this container (default: the only one).")
@click.option("-i", "--stdin", is_flag=True, help="Pass what is typed, or piped, to the command.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal: with -i for shells.")
@connection_options
@pass_session
def command(
    session: Session, what: str, words: tuple[str, ...], container: str, stdin: bool, tty: bool
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
        target = await Kinds(client).target((what,) if "/" in what else ("pods", what))
        name = target.name
        if target.resource is not POD:
            name = (await running_pod(client, target, session.namespace))[0]["metadata"]["name"]
        path = POD.path(session.namespace, name, "exec")
        async with converse(client, path, query, "v4.channel.k8s.io") as conversation:
            with _raw() if terminal else contextlib.nullcontext():
                return await _talk(conversation, [*names, "resize"] if terminal else names)

    return session.run(run)


async def _talk(conversation: Conversation, names: list[str]) -> int:
    """Open the named streams and pass them on until the command has ended; its exit code."""
    for name in names:
        await conversation.open(_STREAMS[name], {"streamtype": name})
    parts = {"stdin": _type, "resize": _resize}
    tasks = [asyncio.create_task(parts[name](conversation)) for name in names if name in parts]
    try:
        return _exit_code(await _listen(conversation))
    finally:
        for task in tasks:
            await cancel_and_wait(task)


async def _listen(conversation: Conversation) -> bytes:
    """Print what the command prints; what the server says of its end."""
    said = b""
    outputs = {_STREAMS["stdout"]: sys.stdout.buffer, _STREAMS["stderr"]: sys.stderr.buffer}
    async for frame in conversation.frames():
        if frame.type == 0 and frame.stream == _STREAMS["error"]:
            said += frame.data
        elif frame.type == 0 and (output := outputs.get(frame.stream)):
            await asyncio.to_thread(_print, output.fileno(), frame.data)
    return said


async def _type(conversation: Conversation) -> None:
    async for data in _typed():
        await conversation.send(_STREAMS["stdin"], data)
    await conversation.send(_STREAMS["stdin"], b"", end=True)


async def _resize(conversation: Conversation) -> None:
    changed = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, changed.set)
    while True:
        width, height = os.get_terminal_size()
        size = json.dumps({"Width": width, "Height": height}).encode()
        await conversation.send(_STREAMS["resize"], size)
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
