"""Driving crun (or runc) and conmon. Call from a worker: children inherit its mount namespace.

conmon stays with each container: it holds its output, writes the log in CRI format, and leaves the
exit code in a file, whoever lives or dies meanwhile.
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from shepherd.runtime.base import ContainerConfig

CONMON = "conmon"
COMMAND_SECONDS = 60.0
"""No command of crun or runc takes that long, on the busiest machine."""


class OciError(Exception):
    """crun or runc refused; the message is its own."""


@dataclass(slots=True)
class OciCommand:
    """A runtime program (known once the machine was probed) and where it keeps its state."""

    state: Path
    binary: str = ""

    def line(self, *arguments: str) -> list[str]:
        return [self.binary, "--root", str(self.state), *arguments]

    def run(self, *arguments: str) -> None:
        """Raises OciError, or TimeoutExpired when the machine is beyond help."""
        # A file, because a created container inherits it: the end of a pipe would never come.
        with tempfile.TemporaryFile() as errors:
            done = subprocess.run(
                self.line(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=errors, cwd="/", timeout=COMMAND_SECONDS, check=False,
            )  # fmt: skip
            errors.seek(0)
            text = errors.read().decode(errors="replace").strip()
        if done.returncode:
            raise OciError(text or f"{self.binary} failed with {done.returncode}")

    def delete(self, container_id: str) -> None:
        """Remove a container from the runtime's books, whatever it takes; absent is fine."""
        books = self.state / container_id
        if not books.exists():
            return
        try:
            self.run("delete", container_id)
        except OciError:
            with contextlib.suppress(OciError):  # books from before a reboot can be unreadable
                self.run("delete", "--force", container_id)
            shutil.rmtree(books, ignore_errors=True)


def launch(command: OciCommand, config: ContainerConfig, bundle: Path) -> tuple[int, int]:
    """Create the container of `bundle` under a new conmon; the ids of its process and of conmon.

    The process waits for `start`. Raises OciError.
    """
    read, write = os.pipe()
    try:
        done = subprocess.run(
            _conmon_line(command, config, bundle), pass_fds=(write,), cwd="/", check=False,
            env={**os.environ, "_OCI_SYNCPIPE": str(write)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=COMMAND_SECONDS,
        )  # fmt: skip
        os.close(write)
        write = -1
        with os.fdopen(read, "rb") as pipe:
            read = -1
            answer = pipe.readline()
    finally:
        for descriptor in (read, write):
            if descriptor >= 0:
                os.close(descriptor)
    if not answer:
        text = done.stderr.decode(errors="replace").strip()
        raise OciError(text or f"conmon ended with {done.returncode}")
    report = json.loads(answer)
    if report["pid"] <= 0:
        raise OciError(str(report.get("message", "")).strip() or f"{command.binary} create failed")
    return report["pid"], int((bundle / "conmon.pid").read_text())


def _conmon_line(command: OciCommand, config: ContainerConfig, bundle: Path) -> list[str]:
    line = [
        CONMON, "--cid", config.id, "--cuuid", config.id, "--name", config.name,
        "--runtime", command.binary,
        "--runtime-arg=--root", f"--runtime-arg={command.state}",
        "--bundle", str(bundle), "--persist-dir", str(bundle), "--exit-dir", str(bundle / "exits"),
        "--container-pidfile", str(bundle / "container.pid"),
        "--conmon-pidfile", str(bundle / "conmon.pid"),
        "--log-path", f"k8s-file:{config.log_path}" if config.log_path else "off",
        "--log-level", "error", "--full-attach", "--no-sync-log",
    ]  # fmt: skip
    if config.tty:
        line.append("--terminal")
    if config.stdin:
        line.append("--stdin")
        if not config.stdin_once:
            line.append("--leave-stdin-open")
    return line


def reopen_log(bundle: Path) -> None:
    """Tell conmon to open its log file anew. Raises OSError when it is gone."""
    descriptor = os.open(bundle / "ctl", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "wb") as control:
        control.write(b"2 0 0\n")
