"""Containers on disk: `containers/<id>/` is the OCI bundle with its writable layer, conmon's files
and, once the container has started, the record by which a later agent adopts it. Blocking; called
in workers."""

import json
import os
import stat
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from shepherd.runtime.base import (
    ContainerConfig,
    ContainerInfo,
    ContainerState,
    Resources,
    SheepError,
)
from shepherd.runtime.oci import kernel, monitor, spec, users
from shepherd.runtime.oci.cgroups import Cgroups
from shepherd.runtime.oci.images import ImageRecord, write_atomically
from shepherd.runtime.oci.kernel import Process
from shepherd.runtime.oci.layers import overlay_options
from shepherd.runtime.oci.monitor import OciCommand, OciError
from shepherd.runtime.oci.sandboxes import SandboxRecord, SandboxStore
from shepherd.runtime.oci.trash import Trash

SIGKILL_EXIT_CODE = 137


class ContainerRecord(msgspec.Struct, frozen=True):
    """A started container as it is on disk."""

    config: ContainerConfig
    pod_uid: str
    layers: list[str]
    created_at: float
    started_at: float
    process: Process
    monitor: Process
    stop_signal: str = ""
    shares_pids: bool = False
    """Its process is no PID namespace's init: others it started can outlive it."""

    @property
    def id(self) -> str:
        return self.config.id


