"""What a container may do: capabilities, hidden paths, and the default seccomp profile. Pure."""

from collections.abc import Iterable
from typing import Any

# In the order of <linux/capability.h>: the place is the number.
_EVERY = """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
    NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO
    SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
    SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
    WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
_DEFAULT = """
    CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE
    SYS_CHROOT KILL AUDIT_WRITE
"""
CAPABILITIES = tuple(f"CAP_{name}" for name in _EVERY.split())
DEFAULT_CAPABILITIES = frozenset(f"CAP_{name}" for name in _DEFAULT.split())
"""What containerd and Docker give by default."""

MASKED_PATHS = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
    "/sys/devices/virtual/powercap",
)  # fmt: skip
READ_ONLY_PATHS = (
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
)  # fmt: skip

# What no ordinary program needs: the calls that Docker's documentation lists as blocked by its
# default profile, each with the capability that frees it again ("" = none does).
_BLOCKED = {
    "CAP_SYS_ADMIN": (
        "bpf clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount move_mount "
        "mount_setattr open_tree perf_event_open pivot_root quotactl quotactl_fd setdomainname "
        "sethostname setns umount umount2 unshare"
    ),
    "CAP_SYS_MODULE": "create_module delete_module finit_module init_module query_module",
    "CAP_SYS_PTRACE": "kcmp process_madvise process_vm_readv process_vm_writev pidfd_getfd",
    "CAP_SYS_BOOT": "kexec_file_load kexec_load reboot",
    "CAP_SYS_TIME": "clock_adjtime clock_adjtime64 clock_settime clock_settime64 "
    "settimeofday stime",
    "CAP_SYS_NICE": "get_mempolicy mbind move_pages set_mempolicy",
    "CAP_SYS_RAWIO": "ioperm iopl",
    "CAP_SYS_PACCT": "acct",
    "CAP_SYSLOG": "syslog",
    "CAP_SYS_TTY_CONFIG": "vhangup",
    "CAP_DAC_READ_SEARCH": "open_by_handle_at",
    "": (
        "_sysctl add_key get_kernel_syms io_uring_enter io_uring_register io_uring_setup keyctl "
        "nfsservctl request_key swapoff swapon sysfs uselib userfaultfd ustat vm86 "
        "vm86old"
    ),
}
_ENOSYS = 38
_EPERM = 1
_NEW_NAMESPACES = 0x7E020000
"""clone(2)'s CLONE_NEW* flags."""


def names(requested: Iterable[str]) -> set[str]:
    """Capabilities as the kernel names them; users write them without `CAP_`."""
    upper = (name.upper() for name in requested)
    return {name if name.startswith("CAP_") or name == "ALL" else f"CAP_{name}" for name in upper}


def capabilities(
    add: Iterable[str], drop: Iterable[str], *, privileged: bool, bounding: int
) -> list[str]:
    """The set a container gets: the default with `add` and `drop` (`ALL` understood), as far as
    Shepherd itself may give it (`bounding`, a bit mask). Added ones win, as in Kubernetes."""
    adding, dropping = names(add), names(drop)
    every = set(CAPABILITIES)
    if privileged:
        chosen = every
    else:
        chosen = set() if "ALL" in dropping else set(DEFAULT_CAPABILITIES) - dropping
        chosen = (every - dropping if "ALL" in adding else chosen) | (adding - {"ALL"})
    return [name for bit, name in enumerate(CAPABILITIES) if name in chosen and bounding >> bit & 1]


def default_seccomp(granted: Iterable[str]) -> dict[str, Any]:
    """The profile RuntimeDefault: all calls but the dangerous ones. Shorter than an allow list and
    open to the kernel's future calls; a pod that wants less brings its own profile."""
    held = set(granted)
    blocked = [name for cap, text in _BLOCKED.items() if cap not in held for name in text.split()]
    rules: list[dict[str, Any]] = []
    if "CAP_SYS_ADMIN" not in held:
        # clone3 hides its flags from seccomp: ENOSYS makes the C library fall back to clone.
        blocked.remove("clone3")
        rules += [
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS},
            *(_clone_with(1 << bit) for bit in range(32) if _NEW_NAMESPACES >> bit & 1),
        ]
    rules.append({"names": sorted(blocked), "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM})
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}


def _clone_with(flag: int) -> dict[str, Any]:
    argument = {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}
    return {
        "names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM, "args": [argument],
    }  # fmt: skip
