"""`Program`: the real `shepherd`, as its own process, for tests from the outside."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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


@dataclass
class Program:
    """One `shepherd` process and the clients that speak to it."""

    data_dir: Path
    flags: list[str]
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    _logged: int = 0
    """How long the log was when the process was started."""

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    @property
    def log(self) -> Path:
        return self.data_dir / "test.log"

    def start(self) -> "Program":
        """Start the process; its log goes to `log`."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._logged = self.log.stat().st_size if self.log.exists() else 0
        command = [str(BIN / "shepherd"), "--data-dir", str(self.data_dir), *self.flags]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def wait_ready(self) -> None:
        """Until a node is Ready (servers without an agent: until the API is)."""
        agent = "server" not in self.flags
        eventually(lambda: self._is_ready(agent), what=f"ready; see {self.log}")

    def _is_ready(self, agent: bool) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        if not self.kubeconfig.exists():
            return False
        # The API may still tell of a node of earlier, whose new agent has only begun to start.
        told = agent and "--log-level" not in self.flags
        if told and " is ready" not in self.log.read_text()[self._logged :]:
            return False
        if not agent:
            return self.kubectl("get", "--raw", "/readyz") == "ok"
        nodes = self.get("nodes")["items"]
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for node in nodes
            for condition in node.get("status", {}).get("conditions", [])
        )

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command with the program's kubeconfig; its standard output."""
        environment = os.environ | {
            "KUBECONFIG": str(self.kubeconfig),
            # kubectl's discovery cache, per cluster.
            "HOME": str(self.data_dir / "home"),
        }
        result = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, timeout=90
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
        """End it with all its pods, and remove its data.

        Raises OSError when a mount was left behind.
        """
        self.stop()
        self.flags.append("--stop-pods")
        self.start().wait_ready()
        self.stop()
        shutil.rmtree(self.data_dir)
