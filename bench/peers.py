"""The same container by other programs, where they are installed and work here.

Each peer gets its image from the same archive, its container an address of its own as our pod has
one, and storage of its own where it can have that, so that nothing is left on the machine.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The limits are those that a machine without CAP_SYS_RESOURCE can still set.
_LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
_RUN = ["run", "-d", *_LIMITS]


class Peer:
    """A program that runs containers from the command line."""

    def __init__(self, name: str, command: list[str], run: list[str]) -> None:
        self.name = name
        self._command = command
        self._run = run

    def start(self) -> float:
        """Start one container and remove it again; the seconds that the start took."""
        began = time.perf_counter()
        started = self._do(*self._run)
        seconds = time.perf_counter() - began
        self._do("kill", started.strip())
        self._do("rm", "-f", started.strip())
        return seconds

    def load(self, archive: Path) -> None:
        self._do("load", "-i", str(archive))

    def _do(self, *arguments: str) -> str:
        """Raises CalledProcessError."""
        command = [*self._command, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def peers(folder: Path, archive: Path, image: str) -> Iterator[list[Peer]]:
    """The peers that can run `image` here; podman's storage is in `folder`."""
    run = [*_RUN, image, "sleep", "3600"]
    storage = ["--root", str(folder / "root"), "--runroot", str(folder / "run")]
    podman = ["podman", *storage, "--cgroup-manager", "cgroupfs"]
    candidates = [
        Peer("podman", podman, run),
        # podman's first choice, crun, refuses hybrid cgroups.
        Peer("podman", [*podman, "--runtime", "runc"], run),
        Peer("docker", ["docker"], run),
    ]
    usable: dict[str, Peer] = {}
    for peer in candidates:
        if peer.name not in usable and _works(peer, archive):
            usable[peer.name] = peer
    try:
        yield list(usable.values())
    finally:
        if "podman" in usable:
            subprocess.run([*podman, "rmi", "-f", "-a"], capture_output=True, check=False)


def _works(peer: Peer, archive: Path) -> bool:
    if shutil.which(peer.name) is None:
        return False
    try:
        peer.load(archive)
        peer.start()
    except subprocess.CalledProcessError:
        return False
    return True
