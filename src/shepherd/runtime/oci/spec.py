"""From a ContainerConfig and its image to an OCI runtime spec. Pure: `Surroundings` has what only
the machine knows."""

from dataclasses import dataclass
from typing import Any

from shepherd.runtime.base import ContainerConfig, Mount, SheepError
from shepherd.runtime.oci import security
from shepherd.runtime.oci.cgroups import PERIOD_MICROSECONDS, cpu_quota, cpu_shares
from shepherd.runtime.oci.images import ImageDefaults
from shepherd.runtime.oci.users import ResolvedUser

Spec = dict[str, Any]

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Device:
    """A device node of the machine, given to privileged containers."""

    path: str
    kind: str
    major: int
    minor: int
    mode: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a container finds around it."""

    user: ResolvedUser
    hostname: str
    rootfs: str
    cgroup: str
    namespaces: dict[str, str]
    """Kind (OCI name) to the path of one to join, or empty for a new one."""
    files: tuple[Mount, ...]
    """/etc/hosts, /etc/hostname, /etc/resolv.conf and /dev/shm of its sandbox."""
    bounding: int
    """Our capability bounding set, a bit mask: no container can get more."""
    oom_score_floor: int
    """Ours: a process without CAP_SYS_RESOURCE cannot go below it."""
    limits_swap: bool = False
    """Whether the kernel counts swap: then a memory limit allows none, as kubelet has it."""
    devices: tuple[Device, ...] = ()
    seccomp_profile: Spec | None = None
    """Read from the path that the pod names."""


def arguments(config: ContainerConfig, defaults: ImageDefaults) -> list[str]:
    """Kubernetes' rules: command replaces entrypoint and cmd, args alone replace the cmd."""
    if config.command:
        found = [*config.command, *config.args]
    elif config.args:
        found = [*(defaults.entrypoint or ()), *config.args]
    else:
        found = [*(defaults.entrypoint or ()), *(defaults.cmd or ())]
    if not found:
        message = f"no command specified: neither the image of {config.name!r} nor the pod has one"
        raise SheepError("CreateContainerError", message)
    return found


def environment(
    config: ContainerConfig, defaults: ImageDefaults, around: Surroundings
) -> list[str]:
    """The image's variables, and the pod's over them."""
    variables = {"PATH": DEFAULT_PATH, "HOSTNAME": around.hostname, "HOME": around.user.home}
    if config.tty:
        variables["TERM"] = "xterm"
    for item in defaults.env or ():
        name, _, value = item.partition("=")
        variables[name] = value
    variables.update(config.env)
    return [f"{name}={value}" for name, value in variables.items()]


def build(config: ContainerConfig, defaults: ImageDefaults, around: Surroundings) -> Spec:
    """The spec for crun or runc. Raises SheepError (CreateContainerError)."""
    granted = security.capabilities(
        config.capabilities_add, config.capabilities_drop,
        privileged=config.privileged, bounding=around.bounding,
    )  # fmt: skip
    user = around.user
    process: Spec = {
        "terminal": config.tty,
        "user": {"uid": user.uid, "gid": user.gid, "additionalGids": list(user.groups)},
        "args": arguments(config, defaults),
        "env": environment(config, defaults, around),
        "cwd": config.working_dir or defaults.working_dir or "/",
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), granted),
        "noNewPrivileges": config.no_new_privileges,
        "oomScoreAdj": max(config.oom_score_adj, around.oom_score_floor),
    }
    return {
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": around.rootfs, "readonly": config.read_only_rootfs},
        "mounts": mounts(config, around),
        "annotations": dict(config.annotations),
        "linux": _linux(config, around, granted),
    }


def _linux(config: ContainerConfig, around: Surroundings, granted: list[str]) -> Spec:
    linux: Spec = {
        "cgroupsPath": around.cgroup,
        "namespaces": [
            {"type": kind, "path": path} if path else {"type": kind}
            for kind, path in around.namespaces.items()
        ],
        "resources": resources(config, limits_swap=around.limits_swap),
    }
    if config.privileged:
        linux["devices"] = [
            {"path": one.path, "type": one.kind, "major": one.major, "minor": one.minor,
             "fileMode": one.mode, "uid": 0, "gid": 0}
            for one in around.devices
        ]  # fmt: skip
    else:
        linux["maskedPaths"] = list(security.MASKED_PATHS)
        linux["readonlyPaths"] = list(security.READ_ONLY_PATHS)
        if around.seccomp_profile is not None:
            linux["seccomp"] = around.seccomp_profile
        elif config.seccomp == "RuntimeDefault":
            linux["seccomp"] = security.default_seccomp(granted)
    if any(mount.propagation != "rprivate" for mount in config.mounts):
        # The kernel lets a bind mount share or receive only below a root that does.
        shared = any(mount.propagation == "rshared" for mount in config.mounts)
        linux["rootfsPropagation"] = "rshared" if shared else "rslave"
    return linux


# Character devices each container may use; making nodes is harmless without the right to open them.
_DEVICES: tuple[tuple[int, int | None], ...] = (
    (1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2), (136, None),
)  # fmt: skip


def resources(config: ContainerConfig, *, limits_swap: bool) -> Spec:
    """The container's cgroup limits."""
    cpu: Spec = {"shares": cpu_shares(config.cpu_request_millis or config.cpu_millis or 0)}
    if config.cpu_millis is not None:
        cpu |= {"quota": cpu_quota(config.cpu_millis), "period": PERIOD_MICROSECONDS}
    found: Spec = {"cpu": cpu}
    if config.memory_bytes is not None:
        found["memory"] = {"limit": config.memory_bytes}
        if limits_swap:
            found["memory"]["swap"] = config.memory_bytes  # memory and swap together
    if config.pids is not None:
        found["pids"] = {"limit": config.pids}
    if config.privileged:
        found["devices"] = [{"allow": True, "access": "rwm"}]
    else:
        allowed = [
            {"allow": True, "type": "c", "major": major, "access": "rwm"}
            | ({} if minor is None else {"minor": minor})
            for major, minor in _DEVICES
        ]
        nodes = [{"allow": True, "type": kind, "access": "m"} for kind in "bc"]
        found["devices"] = [{"allow": False, "access": "rwm"}, *nodes, *allowed]
    return found


def _mount(target: str, kind: str, source: str, *options: str) -> Spec:
    return {"destination": target, "type": kind, "source": source, "options": list(options)}


def mounts(config: ContainerConfig, around: Surroundings) -> list[Spec]:
    """The kernel's file systems, the sandbox's files, the pod's volumes: parents before children,
    and the pod's own choice for a place instead of ours."""
    access = "rw" if config.privileged else "ro"
    safe = ("nosuid", "noexec", "nodev")
    system = [
        _mount("/proc", "proc", "proc", *safe),
        _mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
        _mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance",
               "ptmxmode=0666", "mode=0620", "gid=5"),
        _mount("/dev/mqueue", "mqueue", "mqueue", *safe),
        _mount("/sys", "sysfs", "sysfs", *safe, access),
        _mount("/sys/fs/cgroup", "cgroup", "cgroup", *safe, "relatime", access),
    ]  # fmt: skip
    own = {mount.target.rstrip("/") or "/" for mount in config.mounts}
    binds = [mount for mount in around.files if mount.target not in own] + list(config.mounts)
    binds.sort(key=lambda mount: mount.target.rstrip("/").count("/"))
    return [one for one in system if one["destination"] not in own] + [
        _mount(
            mount.target, "bind", mount.source, "rbind", mount.propagation,
            "ro" if mount.read_only else "rw",
        )
        for mount in binds
    ]  # fmt: skip
