"""The system calls that Python 3.11 has no name for."""

import ctypes
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

# <sys/mount.h>
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC = 1, 2, 4, 8, 0x1000, 0x4000
MS_SLAVE, MS_SHARED = 1 << 19, 1 << 20
MNT_DETACH = 2
# <sched.h>
CLONE_FS, CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET = (
    0x200, 0x20000, 0x4000000, 0x8000000, 0x40000000,
)  # fmt: skip

_SYS_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def _text(value: str | os.PathLike[str] | None) -> bytes | None:
    return None if value is None else os.fsencode(value)


def mount(
    source: str | os.PathLike[str] | None, target: str | os.PathLike[str], kind: str | None,
    flags: int = 0, data: str | None = None,
) -> None:  # fmt: skip
    """mount(2). Raises OSError with the target."""
    result = _libc.mount(
        _text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(data)
    )
    _check(result, f"mount {os.fspath(target)}")


def unmount(target: str | os.PathLike[str]) -> None:
    """Detach a mount; what is no mount point (any more) is fine."""
    if _libc.umount2(_text(target), MNT_DETACH) < 0:
        number = ctypes.get_errno()
        if number not in (22, 2):  # EINVAL: not a mount point; ENOENT
            raise OSError(number, os.strerror(number), os.fspath(target))


def unshare(flags: int) -> None:
    """Give the calling *thread* new namespaces; processes it starts inherit them."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, flags: int = 0) -> None:
    """Move the calling thread into the namespace of `descriptor`."""
    _check(_libc.setns(descriptor, flags), "setns")


def sync_filesystem(path: Path) -> None:
    """Write to disk all that the file system of `path` still holds in memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _check(_libc.syncfs(descriptor), "syncfs")
    finally:
        os.close(descriptor)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def _open_in_root(root: Path, path: str) -> int:
    """Open `path` for reading as if `root` were `/`: no link leads out of it (openat2)."""
    how = _OpenHow(os.O_RDONLY | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        result = _libc.syscall(
            ctypes.c_long(_SYS_OPENAT2), ctypes.c_int(descriptor), os.fsencode(path),
            ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)),
        )  # fmt: skip
        return _check(int(result), path)
    finally:
        os.close(descriptor)


def read_in_root(root: Path, path: str) -> str:
    """A small text file of a container's tree, its first MiB at most; empty when it has none."""
    try:
        descriptor = _open_in_root(root, path)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(1 << 20).decode(errors="replace")


def _mounts() -> list[tuple[Path, bool]]:
    """Every mount point, the latest last, and whether it is shared (proc_pid_mountinfo(5))."""
    lines = (line.split() for line in Path("/proc/thread-self/mountinfo").read_text().splitlines())
    return [
        (Path(words[4].replace("\\040", " ")), any(one.startswith("shared:") for one in words[6:]))
        for words in lines
    ]


def mount_points(below: Path) -> list[str]:
    """The mounts at and below a path, the deepest and latest first."""
    return [str(point) for point, _ in _mounts()[::-1] if point.is_relative_to(below)]


def share_mount_of(path: Path) -> None:
    """Make the mount that holds a path shared, if it is not."""
    holding = [one for one in _mounts() if path.is_relative_to(one[0])]
    point, shared = max(reversed(holding), key=lambda one: len(one[0].parts))
    if not shared:
        mount(None, point, None, MS_SHARED)


@dataclass(frozen=True, slots=True)
class Process:
    """A process that is not our child. Its start time (clock ticks since boot) guards against
    another one that got the same id later."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """The process that has this id now."""
        started = _start_time(pid)
        return None if started is None else cls(pid, started)

    def open(self) -> int | None:
        """A pidfd of it, readable when it has ended; None when it is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return None
        if _start_time(self.pid) == self.started:
            return descriptor
        os.close(descriptor)
        return None

    def lives(self) -> bool:
        return _start_time(self.pid) == self.started

    def signal(self, number: int) -> bool:
        """Send it a signal; False when it is gone."""
        descriptor = self.open()
        if descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


def _start_time(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the command's name may hold spaces and brackets
    return None if fields[0] in "ZX" else int(fields[19])
