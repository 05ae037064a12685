"""The threads in which Sheep's blocking work runs.

On a hybrid cgroup machine crun refuses to work because it finds cgroup2 at
/sys/fs/cgroup/unified. Each worker therefore has a mount namespace of its own in which an ordinary
directory, the *shadow*, covers that place; conmon and crun inherit it from the thread that starts
them. (crun goes on to make its groups there; `cgroups` removes them with the true ones.) All other
mounts are shared with the machine: what a worker mounts is seen by all and outlives the agent, and
what the machine mounts is seen by the workers.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from shepherd.runtime.oci import kernel

P = ParamSpec("P")
T = TypeVar("T")

UNIFIED = Path("/sys/fs/cgroup/unified")


class Workers:
    """A bounded pool: more starts at once than cores gain nothing and make each slower."""

    def __init__(self, count: int, name: str, *, directory: Path, shadow: Path) -> None:
        self._pool = ThreadPoolExecutor(count, name, lambda: _enter(directory, shadow))

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do `work` in a worker. A caller that is cancelled does not stop it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: work(*args, **kwargs))

    async def close(self) -> None:
        """Wait for what is still running and end the threads."""
        await asyncio.to_thread(self._pool.shutdown)


def _enter(directory: Path, shadow: Path) -> None:
    """Prepare the calling thread; `directory` (the layers) becomes its working directory, so that
    overlay options name layers briefly: the kernel cuts them at 4 KiB."""
    kernel.unshare(kernel.CLONE_FS | kernel.CLONE_NEWNS)
    if UNIFIED.is_dir():
        kernel.mount(None, UNIFIED.parent, None, kernel.MS_SLAVE | kernel.MS_REC)
        kernel.mount(shadow, UNIFIED, None, kernel.MS_BIND)
    os.chdir(directory)


async def readable(descriptor: int) -> None:
    """Wait until a descriptor can be read; a pidfd can when its process has ended."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(descriptor, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(descriptor)


async def writable(descriptor: int) -> None:
    """Wait until a descriptor can be written to, or its other end is gone."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_writer(descriptor, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_writer(descriptor)


def prepare_mounts(volatile: Path) -> None:
    """Let mounts appear in every mount namespace that comes from this one, as systemd does at boot
    and Kubernetes asks for; and make `volatile` a tmpfs, unless an earlier agent did. Call it
    before the first worker starts: volumes that are mounted later reach the containers only so."""
    for place in (Path("/"), volatile.parent):
        kernel.share_mount_of(place)
    if str(volatile) not in kernel.mount_points(volatile):
        volatile.mkdir(exist_ok=True)
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        kernel.mount("sheep", volatile, "tmpfs", flags, "mode=700")
