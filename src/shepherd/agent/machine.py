"""The machine as its kernel shows it: sizes and identity. Linux."""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from shepherd.runtime.base import Stats

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
_UNLIMITED_BYTES = 1 << 60
"""cgroup v1 writes "no limit" as a number near 2**63."""


@dataclass(frozen=True, slots=True)
class Use:
    """What is left of what runs out."""

    memory_available_bytes: int
    disk_free_share: float
    disk_inodes_free_share: float
    processes_free_share: float


PLENTY = Use(1 << 60, 1.0, 1.0, 1.0)
"""The state of a machine that lacks nothing."""


def cpus() -> float:
    """Processors that this process may use, less if its cgroup has a quota."""
    count = float(len(os.sched_getaffinity(0)))
    quota, _, period = _text("/sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdecimal() and period.strip().isdecimal():
        return min(count, int(quota) / int(period))
    quota, period = (
        _text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
        _text("/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
    )
    if quota.isdecimal() and period.isdecimal():
        return min(count, int(quota) / int(period))
    return count


def memory_bytes() -> int:
    """Memory of the machine, or of the cgroup that we are in, whichever is less."""
    total = _meminfo("MemTotal")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = _text(path)
        if limit.isdecimal() and int(limit) < _UNLIMITED_BYTES:
            total = min(total, int(limit))
    return total


def disk_bytes(path: Path) -> int:
    return shutil.disk_usage(path).total


def use(path: Path) -> Use:
    """The state of memory, of the disk of `path`, and of the process table."""
    disk = os.statvfs(path)
    most = int(_text("/proc/sys/kernel/pid_max") or 32768)
    running = int(_text("/proc/loadavg").split()[3].partition("/")[2])
    return Use(
        memory_available_bytes=_meminfo("MemAvailable"),
        disk_free_share=disk.f_bavail / max(1, disk.f_blocks),
        disk_inodes_free_share=disk.f_favail / disk.f_files if disk.f_files else 1.0,
        processes_free_share=1.0 - running / most,
    )


def stats() -> Stats:
    """The CPU time that the machine worked since its boot, and the memory that it cannot free."""
    user, nice, system, _, _, *interrupts = map(int, _text("/proc/stat").split()[1:9])
    ticks = user + nice + system + sum(interrupts)
    return Stats(
        cpu_nanos=ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK"),
        memory_bytes=_meminfo("MemTotal") - _meminfo("MemAvailable"),
    )


def _meminfo(name: str) -> int:
    for line in _text("/proc/meminfo").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def node_info() -> dict[str, str]:
    """Who and what the machine is, as core/v1 NodeSystemInfo names it."""
    machine = _text("/etc/machine-id") or _text("/var/lib/dbus/machine-id")
    return {
        "machineID": machine,
        "systemUUID": _text("/sys/class/dmi/id/product_uuid") or machine,
        "bootID": _text("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": platform.release(),
        "osImage": _os_image(),
        "operatingSystem": "linux",
        "architecture": architecture(),
    }


def architecture() -> str:
    """As Go, and so Kubernetes, names it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
