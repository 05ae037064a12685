"""The hollow runtime: containers that exist in memory only, for tests and for scale.

Everything the agent sees is as with real containers: start-up takes time, scripts end with an exit
code, lines reach the log, stops respect the grace. A pod directs it by its command (see `script`)
or by annotations, which come first:

    shepherd.dev/hollow-script         "sleep 5; echo done; exit 1", whatever the command says
    shepherd.dev/hollow-start-seconds  how long a container takes to start
    shepherd.dev/hollow-start-error    starting fails with this message
    shepherd.dev/hollow-ready-seconds  how long after its start probes fail
    shepherd.dev/hollow-stop-seconds   how long it runs on after the stop signal
    shepherd.dev/hollow-cpu            what each container uses, as a quantity: "250m"; else 1m
    shepherd.dev/hollow-memory         "64Mi"; else 1Mi

Images are never fetched: pulling any reference gives one, except under the reserved top-level
domain `.invalid` (RFC 6761), which fails.
"""

import asyncio
import hashlib
import heapq
import json
import re
import tarfile
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from random import Random

from shepherd.api.quantity import Quantity, QuantityError, parse_quantity
from shepherd.lib.clock import Clock
from shepherd.lib.duplex import SocketDuplex
from shepherd.lib.tasks import wait_at_most
from shepherd.runtime.base import (
    ContainerConfig,
    ContainerInfo,
    ContainerState,
    Credentials,
    ExecResult,
    ImageInfo,
    ImageList,
    Images,
    Process,
    Resources,
    RuntimeInfo,
    SandboxConfig,
    SandboxInfo,
    ServiceRule,
    SheepError,
    Stats,
    Stdio,
)
from shepherd.runtime.script import FOREVER, Outcome, ScriptedProcess, foresee, foresee_script

ANNOTATION = "shepherd.dev/hollow-"
_TERMINATED, _KILLED = 143, 137  # 128 + SIGTERM, 128 + SIGKILL
_REFERENCE = re.compile(r"[a-z0-9][\w.:/-]*(@sha256:[0-9a-f]{64})?", re.ASCII)


@dataclass(slots=True)
class _Container:
    info: ContainerInfo
    outcome: Outcome
    written: int = 0
    """How many of the outcome's lines are in the log."""

    def next_step(self) -> float:
        """When it next writes a line or ends, in epoch seconds."""
        lines = self.outcome.lines
        after = lines[self.written][0] if self.written < len(lines) else self.outcome.seconds
        return self.info.started_at + after


@dataclass(slots=True)
class _Sandbox:
    config: SandboxConfig
    info: SandboxInfo
    containers: dict[str, _Container]

    def snapshot(self) -> SandboxInfo:
        return replace(self.info, containers=tuple(c.info for c in self.containers.values()))

    def directive(self, name: str) -> str:
        return self.config.annotations.get(ANNOTATION + name, "")

    def amount(self, name: str, default: str) -> Quantity:
        """A directive that is a quantity; one that is none counts as not given."""
        try:
            return parse_quantity(self.directive(name) or default)
        except QuantityError:
            return parse_quantity(default)