class ContainerStore:
    def __init__(
        self,
        root: Path,
        command: OciCommand,
        sandboxes: SandboxStore,
        cgroups: Cgroups,
        trash: Trash,
    ) -> None:
        self.root = root
        self.command = command
        self._sandboxes = sandboxes
        self._cgroups = cgroups
        self._trash = trash
        self._bounding = _status_mask("CapBnd")
        self._oom_floor = int(Path("/proc/self/oom_score_adj").read_text())

    def folder(self, container_id: str) -> Path:
        return self.root / container_id

    def cgroup(self, config: ContainerConfig) -> str:
        return f"{self._sandboxes.cgroup(config.sandbox_id)}/{config.id}"

    def read(self) -> list[ContainerRecord]:
        """All that had started. One that was being made when an agent died was never reported to
        anyone: it is removed, and will be made again."""
        self.root.mkdir(parents=True, exist_ok=True)
        records = []
        for folder in self.root.iterdir():
            try:
                data = (folder / "record.json").read_bytes()
                records.append(msgspec.json.decode(data, type=ContainerRecord))
            except (OSError, msgspec.DecodeError):
                self._discard(folder.name)
        return records

    def start(
        self,
        config: ContainerConfig,
        sandbox: SandboxRecord,
        image: ImageRecord,
        now: float,
        target: Process | None = None,
    ) -> ContainerRecord:
        """Create and start, in the PID namespace of `target` if there is one.

        Raises SheepError; nothing remains then.
        """
        folder = self.folder(config.id)
        try:
            self._discard(config.id)
            self._prepare(config, sandbox, image, target)
        except (OSError, ValueError) as error:  # a path of the pod's may hold a zero byte
            self._discard(config.id)
            raise SheepError("CreateContainerError", str(error)) from error
        except SheepError:
            self._discard(config.id)
            raise
        try:
            pid, conmon = monitor.launch(self.command, config, folder)
            process, keeper = Process.of(pid), Process.of(conmon)
            self.command.run("start", config.id)
            if process is None or keeper is None:
                raise OciError("the container's process or its monitor ended before it was started")
        except (OciError, OSError, ValueError) as error:
            self._discard(config.id)
            raise SheepError("RunContainerError", str(error)) from error
        record = ContainerRecord(
            config=config, pod_uid=sandbox.config.pod_uid, layers=image.layers,
            created_at=now, started_at=now, process=process, monitor=keeper,
            stop_signal=config.stop_signal or image.defaults.stop_signal,
            shares_pids=bool(sandbox.pause or sandbox.config.host_pid or target),
        )  # fmt: skip
        self._write(record)
        return record

    def resize(self, record: ContainerRecord, resources: Resources) -> ContainerRecord:
        """Change the limits of a running container; its record from now on.

        Raises SheepError: to allow less memory than is used would end it. Raises OSError.
        """
        cgroup, limit = self.cgroup(record.config), resources.memory_bytes
        stats = self._cgroups.stats(cgroup)
        if stats and limit is not None and limit < stats.memory_bytes:
            message = (
                f"attempting to set container memory limit ({limit}) below current usage "
                f"({stats.memory_bytes})"
            )
            raise SheepError("ResizeError", message)
        self._cgroups.limit(cgroup, resources)
        changed = replace(record.config, **asdict(resources))
        record = msgspec.structs.replace(record, config=changed)
        self._write(record)
        return record

    def _write(self, record: ContainerRecord) -> None:
        write_atomically(self.folder(record.id) / "record.json", msgspec.json.encode(record))

    def _prepare(
        self,
        config: ContainerConfig,
        sandbox: SandboxRecord,
        image: ImageRecord,
        target: Process | None,
    ) -> None:
        """Write the bundle and mount its file system."""
        folder = self.folder(config.id)
        for name in ("upper", "work", "rootfs", "exits"):
            (folder / name).mkdir(parents=True)
        rootfs = folder / "rootfs"
        # volatile: nothing of a container's own layer need survive a crash of the machine.
        options = f"{overlay_options(image.layers)},upperdir={folder}/upper,workdir={folder}/work"
        kernel.mount("overlay", rootfs, "overlay", 0, f"{options},volatile")
        around = self._surroundings(config, sandbox, image, rootfs)
        if config.log_path:
            Path(config.log_path).parent.mkdir(parents=True, exist_ok=True)
        if target:
            around.namespaces["pid"] = f"/proc/{target.pid}/ns/pid"
        content = spec.build(config, image.defaults, around)
        (folder / "config.json").write_bytes(msgspec.json.encode(content))

    def _surroundings(
        self, config: ContainerConfig, sandbox: SandboxRecord, image: ImageRecord, rootfs: Path
    ) -> spec.Surroundings:
        user = users.resolve(
            config, image.defaults.user,
            kernel.read_in_root(rootfs, "/etc/passwd"), kernel.read_in_root(rootfs, "/etc/group"),
        )  # fmt: skip
        return spec.Surroundings(
            user=user,
            hostname=sandbox.config.hostname,
            rootfs=str(rootfs),
            cgroup=self.cgroup(config),
            namespaces=self._sandboxes.namespaces(sandbox),
            files=self._sandboxes.files(sandbox.config),
            bounding=self._bounding,
            oom_score_floor=self._oom_floor,
            limits_swap=self._cgroups.limits_swap(self._sandboxes.cgroup(config.sandbox_id)),
            devices=_devices() if config.privileged else (),
            seccomp_profile=_profile(config.seccomp),
        )

    def inspect(self, record: ContainerRecord) -> ContainerInfo:
        """What the disk and the kernel say of a container."""
        folder = self.folder(record.id)
        try:
            exit_file = folder / "exits" / record.id
            exit_code = int(exit_file.read_text())
            finished_at = exit_file.stat().st_mtime
        except (OSError, ValueError):
            return self._without_exit_code(record)
        killed = exit_code == SIGKILL_EXIT_CODE and self._out_of_memory(record)
        reason = "OOMKilled" if killed else "Error" if exit_code else "Completed"
        return _info(
            record, ContainerState.EXITED, reason=reason, exit_code=exit_code,
            finished_at=max(finished_at, record.started_at),
        )  # fmt: skip

    def running(self, record: ContainerRecord) -> ContainerInfo:
        """What is known of a container that has just been started."""
        return _info(record, ContainerState.RUNNING)

    def settle(self, record: ContainerRecord) -> ContainerInfo:
        """Look, and end what outlived the container's own process or its monitor: nobody would
        read its output or learn of its end, and a second copy would run beside it."""
        info = self.inspect(record)
        unwatched = info.state is ContainerState.UNKNOWN
        if unwatched or (record.shares_pids and info.state is ContainerState.EXITED):
            self.kill(record)
        return info

    def _without_exit_code(self, record: ContainerRecord) -> ContainerInfo:
        if record.monitor.lives():
            return _info(record, ContainerState.RUNNING)
        message = (
            "the container's monitor (conmon) ended before the container, which was ended with it; "
            "its exit code is lost"
        )
        return _info(
            record, ContainerState.UNKNOWN, reason="ContainerStatusUnknown", message=message
        )

    def _out_of_memory(self, record: ContainerRecord) -> bool:
        """conmon's mark, or the kernel's counter; kept in the mark for when the cgroup is gone."""
        mark = self.folder(record.id) / "oom"
        if not mark.exists() and self._cgroups.oom_kills(self.cgroup(record.config)):
            mark.touch()
        return mark.exists()

    def kill(self, record: ContainerRecord) -> None:
        """SIGKILL to all of a container's processes."""
        self._cgroups.kill(self.cgroup(record.config))

    def remove(self, record: ContainerRecord) -> None:
        """Forget an ended container, and end what may still run of it."""
        self._cgroups.kill(self.cgroup(record.config))
        self._discard(record.id, self.cgroup(record.config))

    def take_down(self, record: ContainerRecord) -> None:
        """Let an ended container hold nothing in the kernel; its record stays."""
        self._cgroups.kill(self.cgroup(record.config))
        kernel.unmount(self.folder(record.id) / "rootfs")

    def _discard(self, container_id: str, cgroup: str = "") -> None:
        """Remove whatever there is of a container; absent is fine."""
        folder = self.folder(container_id)
        if not folder.exists():
            return
        self.command.delete(container_id)
        if cgroup:
            self._cgroups.remove(cgroup)
        kernel.unmount(folder / "rootfs")
        self._trash.put(folder)

    def exec_spec(self, record: ContainerRecord, command: list[str]) -> dict[str, Any]:
        """The process to run inside: the container's own user, environment and rights."""
        config = json.loads((self.folder(record.id) / "config.json").read_bytes())
        process: dict[str, Any] = config["process"]
        return process | {"args": command, "terminal": False}


