"""Running a command inside a container, without holding a thread while it runs."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from shepherd.runtime.base import ExecResult
from shepherd.runtime.oci.monitor import OciCommand
from shepherd.runtime.oci.workers import Workers, readable

OUTPUT_LIMIT_BYTES = 10 * 1024
REAP_SECONDS = 1.0


class ExecFolder:
    """What goes between us and a `crun exec` in files: the process to run, the process id that it
    tells once that runs, and why it does not."""

    def __init__(self, process: dict[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sheep-exec-")
        self._path = Path(self._folder.name)
        self._pid_file, self._log = self._path / "pid", self._path / "log"
        self.console = str(self._path / "console")
        (self._path / "process.json").write_text(json.dumps(process))

    def line(self, command: OciCommand) -> list[str]:
        """The command line, but for the container's id."""
        return command.line(
            "--log", str(self._log), "--log-format", "json",
            "exec", "--process", str(self._path / "process.json"),
            "--pid-file", str(self._pid_file),
        )  # fmt: skip

    def listen(self) -> socket.socket:
        """The socket on which crun hands over a terminal."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.console)
        listener.listen(1)
        listener.setblocking(False)
        return listener

    def refusal(self) -> str:
        """Why the process could not be started; empty if it was."""
        if self._pid_file.exists():
            return ""
        with contextlib.suppress(OSError, ValueError):
            last = self._log.read_text().strip().rpartition("\n")[2]
            return str(json.loads(last)["msg"])
        return "the command was not started"

    def kill(self, popen: "subprocess.Popen[bytes]") -> None:
        """End the process group of the command; the runtime that waits for it reaps it and ends
        too, unless it had not come to start the command."""
        with contextlib.suppress(OSError, ValueError):
            # crun makes the group in a process before the command's: its id is not the group's.
            group = os.getpgid(int(self._pid_file.read_text()))
            os.killpg(group, signal.SIGKILL)
        try:
            popen.wait(REAP_SECONDS)
        except subprocess.TimeoutExpired:
            popen.kill()

    def close(self) -> None:
        self._folder.cleanup()


class _Running:
    """`crun exec` and its output pipe."""

    def __init__(self, command: OciCommand, container_id: str, process: dict[str, Any]) -> None:
        self._folder = ExecFolder(process)
        self.popen = subprocess.Popen(
            [*self._folder.line(command), container_id], cwd="/", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
        )  # fmt: skip
        assert self.popen.stdout is not None
        self._pipe = self.popen.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._output = b""

    def drain(self) -> bool:
        """Take what has been written; keep the end of it. False when the pipe is closed."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._pipe, 1 << 16):
                self._output = (self._output + chunk)[-OUTPUT_LIMIT_BYTES:]
            return False
        return True

    def result(self) -> ExecResult:
        self.drain()
        return ExecResult(exit_code=self.popen.wait(), output=self._output)

    def close(self) -> None:
        """End what still runs, and let go of everything."""
        if self.popen.poll() is None:
            self._folder.kill(self.popen)
        self.popen.wait()
        assert self.popen.stdout is not None
        self.popen.stdout.close()
        self._folder.close()


async def execute(
    workers: Workers, command: OciCommand, container_id: str, process: dict[str, Any],
    *, timeout_seconds: float,
) -> ExecResult:  # fmt: skip
    """Run `process` (an OCI process) in a container until it ends; what it left behind in the
    background may hold the output open, nobody waits for that. Raises TimeoutError."""
    running = await workers.run(_Running, command, container_id, process)
    try:
        async with asyncio.timeout(timeout_seconds):
            await _ended(running)
        return running.result()
    finally:
        await workers.run(running.close)


async def _ended(running: _Running) -> None:
    """Wait for the end of the command, taking its output meanwhile."""
    loop = asyncio.get_running_loop()
    assert running.popen.stdout is not None
    pipe = running.popen.stdout.fileno()

    def take() -> None:
        if not running.drain():
            loop.remove_reader(pipe)

    pidfd = os.pidfd_open(running.popen.pid)
    loop.add_reader(pipe, take)
    try:
        await readable(pidfd)
    finally:
        loop.remove_reader(pipe)
        os.close(pidfd)
