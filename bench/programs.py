"""Real `shepherd` processes to measure, in a network namespace that the bench makes for itself."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.client.kubeconfig import Kubeconfig, read_kubeconfig
from shepherd.runtime.oci import kernel
from shepherd.testing.program import Program

ROOT = Path(__file__).parents[1]
IMAGE = "shepherd.local/demo:1"
_CLONE_NEWNET = 0x40000000


def enter_own_network() -> None:
    """Put this process, and all that it starts, into a network namespace without uplink.

    Needs root, and must come before any thread is started.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot make a network namespace (are you root?)")
    for command in (
        "ip link set lo up",
        "ip link add uplink type bridge",
        "ip address add 192.0.2.10/24 dev uplink",
        "ip link set uplink up",
    ):
        subprocess.run(command.split(), check=True)


@contextmanager
def directory() -> Iterator[Path]:
    """A directory for state, on a real disk: /tmp may be in memory, and durability is measured."""
    base = ROOT / "build" / "bench"
    base.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(dir=base))
    try:
        yield path
    finally:
        for point in kernel.mount_points(path):
            kernel.unmount(point)
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def program(path: Path, *flags: str) -> Iterator[Program]:
    """A ready `shepherd` whose state is in `path`; ended with its pods."""
    images = path / "images"
    images.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "build" / "demo-image.tar", images)
    found = Program(path, [*flags, "--stop-pods", "--log-level", "warning"]).start()
    try:
        found.wait_ready()
        yield found
    finally:
        found.stop()


def kubeconfig(program: Program) -> Kubeconfig:
    return read_kubeconfig([program.kubeconfig])


def client(program: Program) -> Client:
    """An administrator's client, over the socket."""
    config = kubeconfig(program)
    return Client(HttpTransport(config.server, ssl=config.ssl_context()), user_agent="bench")


def resident_mb(pid: int) -> float:
    """The resident set size in MB (proc(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise LookupError(f"no process {pid}")


def cpu_seconds(pid: int) -> float:
    """User and system time used so far (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0..1) of `values` lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