class HollowRuntime:
    """A `Runtime` in memory. What it holds outlives `close`, as containers outlive an agent.

    `start_seconds` is the range from which the time to start a container is drawn.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        random: Random,
        start_seconds: tuple[float, float] = (0.01, 0.05),
    ) -> None:
        self.images: Images = HollowImages()
        self._clock = clock
        self._random = random
        self._start_seconds = start_seconds
        self._pod_cidr = ""
        self._free: deque[str] = deque()
        self._sandboxes: dict[str, _Sandbox] = {}
        self._containers: dict[str, _Container] = {}
        self._steps: list[tuple[float, str]] = []  # heap: when a container next does something
        self._watchers: list[_Watcher] = []

    async def start(self) -> None:
        pass

    async def close(self, *, remove: bool = False) -> None:
        pass

    def describe(self) -> RuntimeInfo:
        return RuntimeInfo(name="hollow", version="1", cgroup="", simulated=True)

    async def configure_network(self, pod_cidr: str) -> None:
        if pod_cidr == self._pod_cidr:
            return
        self._pod_cidr = pod_cidr
        hosts = (str(host) for host in ip_network(pod_cidr).hosts())
        next(hosts)  # the first address is the bridge's
        taken = {a for sandbox in self._sandboxes.values() for a in sandbox.info.addresses}
        self._free = deque(host for host in hosts if host not in taken)

    async def sandboxes(self) -> list[SandboxInfo]:
        self._settle()
        return [sandbox.snapshot() for sandbox in self._sandboxes.values()]

    async def sandbox(self, sandbox_id: str) -> SandboxInfo | None:
        self._settle()
        sandbox = self._sandboxes.get(sandbox_id)
        return sandbox.snapshot() if sandbox else None

    async def run_sandbox(self, config: SandboxConfig) -> SandboxInfo:
        sandbox = self._sandboxes.get(config.id)
        if sandbox is None:
            info = SandboxInfo(
                id=config.id,
                pod_uid=config.pod_uid,
                pod_name=config.pod_name,
                pod_namespace=config.pod_namespace,
                attempt=config.attempt,
                ready=True,
                addresses=() if config.host_network else (self._address(),),
                created_at=self._clock.now(),
                resources=config.resources,
            )
            sandbox = self._sandboxes[config.id] = _Sandbox(config, info, {})
        return sandbox.snapshot()

    async def resize_sandbox(self, sandbox_id: str, resources: Resources) -> None:
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            raise SheepError("SandboxNotFound", f"no sandbox {sandbox_id}")
        sandbox.info = replace(sandbox.info, resources=resources)

    def _address(self) -> str:
        if not self._free:
            message = f"no address is left in the node's pod range {self._pod_cidr}"
            raise SheepError("FailedCreatePodSandBox", message)
        return self._free.popleft()

    async def remove_sandbox(self, sandbox_id: str) -> None:
        sandbox = self._sandboxes.pop(sandbox_id, None)
        if sandbox is None:
            return
        for container_id in sandbox.containers:
            del self._containers[container_id]
        self._free.extend(sandbox.info.addresses)  # last in line: not used again at once
        self._announce(sandbox.info.pod_uid)

    async def start_container(self, config: ContainerConfig) -> ContainerInfo:
        sandbox = self._sandboxes.get(config.sandbox_id)
        if sandbox is None:
            raise SheepError("CreateContainerError", f"no sandbox {config.sandbox_id}")
        if config.id in self._containers:
            self._settle()
            return self._containers[config.id].info
        image = await self.images.resolve(config.image)
        if image is None:
            raise SheepError("CreateContainerError", f"no image {config.image}")
        container = self._create(sandbox, config)
        delay = sandbox.directive("start-seconds") or self._random.uniform(*self._start_seconds)
        await self._clock.sleep(float(delay))
        if config.id not in self._containers:
            raise SheepError("RunContainerError", "its sandbox was removed")
        if failure := sandbox.directive("start-error"):
            del self._containers[config.id], sandbox.containers[config.id]
            raise SheepError("RunContainerError", failure)
        now = self._clock.now()
        container.info = replace(container.info, state=ContainerState.RUNNING, started_at=now)
        self._await_step(container)
        self._announce(sandbox.info.pod_uid)
        self._settle()
        return container.info

    def _create(self, sandbox: _Sandbox, config: ContainerConfig) -> _Container:
        script = sandbox.directive("script")
        command = (*config.command, *config.args)
        info = ContainerInfo(
            id=config.id,
            sandbox_id=config.sandbox_id,
            name=config.name,
            attempt=config.attempt,
            state=ContainerState.CREATED,
            image=config.image,
            image_ref=config.image_ref,
            kind=config.kind,
            spec_hash=config.spec_hash,
            created_at=self._clock.now(),
            log_path=config.log_path,
            resources=config.resources,
        )
        container = _Container(info, foresee_script(script) if script else foresee(command))
        self._containers[config.id] = sandbox.containers[config.id] = container
        return container

    async def resize_container(self, container_id: str, resources: Resources) -> None:
        container = self._running(container_id)
        container.info = replace(container.info, resources=resources)

    def _running(self, container_id: str) -> _Container:
        """Raises SheepError."""
        self._settle()
        container = self._containers.get(container_id)
        if container is None or container.info.state is not ContainerState.RUNNING:
            raise SheepError("ContainerNotRunning", f"container {container_id} does not run")
        return container

    async def stop_container(self, container_id: str, grace_seconds: float) -> None:
        self._settle()
        container = self._containers.get(container_id)
        if container is None or container.info.state is not ContainerState.RUNNING:
            return
        sandbox = self._sandboxes[container.info.sandbox_id]
        needed = float(sandbox.directive("stop-seconds") or 0.0)
        await self._clock.sleep(min(needed, grace_seconds))
        self._settle()
        if container.info.state is ContainerState.RUNNING:
            self._end(container, _TERMINATED if needed <= grace_seconds else _KILLED)

    async def remove_container(self, container_id: str) -> None:
        container = self._containers.pop(container_id, None)
        if container is not None:
            del self._sandboxes[container.info.sandbox_id].containers[container_id]

    async def exec(
        self, container_id: str, command: list[str], *, timeout_seconds: float
    ) -> ExecResult:
        container = self._running(container_id)
        outcome = foresee(command)
        if outcome.seconds == FOREVER:  # not a script: what a probe would run
            outcome = Outcome((), 0.0, 0)
        if outcome.seconds > timeout_seconds:
            await self._clock.sleep(timeout_seconds)
            raise TimeoutError(f"{command} did not end within {timeout_seconds:g} s")
        await self._clock.sleep(outcome.seconds)
        ready_after = self._sandboxes[container.info.sandbox_id].directive("ready-seconds")
        if self._clock.now() < container.info.started_at + float(ready_after or 0.0):
            return ExecResult(1, b"not ready yet\n")
        output = "".join(f"{line}\n" for _, line in outcome.lines)
        return ExecResult(outcome.exit_code, output.encode()[-10 * 1024 :])

    @asynccontextmanager
    async def open_exec(
        self, container_id: str, command: list[str], stdio: Stdio
    ) -> AsyncIterator[Process]:
        self._running(container_id)
        yield ScriptedProcess(command, self._clock)

    @asynccontextmanager
    async def attach(self, container_id: str, stdio: Stdio) -> AsyncIterator[Process]:
        raise SheepError("AttachError", "a simulated container has no streams to attach to")
        yield

    async def dial(self, sandbox_id: str, port: int) -> SocketDuplex:
        raise ConnectionRefusedError("nothing listens in a simulated pod")

    async def stats(self, sandbox_id: str) -> dict[str, Stats]:
        self._settle()
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            return {}
        nanocores, memory = sandbox.amount("cpu", "1m").nano, sandbox.amount("memory", "1Mi").value
        now = self._clock.now()
        return {
            one.info.id: Stats(int((now - one.info.started_at) * nanocores), memory)
            for one in sandbox.containers.values()
            if one.info.state is ContainerState.RUNNING
        }

    async def reopen_log(self, container_id: str) -> None:
        pass  # every line opens its log anew

    async def changes(self) -> AsyncGenerator[str, None]:
        watcher = _Watcher()
        self._watchers.append(watcher)
        try:
            while True:
                self._settle()
                while watcher.pods:
                    yield watcher.take()
                due = self._steps[0][0] - self._clock.now() if self._steps else None
                await wait_at_most(watcher.wake, due, self._clock)
        finally:
            self._watchers.remove(watcher)

    def _settle(self) -> None:
        """Let everything happen that was due by now."""
        now = self._clock.now()
        while self._steps and self._steps[0][0] <= now:
            _, container_id = heapq.heappop(self._steps)
            container = self._containers.get(container_id)
            if container is None or container.info.state is not ContainerState.RUNNING:
                continue
            if container.written < len(container.outcome.lines):
                self._write_line(container)
                self._await_step(container)
            else:
                self._end(container, container.outcome.exit_code)

    def _await_step(self, container: _Container) -> None:
        if container.next_step() != FOREVER:
            heapq.heappush(self._steps, (container.next_step(), container.info.id))

    def _end(self, container: _Container, exit_code: int) -> None:
        ended = min(self._clock.now(), container.info.started_at + container.outcome.seconds)
        container.info = replace(
            container.info,
            state=ContainerState.EXITED,
            finished_at=ended,
            exit_code=exit_code,
            reason="Completed" if exit_code == 0 else "Error",
        )
        self._announce(self._sandboxes[container.info.sandbox_id].info.pod_uid)

    def _write_line(self, container: _Container) -> None:
        """Append the next line to the container's log in CRI format."""
        after, line = container.outcome.lines[container.written]
        container.written += 1
        if container.info.log_path:
            at = datetime.fromtimestamp(container.info.started_at + after, UTC)
            path = Path(container.info.log_path)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as log:
                log.write(f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z stdout F {line}\n")

    def _announce(self, pod_uid: str) -> None:
        for watcher in self._watchers:
            watcher.tell(pod_uid)


class _Watcher:
    """The pods that changed since a reader of `changes` last looked, each once."""

    def __init__(self) -> None:
        self.pods: dict[str, None] = {}
        self.wake = asyncio.Event()

    def tell(self, pod_uid: str) -> None:
        self.pods[pod_uid] = None
        self.wake.set()

    def take(self) -> str:
        pod_uid = next(iter(self.pods))
        del self.pods[pod_uid]
        self.wake.clear()
        return pod_uid


class HollowImages:
    """Images that have a name and an id, and no content."""

    def __init__(self) -> None:
        self._images: dict[str, ImageInfo] = {}

    async def resolve(self, reference: str) -> ImageInfo | None:
        tag = _normal(reference)
        for image in self._images.values():
            if reference == image.id or tag in image.tags:
                return image
        return None

    async def pull(
        self,
        reference: str,
        *,
        credentials: Credentials | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> ImageInfo:
        if not _REFERENCE.fullmatch(reference):
            raise SheepError("InvalidImageName", f'couldn\'t parse image name "{reference}"')
        if reference.split("/")[0].split(":")[0].endswith(".invalid"):
            raise SheepError("ErrImagePull", f"no such host: {reference.split('/')[0]}")
        return self._add((_normal(reference),))

    async def load(self, path: str) -> ImageList:
        return [self._add(tags) for tags in await asyncio.to_thread(_archive_tags, path)]

    async def list(self) -> ImageList:
        return list(self._images.values())

    async def remove(self, image_id: str) -> None:
        self._images.pop(image_id, None)

    def _add(self, tags: tuple[str, ...]) -> ImageInfo:
        digest = "sha256:" + hashlib.sha256(" ".join(tags).encode()).hexdigest()
        digests = tuple(f"{tag.rsplit(':', 1)[0]}@{digest}" for tag in tags)
        image = ImageInfo(digest, tags, digests, size_bytes=1024)
        self._images[image.id] = image
        return image


def _normal(reference: str) -> str:
    """The full name: registry first and a tag last, as Docker fills them in."""
    head, slash, _ = reference.partition("/")
    if not slash:
        reference = f"docker.io/library/{reference}"
    elif not ({".", ":"} & set(head)) and head != "localhost":
        reference = f"docker.io/{reference}"
    last = reference.rsplit("/", 1)[-1]
    return reference if ":" in last or "@" in last else f"{reference}:latest"


def _archive_tags(path: str) -> list[tuple[str, ...]]:
    """The names of the images in an archive."""
    try:
        with tarfile.open(path) as archive:
            names = archive.getnames()
            index = "manifest.json" if "manifest.json" in names else "index.json"
            member = archive.extractfile(index)
            content = json.load(member) if member else {}
    except (OSError, KeyError, ValueError, tarfile.TarError) as error:
        raise SheepError("ErrImagePull", f"{path} is no image archive: {error}") from error
    if index == "manifest.json":
        return [tuple(_normal(tag) for tag in image["RepoTags"]) for image in content]
    annotations = [manifest.get("annotations", {}) for manifest in content["manifests"]]
    return [(_normal(a["org.opencontainers.image.ref.name"]),) for a in annotations]


class NullDataplane:
    """A `Dataplane` that only remembers the rules it was given."""

    def __init__(self) -> None:
        self.rules: list[ServiceRule] = []

    async def start(self) -> None:
        pass

    async def apply(self, rules: list[ServiceRule]) -> None:
        self.rules = list(rules)

    async def close(self, *, remove: bool) -> None:
        if remove:
            self.rules = []
