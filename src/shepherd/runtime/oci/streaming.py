"""Commands and containers whose standard streams somebody far away holds.

`crun exec` runs with pipes, or with a terminal of which it hands us the master. Reading and
writing wait on the event loop; nothing is read before somebody takes it, so a slow reader slows
the process, as in a pipe.
"""

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import socket
import struct
import subprocess
import termios
from pathlib import Path
from typing import Any

from shepherd.lib.duplex import READ_BYTES, SocketDuplex
from shepherd.runtime.base import OutputName, SheepError, Stdio
from shepherd.runtime.oci import kernel
from shepherd.runtime.oci.execution import ExecFolder
from shepherd.runtime.oci.monitor import OciCommand
from shepherd.runtime.oci.network import in_thread
from shepherd.runtime.oci.workers import writable

_NOT_FOUND, _NOT_EXECUTABLE, _SIGNAL = 127, 126, 128


class ExecProcess:
    """A command inside a container (`base.Process`)."""

    def __init__(
        self, command: OciCommand, container_id: str, process: dict[str, Any], stdio: Stdio
    ) -> None:
        """Start it. Blocking, in a worker. Raises OSError."""
        self._stdio = stdio
        self._folder = ExecFolder(process | {"terminal": stdio.tty})
        self._listener: socket.socket | None = None
        self._open: set[int] = set()
        """Our descriptors."""
        self._outputs: dict[int, OutputName] = {}
        self._input = self._terminal = -1
        self._last_words = b""
        self._news, self._ended = asyncio.Event(), asyncio.Event()
        line = self._folder.line(command)
        try:
            if stdio.tty and Path(command.binary).name == "crun":
                self._listener = self._folder.listen()
                self._start([*line, "--console-socket", self._folder.console, container_id])
            elif stdio.tty:  # runc takes a terminal from whoever starts it
                master, slave = pty.openpty()
                self._adopt_terminal(master)
                self._start([*line, container_id], (slave, slave, slave))
            else:
                self._start([*line, container_id], self._pipes())
            self._pidfd = self._hold(os.pidfd_open(self._popen.pid))
        except BaseException:
            self._release()
            raise

    def _start(self, line: list[str], theirs: tuple[int, int, int] | None = None) -> None:
        stdin, stdout, stderr = theirs or (subprocess.DEVNULL,) * 3
        try:
            self._popen = subprocess.Popen(
                line, cwd="/", stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
            )
        finally:
            for descriptor in {*(theirs or ())} - {subprocess.DEVNULL}:
                os.close(descriptor)

    def _pipes(self) -> tuple[int, int, int]:
        """Pipes for the streams that are wanted: the command's ends of them."""
        theirs = [subprocess.DEVNULL] * 3
        if self._stdio.stdin:
            theirs[0], ours = os.pipe()
            self._input = self._hold(ours)
        names: tuple[OutputName, OutputName] = ("stdout", "stderr")
        for index, name in enumerate(names, 1):
            if getattr(self._stdio, name):
                ours, theirs[index] = os.pipe()
                self._outputs[self._hold(ours)] = name
        return theirs[0], theirs[1], theirs[2]

    def _hold(self, descriptor: int) -> int:
        os.set_blocking(descriptor, False)
        self._open.add(descriptor)
        return descriptor

    def _adopt_terminal(self, master: int) -> None:
        self._terminal = self._hold(master)
        self._outputs[master] = "stdout"
        if self._stdio.stdin:
            self._input = master

    async def opened(self) -> None:
        """Take the terminal's master from crun, unless that fails to start the command."""
        asyncio.get_running_loop().add_reader(self._pidfd, self._end)
        if self._listener is None:
            return
        await self._readable(self._listener.fileno())
        with contextlib.suppress(BlockingIOError):  # it ended
            connection, _ = self._listener.accept()
            with connection:
                connection.setblocking(False)
                await self._readable(connection.fileno())
                self._adopt_terminal(socket.recv_fds(connection, 1024, 1)[1][0])
        if self._terminal < 0:
            self._last_words = f"{self._folder.refusal()}\r\n".encode()

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._ended.set()
        self._news.set()

    async def _readable(self, *descriptors: int) -> None:
        """Wait until one of them can be read, or the command has ended."""
        if self._ended.is_set():
            return
        loop = asyncio.get_running_loop()
        self._news.clear()
        for descriptor in descriptors:
            loop.add_reader(descriptor, self._news.set)
        try:
            await self._news.wait()
        finally:
            for descriptor in descriptors:
                loop.remove_reader(descriptor)

    async def receive(self) -> tuple[OutputName, bytes] | None:
        """None also when the command has ended and all it wrote is read: what it left behind in
        the background may hold the output open, nobody waits for that."""
        if self._last_words:
            words, self._last_words = self._last_words, b""
            return "stdout", words
        while self._outputs:
            ended = self._ended.is_set()
            for descriptor, name in list(self._outputs.items()):
                del self._outputs[descriptor]
                try:
                    data = os.read(descriptor, READ_BYTES)
                except BlockingIOError:
                    self._outputs[descriptor] = name
                    continue
                except OSError:  # a terminal that nobody has open any more
                    continue
                if data:
                    self._outputs[descriptor] = name  # the last in turn now
                    return name, data
            if ended:
                return None
            if self._outputs:
                await self._readable(*self._outputs)
        return None

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._input < 0:
                raise BrokenPipeError("the command's input is closed")
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                await writable(self._input)
            except OSError as error:
                raise BrokenPipeError("the command reads no input") from error

    async def end_input(self) -> None:
        if self._input >= 0 and self._terminal < 0:  # a terminal goes on: its output is needed
            self._open.discard(self._input)
            os.close(self._input)
        self._input = -1

    def resize(self, width: int, height: int) -> None:
        if self._terminal < 0 or self._ended.is_set():
            return
        with contextlib.suppress(OSError):
            size = struct.pack("HHHH", height, width, 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        if self._listener is None:
            self._popen.send_signal(signal.SIGWINCH)  # runc passes the size on

    async def wait(self) -> int:
        await self._ended.wait()
        code = self._popen.wait()
        if code and (refusal := self._folder.refusal()):
            missing = any(text in refusal.lower() for text in ("not found", "no such file"))
            return _NOT_FOUND if missing else _NOT_EXECUTABLE
        return _SIGNAL - code if code < 0 else code

    def closing(self) -> None:
        """Let the event loop go of it."""
        asyncio.get_running_loop().remove_reader(self._pidfd)

    def close(self) -> None:
        """Kill what still runs, and let go of everything. Blocking, in a worker."""
        if self._popen.poll() is None:
            self._folder.kill(self._popen)
        self._popen.wait()
        self._release()

    def _release(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()
        if self._listener:
            self._listener.close()
        self._folder.close()


_PIPES: dict[int, OutputName] = {2: "stdout", 3: "stderr"}
_CHUNK_BYTES = 8 * 1024
"""conmon reads no longer packets."""


class AttachedContainer:
    """The streams of a container's own process, as its conmon passes them on (`base.Process`).

    conmon's attach socket carries packets: a byte that names the stream, and what was written.
    """

    def __init__(self, bundle: Path, stdio: Stdio) -> None:
        """Raises SheepError."""
        self._bundle = bundle
        self._stdio = stdio
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            _connect(self._socket, bundle)
        except OSError as error:
            self._socket.close()
            raise SheepError("ContainerNotRunning", f"cannot attach: {error.strerror}") from error
        self._socket.setblocking(False)

    async def receive(self) -> tuple[OutputName, bytes] | None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                packet = await loop.sock_recv(self._socket, READ_BYTES)
            except OSError:
                return None
            if not packet:
                return None
            name = _PIPES.get(packet[0])
            if name and getattr(self._stdio, name):
                return name, packet[1:]

    async def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        for start in range(0, len(data) if self._stdio.stdin else 0, _CHUNK_BYTES):
            try:
                await loop.sock_sendall(self._socket, data[start : start + _CHUNK_BYTES])
            except OSError as error:
                raise BrokenPipeError("the container's monitor is gone") from error

    async def end_input(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def resize(self, width: int, height: int) -> None:
        with contextlib.suppress(OSError):
            descriptor = os.open(self._bundle / "ctl", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "wb") as control:
                control.write(b"1 %d %d\n" % (height, width))

    async def wait(self) -> int:
        return 0

    def close(self) -> None:
        self._socket.close()


def _connect(unix: socket.socket, bundle: Path) -> None:
    """By way of the directory: its path may be longer than a socket's may be."""
    directory = os.open(bundle, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        unix.connect(f"/proc/self/fd/{directory}/attach")
    finally:
        os.close(directory)


async def dial(namespace: Path | None, port: int) -> SocketDuplex:
    """Connect to a port of localhost in a pinned network namespace (None: the node's own).

    Raises OSError: what both families of addresses said.
    """
    failures = []
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            sock = await asyncio.to_thread(_socket_in, namespace, family)
        except OSError as error:
            failures.append(f"{host}: {os.strerror(error.errno or 0)}")
            continue
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
            return await SocketDuplex.of(sock)
        except OSError as error:
            sock.close()
            failures.append(f"{host}: {os.strerror(error.errno or 0)}")
        except BaseException:
            sock.close()
            raise
    raise ConnectionRefusedError(f"failed to connect to localhost:{port}: {'; '.join(failures)}")


def _socket_in(namespace: Path | None, family: int) -> socket.socket:
    """A socket belongs to the namespace in which it was made, whoever uses it."""
    made: list[socket.socket] = []

    def work() -> None:
        if namespace:
            descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                kernel.setns(descriptor, kernel.CLONE_NEWNET)
            finally:
                os.close(descriptor)
        made.append(socket.socket(family, socket.SOCK_STREAM))

    in_thread(work)
    return made[0]
