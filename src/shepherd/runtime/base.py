"""The protocol between agent and runtime.

The truth lives in the runtime and outlives the agent: a new agent asks `sandboxes()` and knows all.
Every call is idempotent by id. Modelled on the CRI (kubernetes/cri-api runtime/v1), narrowed to
what the agent decides with.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Protocol

from shepherd.lib.duplex import SocketDuplex


class SheepError(Exception):
    """The runtime could not do what was asked; the message is for the pod's user.

    `reason` is a Kubernetes container reason: CreateContainerError, RunContainerError,
    ErrImagePull, ErrImageNeverPull, InvalidImageName, CreateContainerConfigError,
    FailedCreatePodSandBox...
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class HostPort:
    host_port: int
    container_port: int
    protocol: str = "TCP"
    host_ip: str = ""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a container, or all of a pod's, may use: what can change while it runs."""

    cpu_millis: int | None = None
    """The limits; None = none."""
    memory_bytes: int | None = None
    cpu_request_millis: int = 0
    memory_request_bytes: int = 0
    """No kernel setting comes of it: kept for adoption."""


UNLIMITED = Resources()


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """A pod's shared surroundings: namespaces, address, cgroup."""

    id: str
    """The pod's UID and the attempt: `<uid>-<attempt>`. The agent names it."""
    pod_uid: str
    pod_name: str
    pod_namespace: str
    hostname: str
    attempt: int = 0
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_pid: bool = False
    host_ports: tuple[HostPort, ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()
    cpu_millis: int | None = None
    """Limits of the pod's cgroup; None = none."""
    memory_bytes: int | None = None
    cpu_request_millis: int = 0
    memory_request_bytes: int = 0
    log_directory: str = ""
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def resources(self) -> Resources:
        return _resources(self)


@dataclass(frozen=True, slots=True)
class Mount:
    source: str
    target: str
    read_only: bool = False
    propagation: str = "rprivate"


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """One container, everything resolved: no references to API objects remain."""

    id: str
    """`<pod uid>-<container name>-<attempt>`. The agent names it."""
    sandbox_id: str
    name: str
    attempt: int
    image: str
    """The image's id as `images.pull` or `images.resolve` gave it."""
    image_ref: str = ""
    """As the user wrote it."""
    command: tuple[str, ...] = ()
    """Replaces the image's entrypoint (and its cmd) when not empty."""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    """Over the image's own."""
    working_dir: str = ""
    mounts: tuple[Mount, ...] = ()
    log_path: str = ""
    """Where the log goes in CRI format, e.g. <log_directory>/<name>/<attempt>.log."""
    kind: str = "main"
    """main, init, sidecar or ephemeral: kept for adoption after an agent restart."""
    pid_of: str = ""
    """Id of a running container whose PID namespace it joins; empty = as its sandbox has it."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    cpu_millis: int | None = None
    cpu_request_millis: int = 0
    memory_bytes: int | None = None
    memory_request_bytes: int = 0
    pids: int | None = None
    oom_score_adj: int = 0
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool = False
    supplemental_groups: tuple[int, ...] = ()
    privileged: bool = False
    read_only_rootfs: bool = False
    no_new_privileges: bool = False
    capabilities_add: tuple[str, ...] = ()
    capabilities_drop: tuple[str, ...] = ()
    seccomp: str = ""
    """Unconfined, RuntimeDefault, or a profile's path; empty = the runtime's default."""
    spec_hash: str = ""
    """What the user asked, hashed and versioned by the agent; kept for adoption."""
    stop_signal: str = ""
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def resources(self) -> Resources:
        return _resources(self)


def _resources(config: SandboxConfig | ContainerConfig) -> Resources:
    return Resources(
        config.cpu_millis,
        config.memory_bytes,
        config.cpu_request_millis,
        config.memory_request_bytes,
    )


class ContainerState(Enum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """A container as the runtime sees it now. Times are epoch seconds, 0 = not yet."""

    id: str
    sandbox_id: str
    name: str
    attempt: int
    state: ContainerState
    image: str
    image_ref: str = ""
    kind: str = "main"
    spec_hash: str = ""
    created_at: float = 0.0
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    reason: str = ""
    """For EXITED: Completed, Error or OOMKilled; for UNKNOWN: why."""
    message: str = ""
    log_path: str = ""
    pid: int = 0
    resources: Resources = UNLIMITED
    """What it was given last, when it started or since."""


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A sandbox and all its containers, exited ones that were not removed included."""

    id: str
    pod_uid: str
    pod_name: str
    pod_namespace: str
    attempt: int
    ready: bool
    """Its namespaces stand. Not ready means: make a new one (attempt + 1)."""
    addresses: tuple[str, ...] = ()
    """The pod's own addresses; empty with hostNetwork."""
    created_at: float = 0.0
    resources: Resources = UNLIMITED
    containers: tuple[ContainerInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecResult:
    exit_code: int
    output: bytes
    """Standard output and error together, the last 10 KiB."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Resource use of a sandbox or container."""

    cpu_nanos: int
    """CPU time used since its start."""
    memory_bytes: int
    """The working set."""


@dataclass(frozen=True, slots=True)
class ImageInfo:
    id: str
    """The digest of its config: `sha256:...`."""
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    """`repository@sha256:...` of manifests by which it was pulled."""
    size_bytes: int
    user: str = ""
    stop_signal: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """What `describe` says of itself, for the Node's status."""

    name: str
    """`crun`, `runc`, `hollow`."""
    version: str
    cgroup: str
    """`v1`, `hybrid`, `v2`, or empty."""
    problems: tuple[str, ...] = ()
    """What was probed and does not work, one line each with its cure."""
    simulated: bool = False
    """Nothing real listens at its pods' addresses: the agent asks `exec` in place of the network,
    with a probe as the command: `["http-get", url]`, `["tcp-connect", "host:port"]`."""


Credentials = list[tuple[str, str]]
"""(user, password) pairs to try, in order."""
ImageList = list[ImageInfo]


class Images(Protocol):
    """The node's images."""

    async def resolve(self, reference: str) -> ImageInfo | None:
        """A present image by reference (docker.io and :latest understood) or by id."""
        ...

    async def pull(
        self, reference: str, *, credentials: Credentials | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> ImageInfo:  # fmt: skip
        """Fetch from its registry. Raises SheepError (ErrImagePull, InvalidImageName)."""
        ...

    async def load(self, path: str) -> ImageList:
        """Import an archive: docker-archive or OCI layout tar, plain or compressed."""
        ...

    async def list(self) -> ImageList: ...

    async def remove(self, image_id: str) -> None:
        """Forget an image; layers that nothing uses any more go too."""
        ...


OutputName = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class Stdio:
    """Which standard streams are wanted. With `tty` they are one terminal, read as stdout."""

    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


class Process(Protocol):
    """What runs inside a container, and the standard streams of it that were asked for."""

    async def receive(self) -> tuple[OutputName, bytes] | None:
        """The next output; None when no more can come."""
        ...

    async def write(self, data: bytes) -> None:
        """To its input, waiting while it does not read. Raises BrokenPipeError if it never will."""
        ...

    async def end_input(self) -> None:
        """Nothing more follows: it reads an end of file."""
        ...

    def resize(self, width: int, height: int) -> None:
        """Its terminal has another size now."""
        ...

    async def wait(self) -> int:
        """Its exit code (127: there is no such program; 126: it cannot be run)."""
        ...


class Runtime(Protocol):
    """Runs pods' containers. All calls may be made at the same time, for different pods."""

    images: Images

    async def start(self) -> None:
        """Get ready: probe, adopt what runs. Raises SheepError if nothing can run here."""
        ...

    async def close(self, *, remove: bool = False) -> None:
        """Let go; containers go on running.

        `remove`: they have all been stopped, so that what stands for them in the kernel (mounts,
        namespaces, network) is taken down. The next `start` finds them as after a reboot.
        """
        ...

    def describe(self) -> RuntimeInfo: ...

    async def configure_network(self, pod_cidr: str) -> None:
        """Give the pods of this node addresses out of `pod_cidr` (the Node's spec.podCIDR).

        Called after `start`, before the first sandbox with a network of its own; the same range
        again changes nothing, and sandboxes that stand keep their addresses.
        """
        ...

    async def sandboxes(self) -> list[SandboxInfo]:
        """Everything this runtime holds."""
        ...

    async def sandbox(self, sandbox_id: str) -> SandboxInfo | None: ...

    async def run_sandbox(self, config: SandboxConfig) -> SandboxInfo: ...

    async def resize_sandbox(self, sandbox_id: str, resources: Resources) -> None:
        """Change what all containers of the pod may use together. Raises SheepError."""
        ...

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Kill and remove its containers, give back its address, remove it. Absent is fine."""
        ...

    async def start_container(self, config: ContainerConfig) -> ContainerInfo:
        """Create and start. If the id is there already, return it as it is."""
        ...

    async def resize_container(self, container_id: str, resources: Resources) -> None:
        """Change what a running container may use, without a restart.

        Raises SheepError, among others where it uses more memory than it would be allowed.
        """
        ...

    async def stop_container(self, container_id: str, grace_seconds: float) -> None:
        """Its stop signal, then SIGKILL after the grace; returns when it has ended."""
        ...

    async def remove_container(self, container_id: str) -> None:
        """Forget an ended container (its log file stays)."""
        ...

    async def exec(
        self, container_id: str, command: list[str], *, timeout_seconds: float
    ) -> ExecResult:
        """Run a command inside; on time-out kill its process group and raise TimeoutError."""
        ...

    def open_exec(
        self, container_id: str, command: list[str], stdio: Stdio
    ) -> AbstractAsyncContextManager[Process]:
        """Run a command inside for as long as the context lasts; what then still runs of it is
        killed. Entering raises SheepError."""
        ...

    def attach(self, container_id: str, stdio: Stdio) -> AbstractAsyncContextManager[Process]:
        """The container's own process, from now on; leaving the context lets go of it. `wait`
        gives 0. Entering raises SheepError."""
        ...

    async def dial(self, sandbox_id: str, port: int) -> SocketDuplex:
        """Connect to a port of the pod's own localhost. Raises SheepError, OSError."""
        ...

    async def stats(self, sandbox_id: str) -> dict[str, Stats]:
        """By container id."""
        ...

    async def reopen_log(self, container_id: str) -> None:
        """After its log file was renamed: begin a new one at `log_path`."""
        ...

    def changes(self) -> AsyncGenerator[str, None]:
        """The pod UIDs of which a container changed its state, as it happens."""
        ...


@dataclass(frozen=True, slots=True)
class Backend:
    """An endpoint of a service port."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class ServiceRule:
    """One service port as the node must serve it."""

    name: str
    """`namespace/service:port`, for reading."""
    addresses: tuple[str, ...]
    """Cluster and external addresses."""
    port: int
    protocol: str
    backends: tuple[Backend, ...]
    node_port: int = 0
    affinity_seconds: int = 0
    """0 = spread each connection; else the same client keeps its backend."""


class Dataplane(Protocol):
    """Makes service addresses work on a node."""

    async def start(self) -> None: ...

    async def apply(self, rules: list[ServiceRule]) -> None:
        """Serve exactly these rules; changes only what differs, in one transaction."""
        ...

    async def close(self, *, remove: bool) -> None:
        """Let go; the rules stay unless `remove`."""
        ...
