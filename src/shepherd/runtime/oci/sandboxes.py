"""Sandboxes on disk: `sandboxes/<id>/` holds the record, the pinned namespaces and the files that
each container of the pod sees in its /etc. Blocking; called in workers."""

import contextlib
import shutil
from dataclasses import asdict, dataclass, replace
from ipaddress import IPv4Interface
from pathlib import Path

import msgspec

from shepherd.runtime.base import Mount, Resources, SandboxConfig, SheepError
from shepherd.runtime.oci import kernel, network, pause
from shepherd.runtime.oci.cgroups import Cgroups
from shepherd.runtime.oci.images import write_atomically
from shepherd.runtime.oci.kernel import Process
from shepherd.runtime.oci.monitor import OciCommand, OciError
from shepherd.runtime.oci.network import Attachment, Subnet

SHM_BYTES = 64 << 20

_HOSTS = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
{address}\t{hostname}
"""


class SandboxRecord(msgspec.Struct, frozen=True):
    """A sandbox as it is on disk."""

    config: SandboxConfig
    created_at: float
    address: str = ""
    pause: Process | None = None
    """Process 1 of the PID namespace that its containers share, if they do."""

    @property
    def id(self) -> str:
        return self.config.id


@dataclass(frozen=True, slots=True)
class Plug:
    """The bridge and range that a sandbox with a network of its own is plugged into."""

    bridge: str
    subnet: Subnet

    def attachment(self, record: SandboxRecord) -> Attachment:
        length = self.subnet.network.prefixlen
        return Attachment(
            self.bridge, network.link_name(self.bridge, record.id),
            IPv4Interface(f"{record.address}/{length}"), self.subnet.gateway.ip,
        )  # fmt: skip


def namespace_kinds(config: SandboxConfig) -> tuple[str, ...]:
    """The namespaces that a sandbox has for itself. With the node's network goes its host name."""
    kinds = () if config.host_network else ("net", "uts")
    return kinds if config.host_ipc else (*kinds, "ipc")


