"""Control groups: `/<instance>/<sandbox>/<container>`, on cgroup v1, hybrid and v2 machines.

crun makes the container's own groups; this makes and limits the pod's, reads use, kills, and
removes. Interface files: the kernel's admin-guide/cgroup-v1 and cgroup-v2.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from shepherd.runtime.base import Resources, Stats

ROOT = Path("/sys/fs/cgroup")
PERIOD_MICROSECONDS = 100_000
NO_LIMIT_V1 = 1 << 60
"""v1 says "none" by a number near 2**63."""


def cpu_shares(millis: int) -> int:
    """v1 weight of a CPU request (kubelet's MilliCPUToShares)."""
    return max(2, min(millis * 1024 // 1000, 262_144))


def cpu_quota(millis: int) -> int:
    """Microseconds per period of a CPU limit (kubelet's MilliCPUToQuota: at least 1 ms)."""
    return max(1000, millis * PERIOD_MICROSECONDS // 1000)


def cpu_weight(shares: int) -> int:
    """v2 weight (1..10000) of v1 shares (2..262144), as runc and crun convert them."""
    return 1 + (shares - 2) * 9999 // 262_142


class Cgroups:
    """`mode` is `v1`, `hybrid` or `v2`. On a hybrid machine crun takes the directory `shadow` for
    the unified hierarchy (see `workers`)."""

    def __init__(self, shadow: Path, root: Path = ROOT) -> None:
        self.root = root
        self.shadow = shadow
        self.unified = (root / "cgroup.controllers").exists()
        hybrid = (root / "unified" / "cgroup.controllers").exists()
        self.mode = "v2" if self.unified else "hybrid" if hybrid else "v1"

    def _group(self, controller: str, path: str) -> Path:
        return (self.root if self.unified else self.root / controller) / path.lstrip("/")

    def _hierarchies(self) -> list[Path]:
        if self.unified:
            return [self.root]
        return [one for one in self.root.iterdir() if one.is_dir() and not one.is_symlink()]

    def prepare(self, path: str, resources: Resources) -> None:
        """Make a pod's group with its limits. Raises OSError."""
        if self.unified:
            self._delegate(path)
        else:
            for controller in ("cpu", "memory"):
                self._group(controller, path).mkdir(parents=True, exist_ok=True)
        self.limit(path, resources)

    def limit(self, path: str, resources: Resources) -> None:
        """Limit a group anew. A limit that is not given stays as it is. Raises OSError."""
        for file, value in self._settings(path, resources).items():
            file.write_text(value)

    def _settings(self, path: str, resources: Resources) -> dict[Path, str]:
        cpu, memory = self._group("cpu", path), self._group("memory", path)
        millis, limit = resources.cpu_millis, resources.memory_bytes
        shares = cpu_shares(resources.cpu_request_millis or millis or 0)
        settings: dict[Path, str] = {}
        if limit is not None:
            settings |= self._memory_settings(memory, limit)
        if self.unified:
            settings[cpu / "cpu.weight"] = str(cpu_weight(shares))
            if millis is not None:
                settings[cpu / "cpu.max"] = f"{cpu_quota(millis)} {PERIOD_MICROSECONDS}"
        else:
            settings[cpu / "cpu.shares"] = str(shares)
            if millis is not None:
                settings[cpu / "cpu.cfs_quota_us"] = str(cpu_quota(millis))
        return settings

    def _memory_settings(self, group: Path, limit: int) -> dict[Path, str]:
        """v1: what memory and swap may be together can never be less than memory alone. Only
        containers have such a limit."""
        if self.unified:
            return {group / "memory.max": str(limit)}
        files = [group / "memory.limit_in_bytes"]
        with_swap = group / "memory.memsw.limit_in_bytes"
        if with_swap.exists() and int(with_swap.read_text()) < NO_LIMIT_V1:
            files.insert(0 if limit > int(with_swap.read_text()) else 1, with_swap)
        return dict.fromkeys(files, str(limit))

    def _delegate(self, path: str) -> None:
        """v2: make each group on the way and hand the controllers down to it."""
        group = self.root
        for part in ("", *path.strip("/").split("/")):
            group = group / part
            group.mkdir(exist_ok=True)
            offered = set((group / "cgroup.controllers").read_text().split())
            wanted = sorted(offered & {"cpu", "cpuset", "io", "memory", "pids"})
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in wanted))

    def limits_swap(self, path: str) -> bool:
        """Whether swap can be limited in a group below this one."""
        name = "memory.swap.max" if self.unified else "memory.memsw.limit_in_bytes"
        return (self._group("memory", path) / name).exists()

    def pids(self, path: str) -> list[int]:
        """The processes in a group itself (not below it)."""
        try:
            text = (self._group("pids", path) / "cgroup.procs").read_text()
        except OSError:
            return []
        return [int(pid) for pid in text.split()]

    def kill(self, path: str) -> None:
        """SIGKILL to every process of a group. Those that fork meanwhile are met in the next
        round; there are few rounds because the dead do not fork."""
        if self.unified:
            with contextlib.suppress(OSError):
                (self._group("", path) / "cgroup.kill").write_text("1")
            return
        killed: set[int] = set()
        while found := set(self.pids(path)) - killed:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed |= found

    def below(self, path: str) -> list[str]:
        """The groups at and below one."""
        group = self._group("pids", path)
        return [f"{path}/{one.relative_to(group)}" for one in _deepest_first(group)]

    def remove(self, path: str) -> None:
        """Remove a group and those below it; one in which a process still ends stays."""
        shutil.rmtree(self.shadow / path.lstrip("/"), ignore_errors=True)
        for hierarchy in self._hierarchies():
            for group in _deepest_first(hierarchy / path.lstrip("/")):
                with contextlib.suppress(OSError):
                    group.rmdir()

    def oom_kills(self, path: str) -> int:
        """How often the kernel killed for memory in a group."""
        name = "memory.events" if self.unified else "memory.oom_control"
        return _fields(self._group("memory", path) / name).get("oom_kill", 0)

    def stats(self, path: str) -> Stats | None:
        """CPU time and working set (use without inactive page cache); None when it is gone."""
        memory = self._group("memory", path)
        try:
            if self.unified:
                nanos = _fields(memory / "cpu.stat")["usage_usec"] * 1000
                used = int((memory / "memory.current").read_text())
                inactive = _fields(memory / "memory.stat").get("inactive_file", 0)
            else:
                nanos = int((self._group("cpuacct", path) / "cpuacct.usage").read_text())
                used = int((memory / "memory.usage_in_bytes").read_text())
                inactive = _fields(memory / "memory.stat").get("total_inactive_file", 0)
        except (OSError, KeyError):
            return None
        return Stats(cpu_nanos=nanos, memory_bytes=max(0, used - inactive))


def _deepest_first(group: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(group, topdown=False):
        yield Path(folder)


def _fields(file: Path) -> dict[str, int]:
    """A file of `name value` lines."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    return {line.split()[0]: int(line.split()[1]) for line in lines if len(line.split()) == 2}
