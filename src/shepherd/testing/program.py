"""`Program`: the real `shepherd`, as its own process, for tests from the outside.

A `NetworkNamespace` keeps a program's bridge, nft rules and traffic to itself: it has no uplink,
so no packet can leave, and its end takes everything in it along.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

BIN = Path(sys.executable).parent
T = TypeVar("T")


def eventually(check: Callable[[], T], *, seconds: float = 30.0, what: str = "") -> T:
    """The first true value of `check`, asked again and again for at most `seconds`.

    Raises AssertionError with what `check` gave or raised last.
    """
    deadline = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < deadline:
        try:
            value = check()
        except (AssertionError, LookupError, OSError, subprocess.SubprocessError) as error:
            last = error
        else:
            if value:
                return value
            last = value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what or check}; last: {last!r}")


@dataclass(frozen=True, slots=True)
class NetworkNamespace:
    """A pinned network namespace; commands enter it by `nsenter`, which keeps /sys as it is."""

    path: Path

    @property
    def enter(self) -> list[str]:
        """The words to put before a command."""
        return ["nsenter", f"--net={self.path}"]

    def run(self, *command: str) -> str:
        """Run a command inside; its standard output. Raises CalledProcessError."""
        result = subprocess.run(
            [*self.enter, *command], capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise subprocess.CalledProcessError(
                result.returncode, command, result.stdout, result.stderr
            )
        return result.stdout


@contextmanager
def network_namespace(path: Path) -> Iterator[NetworkNamespace]:
    """Make a network namespace, pinned at `path`, with one address that is not loopback."""
    path.touch()
    subprocess.run(["unshare", f"--net={path}", "true"], check=True)
    namespace = NetworkNamespace(path)
    try:
        namespace.run("ip", "link", "set", "lo", "up")
        namespace.run("ip", "link", "add", "uplink", "type", "bridge")
        namespace.run("ip", "address", "add", "192.0.2.10/24", "dev", "uplink")
        namespace.run("ip", "link", "set", "uplink", "up")
        yield namespace
    finally:
        subprocess.run(["umount", str(path)], check=False)
        path.unlink(missing_ok=True)


@dataclass
class Program:
    """One `shepherd` process and the clients that speak to it."""

    data_dir: Path
    flags: list[str]
    namespace: NetworkNamespace | None = None
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    @property
    def log(self) -> Path:
        return self.data_dir / "test.log"

    def start(self) -> "Program":
        """Start the process; its log goes to `log`."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        command = [str(BIN / "shepherd"), "--data-dir", str(self.data_dir), *self.flags]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*self._enter, *command], stdout=log, stderr=log)
        return self

    def wait_ready(self, seconds: float = 30.0) -> None:
        """Until a node is Ready (servers without an agent: until the API is)."""
        agent = "server" not in self.flags
        eventually(lambda: self._is_ready(agent), seconds=seconds, what=f"ready; see {self.log}")

    def _is_ready(self, agent: bool) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        if not self.kubeconfig.exists():
            return False
        if not agent:
            return self.kubectl("get", "--raw", "/readyz") == "ok"
        nodes = self.get("nodes")["items"]
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for node in nodes
            for condition in node.get("status", {}).get("conditions", [])
        )

    @property
    def _enter(self) -> list[str]:
        return self.namespace.enter if self.namespace else []

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command where the program is; its standard output."""
        environment = os.environ | {
            "KUBECONFIG": str(self.kubeconfig),
            # kubectl's discovery cache, per cluster.
            "HOME": str(self.data_dir / "home"),
        }
        result = subprocess.run(
            [*self._enter, *command], capture_output=True, text=True, env=environment, check=False
        )
        if check and result.returncode:
            raise AssertionError(f"{' '.join(command)}: {result.stderr.strip()}")
        return result.stdout

    def kubectl(self, *arguments: str, check: bool = True) -> str:
        return self.run(str(BIN / "kubectl"), *arguments, check=check)

    def sheepctl(self, *arguments: str, check: bool = True) -> str:
        return self.run(str(BIN / "sheepctl"), *arguments, check=check)

    def get(self, *arguments: str) -> Any:
        """`kubectl get ... -o json`, decoded."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def kill(self) -> None:
        """SIGKILL, as if the power went."""
        self._end(signal.SIGKILL)

    def stop(self, seconds: float = 30.0) -> int:
        """SIGTERM and wait; the exit code."""
        return self._end(signal.SIGTERM, seconds)

    def _end(self, number: signal.Signals, seconds: float = 30.0) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process = None

    def discard(self) -> None:
        """End it with all its pods and remove its data. Never fails half-way."""
        if self.process is None:
            self.flags.append("--stop-pods")
            self.start()
        self.kubectl("delete", "deployments,pods", "--all", "-A", "--grace-period=0", check=False)
        self.stop()
        shutil.rmtree(self.data_dir, ignore_errors=True)