class SandboxStore:
    def __init__(self, root: Path, instance: str, cgroups: Cgroups, command: OciCommand) -> None:
        self.root = root
        self._command = command
        self._instance = instance
        self._cgroups = cgroups

    def folder(self, sandbox_id: str) -> Path:
        return self.root / sandbox_id

    def cgroup(self, sandbox_id: str) -> str:
        return f"/{self._instance}/{sandbox_id}"

    def read(self) -> list[SandboxRecord]:
        """All that are whole; what was left half made is removed."""
        self.root.mkdir(parents=True, exist_ok=True)
        records = []
        for folder in self.root.iterdir():
            try:
                data = (folder / "record.json").read_bytes()
                records.append(msgspec.json.decode(data, type=SandboxRecord))
            except (OSError, msgspec.DecodeError):
                self.remove(folder.name)
        return records

    def create(self, record: SandboxRecord, plug: Plug | None) -> SandboxRecord:
        """Make the sandbox; its record, completed.

        Raises SheepError (FailedCreatePodSandBox); nothing remains then.
        """
        config = record.config
        folder = self.folder(record.id)
        try:
            self.remove(record.id)
            folder.mkdir(parents=True)
            self._cgroups.prepare(self.cgroup(record.id), config.resources)
            _write_files(folder, record)
            if not config.host_ipc:
                (folder / "shm").mkdir()
                flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
                kernel.mount("shm", folder / "shm", "tmpfs", flags, f"mode=1777,size={SHM_BYTES}")
            attachment = plug.attachment(record) if plug else None
            network.pin(
                folder, namespace_kinds(config), config.hostname, config.sysctls, attachment
            )
            if config.share_pid and not config.host_pid:
                record = msgspec.structs.replace(record, pause=self._start_pause(config))
            self._write(record)
            return record
        except (OSError, OciError, ValueError) as error:  # a sysctl may hold a zero byte
            self.remove(record.id)
            message = f"sandbox of {config.pod_namespace}/{config.pod_name}: {error}"
            raise SheepError("FailedCreatePodSandBox", message) from error

    def resize(self, record: SandboxRecord, resources: Resources) -> SandboxRecord:
        """Change its limits; its record from now on. Raises OSError."""
        self._cgroups.limit(self.cgroup(record.id), resources)
        changed = replace(record.config, **asdict(resources))
        record = msgspec.structs.replace(record, config=changed)
        self._write(record)
        return record

    def _write(self, record: SandboxRecord) -> None:
        write_atomically(self.folder(record.id) / "record.json", msgspec.json.encode(record))

    def _start_pause(self, config: SandboxConfig) -> Process:
        """Start the init of the pod's own PID namespace. Raises OciError, OSError."""
        bundle = self.folder(config.id) / "pause"
        pid_file = bundle / "pid"
        joined = {**self._pinned(config), "pid": ""}
        pause.write_bundle(bundle, f"{self.cgroup(config.id)}/pause", joined)
        name = _pause_name(config.id)
        self._command.run("create", "--bundle", str(bundle), "--pid-file", str(pid_file), name)
        self._command.run("start", name)
        process = Process.of(int(pid_file.read_text()))
        if process is None:
            raise OciError("the process that holds the pod's PID namespace ended at once")
        return process

    def is_ready(self, record: SandboxRecord) -> bool:
        """Whether all its namespaces stand."""
        folder = self.folder(record.id)
        if record.pause is not None and not record.pause.lives():
            return False
        return all(network.is_pinned(folder / kind) for kind in namespace_kinds(record.config))

    def remove(self, sandbox_id: str) -> None:
        """Let go of all; its containers are gone by now. Absent is fine."""
        self.take_down(sandbox_id)
        shutil.rmtree(self.folder(sandbox_id), ignore_errors=True)

    def take_down(self, sandbox_id: str) -> None:
        """Let it hold nothing in the kernel; its record stays."""
        folder = self.folder(sandbox_id)
        if (folder / "pause").exists():
            self._cgroups.kill(f"{self.cgroup(sandbox_id)}/pause")
            self._command.delete(_pause_name(sandbox_id))
        network.unpin(folder)
        kernel.unmount(folder / "shm")
        self._cgroups.remove(self.cgroup(sandbox_id))

    def _pinned(self, config: SandboxConfig) -> dict[str, str]:
        names = {"net": "network", "ipc": "ipc", "uts": "uts"}
        folder = self.folder(config.id)
        return {names[kind]: str(folder / kind) for kind in namespace_kinds(config)}

    def namespaces(self, record: SandboxRecord) -> dict[str, str]:
        """What its containers join, in OCI terms; an empty path is a new one for each."""
        joined = {**self._pinned(record.config), "mount": ""}
        if record.pause is not None:
            joined["pid"] = f"/proc/{record.pause.pid}/ns/pid"
        elif not record.config.host_pid:
            joined["pid"] = ""
        if self._cgroups.unified:
            joined["cgroup"] = ""
        return joined

    def files(self, config: SandboxConfig) -> tuple[Mount, ...]:
        """What its containers see in common."""
        folder = self.folder(config.id)
        shm = "/dev/shm" if config.host_ipc else str(folder / "shm")
        etc = (Mount(str(folder / name), f"/etc/{name}") for name in _ETC)
        return (*etc, Mount(shm, "/dev/shm"))


def _pause_name(sandbox_id: str) -> str:
    return f"pause-{sandbox_id}"


_ETC = ("hosts", "hostname", "resolv.conf")


def _write_files(folder: Path, record: SandboxRecord) -> None:
    config = record.config
    resolver = ""
    with contextlib.suppress(FileNotFoundError):
        resolver = Path("/etc/resolv.conf").read_text()
    if config.host_network:
        hosts = Path("/etc/hosts").read_text() if Path("/etc/hosts").exists() else ""
    else:
        hosts = _HOSTS.format(address=record.address, hostname=config.hostname)
    texts = {"hosts": hosts, "hostname": f"{config.hostname}\n", "resolv.conf": resolver}
    for name, text in texts.items():
        (folder / name).write_text(text)