def _info(record: ContainerRecord, state: ContainerState, **more: Any) -> ContainerInfo:
    config = record.config
    return ContainerInfo(
        id=config.id, sandbox_id=config.sandbox_id, name=config.name, attempt=config.attempt,
        state=state, image=config.image, image_ref=config.image_ref, kind=config.kind,
        spec_hash=config.spec_hash, created_at=record.created_at, started_at=record.started_at,
        log_path=config.log_path, pid=record.process.pid, resources=config.resources, **more,
    )  # fmt: skip


def _status_mask(field: str) -> int:
    """A capability mask of our own process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1], 16)
    raise AssertionError(field)


def _devices() -> tuple[spec.Device, ...]:
    """The machine's device nodes, for a privileged container."""
    found = []
    for folder, folders, names in os.walk("/dev"):
        folders[:] = [one for one in folders if one not in ("pts", "shm", "mqueue", "fd")]
        for name in names:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                number = os.lstat(path).st_rdev
                kind = "c" if stat.S_ISCHR(mode) else "b"
                found.append(
                    spec.Device(path, kind, os.major(number), os.minor(number), mode & 0o777)
                )
    return tuple(found)


def _profile(seccomp: str) -> dict[str, Any] | None:
    """A profile that the pod names by its path; None for the built-in choices."""
    if seccomp in ("", "Unconfined", "RuntimeDefault"):
        return None
    try:
        profile: dict[str, Any] = json.loads(Path(seccomp).read_bytes())
    except (OSError, ValueError) as error:
        message = f"seccomp profile {seccomp}: {error}"
        raise SheepError("CreateContainerError", message) from error
    return profile
