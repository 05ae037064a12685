"""`base.Runtime` for real containers: what the agent calls. Decides on the event loop, acts in
workers; all it knows is on disk, and read again by the next agent."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from shepherd.lib.clock import Clock
from shepherd.lib.duplex import SocketDuplex
from shepherd.runtime.base import (
    ContainerConfig,
    ContainerInfo,
    ContainerState,
    ExecResult,
    Images,
    Process,
    Resources,
    RuntimeInfo,
    SandboxConfig,
    SandboxInfo,
    SheepError,
    Stats,
    Stdio,
)
from shepherd.runtime.oci import hostports, kernel, monitor, network
from shepherd.runtime.oci.cgroups import Cgroups
from shepherd.runtime.oci.changes import Changes
from shepherd.runtime.oci.containers import ContainerRecord, ContainerStore
from shepherd.runtime.oci.execution import execute
from shepherd.runtime.oci.held import HeldContainer, HeldSandbox, signal_number
from shepherd.runtime.oci.images import ImageStore
from shepherd.runtime.oci.monitor import OciCommand
from shepherd.runtime.oci.network import NetworkConfig
from shepherd.runtime.oci.nft import Nft, NftError
from shepherd.runtime.oci.probe import Probed, probe
from shepherd.runtime.oci.registries import Registries
from shepherd.runtime.oci.sandboxes import Plug, SandboxRecord, SandboxStore, namespace_kinds
from shepherd.runtime.oci.streaming import AttachedContainer, ExecProcess, dial
from shepherd.runtime.oci.trash import Trash
from shepherd.runtime.oci.workers import Workers, prepare_mounts

START_WORKERS = 4
"""More starts at once gain nothing on any machine measured, and each gets slower."""
IMAGE_WORKERS = 2
KILL_SECONDS = 10.0
"""How long the kernel and conmon may take to end a killed container."""

T = TypeVar("T")
_log = logging.getLogger("shepherd.runtime")


class OciRuntime:
    """Sheep. `root` holds its state on disk; `instance` names what it owns in the kernel."""

    def __init__(
        self, root: Path, *, network: NetworkConfig, clock: Clock, instance: str,
        registries: Registries | None = None,
    ) -> None:  # fmt: skip
        self.root = root = root.resolve()
        self._network = network
        self._clock = clock
        self._instance = instance
        self._nft = Nft()
        self._trash = Trash(root / "trash")
        self._volatile = root / "run"
        """A tmpfs: what means nothing any more after a reboot."""
        shadow = self._volatile / "unified"
        self._cgroups = Cgroups(shadow)
        self._command = OciCommand(self._volatile / "oci")
        self._probed = Probed("", "")
        self._plug: Plug | None = None
        self._last_address = ""
        self._changes = Changes()
        self._held: dict[str, HeldSandbox] = {}
        self._reserved: dict[str, str] = {}
        """Addresses of sandboxes that are being made or removed, by sandbox id."""
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        """Changes under way, by what they do to whom."""
        self._watches: set[asyncio.Task[None]] = set()
        """One for each running container."""
        layers = root / "images" / "layers"
        self._workers = Workers(START_WORKERS, "sheep", directory=layers, shadow=shadow)
        self._image_workers = Workers(
            IMAGE_WORKERS, "sheep-images", directory=layers, shadow=shadow
        )
        self._images = ImageStore(
            root / "images", self._image_workers, registries or Registries(), self._layers_in_use
        )
        self.images: Images = self._images
        self._sandboxes = SandboxStore(root / "sandboxes", instance, self._cgroups, self._command)
        self._containers = ContainerStore(
            root / "containers", self._command, self._sandboxes, self._cgroups, self._trash
        )

    async def start(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        try:
            prepare_mounts(self._volatile)  # at once: a cancelled start leaves all of it or nothing
            self._cgroups.shadow.mkdir(exist_ok=True)
        except OSError as error:
            message = f"cannot mount in {self.root} (containers need root): {error}"
            raise SheepError("RuntimeNotReady", message) from error
        self._probed = await self._workers.run(
            probe, self.root, self._command.state, f"/{self._instance}"
        )
        self._command.binary = self._probed.binary
        await self._workers.run(self._adopt)
        await self._image_workers.run(self._images.open)
        self._sweep()
        for sandbox in self._held.values():
            for container in sandbox.containers.values():
                self._watch(container)
        if self._network.pod_cidr:
            await self.configure_network(self._network.pod_cidr)

    def _adopt(self) -> None:
        """Read what earlier agents left."""
        for record in self._sandboxes.read():
            ready = self._sandboxes.is_ready(record)
            self._held[record.id] = HeldSandbox(record, ready)
        for container in self._containers.read():
            sandbox = self._held.get(container.config.sandbox_id)
            if sandbox is None:
                self._containers.remove(container)
            else:
                info = self._containers.settle(container)
                sandbox.containers[container.id] = HeldContainer(container, info)

    async def close(self, *, remove: bool = False) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, *self._tasks.values(), return_exceptions=True)
        if remove:
            await self._workers.run(self._take_down)
        await self._workers.close()
        await self._image_workers.close()
        self._nft.close()
        if remove:
            await asyncio.to_thread(kernel.unmount, self._volatile)

    def _take_down(self) -> None:
        for sandbox in self._held.values():
            for container in sandbox.containers.values():
                self._containers.take_down(container.record)
            self._sandboxes.take_down(sandbox.record.id)
        self._cgroups.remove(f"/{self._instance}")
        if self._plug is not None:
            network.remove_bridge(self._plug.bridge)
            self._nft.run(hostports.removal(self._instance))

    def describe(self) -> RuntimeInfo:
        return RuntimeInfo(
            name=Path(self._probed.binary).name,
            version=self._probed.version,
            cgroup=self._cgroups.mode,
            problems=self._probed.problems,
        )

    async def configure_network(self, pod_cidr: str) -> None:
        """Raises SheepError for a range that is none, or that the kernel refuses."""
        config, subnet = network.with_pod_cidr(self._network, pod_cidr)
        plug = Plug(config.bridge, subnet)
        if plug == self._plug:
            return
        await self._workers.run(self._prepare_network, config, plug)
        self._network, self._plug = config, plug

    def _prepare_network(self, config: NetworkConfig, plug: Plug) -> None:
        try:
            network.prepare_bridge(config, plug.subnet)
            script = [hostports.base(self._instance, config)]
            script += [self._host_ports("add", one.record) for one in self._held.values()]
            self._nft.run("\n".join(script))
        except (OSError, NftError) as error:
            raise SheepError(
                "NetworkNotReady", f"pod network {config.pod_cidr}: {error}"
            ) from error

    async def sandboxes(self) -> list[SandboxInfo]:
        return [sandbox.info() for sandbox in self._held.values()]

    async def sandbox(self, sandbox_id: str) -> SandboxInfo | None:
        found = self._held.get(sandbox_id)
        return None if found is None else found.info()

    async def run_sandbox(self, config: SandboxConfig) -> SandboxInfo:
        return await self._once(f"run {config.id}", lambda: self._run_sandbox(config))

    async def _run_sandbox(self, config: SandboxConfig) -> SandboxInfo:
        if config.id in self._held:
            return self._held[config.id].info()
        plug = None if config.host_network else self._plug
        address = ""
        if not config.host_network:
            if plug is None:
                message = "the node has no pod network yet: its spec.podCIDR is not set"
                raise SheepError("FailedCreatePodSandBox", message)
            address = plug.subnet.choose(self._addresses(), self._last_address)
            self._last_address = address
        record = SandboxRecord(config, self._clock.now(), address)
        self._reserved[config.id] = address
        try:
            record = await self._workers.run(self._make_sandbox, record, plug)
        finally:
            del self._reserved[config.id]
        sandbox = HeldSandbox(record, ready=True)
        self._held[config.id] = sandbox
        return sandbox.info()

    def _make_sandbox(self, record: SandboxRecord, plug: Plug | None) -> SandboxRecord:
        record = self._sandboxes.create(record, plug)
        try:
            self._nft_change("add", record)
        except NftError as error:
            self._sandboxes.remove(record.id)
            raise SheepError("FailedCreatePodSandBox", f"host ports: {error}") from error
        return record

    def _nft_change(self, verb: str, record: SandboxRecord) -> None:
        if script := self._host_ports(verb, record):
            self._nft.run(script)

    def _host_ports(self, verb: str, record: SandboxRecord) -> str:
        if not record.address or not record.config.host_ports:
            return ""
        return hostports.change(verb, self._instance, record.address, record.config.host_ports)

    def _addresses(self) -> list[str]:
        held = (sandbox.record.address for sandbox in self._held.values())
        return [one for one in (*held, *self._reserved.values()) if one]

    async def resize_sandbox(self, sandbox_id: str, resources: Resources) -> None:
        key = f"resize {sandbox_id}"
        await self._once(key, lambda: self._resize_sandbox(sandbox_id, resources))

    async def _resize_sandbox(self, sandbox_id: str, resources: Resources) -> None:
        sandbox = self._held.get(sandbox_id)
        if sandbox is None:
            raise SheepError("SandboxNotFound", f"sandbox {sandbox_id} is gone")
        with _resizing():
            sandbox.record = await self._workers.run(
                self._sandboxes.resize, sandbox.record, resources
            )

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self._once(f"remove {sandbox_id}", lambda: self._remove_sandbox(sandbox_id))

    async def _remove_sandbox(self, sandbox_id: str) -> None:
        # What a cancelled caller began goes on, and must not come to life after its sandbox.
        begun = (f"run {sandbox_id}", f"start {sandbox_id} ")
        making = [task for key, task in self._tasks.items() if key.startswith(begun)]
        await asyncio.gather(*making, return_exceptions=True)
        sandbox = self._held.get(sandbox_id)
        if sandbox is None:
            return
        await asyncio.gather(*(self._remove(one) for one in list(sandbox.containers.values())))
        del self._held[sandbox_id]
        self._reserved[sandbox_id] = sandbox.record.address
        try:
            await self._workers.run(self._drop_sandbox, sandbox.record)
        finally:
            del self._reserved[sandbox_id]

    def _drop_sandbox(self, record: SandboxRecord) -> None:
        with contextlib.suppress(NftError):  # the table may have been made anew meanwhile
            self._nft_change("delete", record)
        self._sandboxes.remove(record.id)

    async def start_container(self, config: ContainerConfig) -> ContainerInfo:
        key = f"start {config.sandbox_id} {config.id}"
        return await self._once(key, lambda: self._start_container(config))

    async def _start_container(self, config: ContainerConfig) -> ContainerInfo:
        sandbox = self._held.get(config.sandbox_id)
        if sandbox is None:
            message = f"sandbox {config.sandbox_id} of container {config.name!r} is gone"
            raise SheepError("CreateContainerError", message)
        if config.id in sandbox.containers:
            return sandbox.containers[config.id].info
        image = self._images.record(config.image)
        if image is None:
            message = f"image {config.image_ref or config.image} is not on this node"
            raise SheepError("CreateContainerError", message)
        record = await self._workers.run(
            self._containers.start, config, sandbox.record, image, self._clock.now(),
            self._running(config.pid_of).record.process if config.pid_of else None,
        )  # fmt: skip
        info = self._containers.running(record)
        container = sandbox.containers[config.id] = HeldContainer(record, info)
        self._watch(container)
        return info

    async def resize_container(self, container_id: str, resources: Resources) -> None:
        key = f"resize {container_id}"
        await self._once(key, lambda: self._resize_container(container_id, resources))

    async def _resize_container(self, container_id: str, resources: Resources) -> None:
        container = self._running(container_id)
        with _resizing():
            container.record = await self._workers.run(
                self._containers.resize, container.record, resources
            )
        container.info = replace(container.info, resources=resources)

    async def stop_container(self, container_id: str, grace_seconds: float) -> None:
        container = self._find(container_id)
        if container is None:
            return
        if container.info.state is ContainerState.RUNNING and grace_seconds > 0:
            container.record.process.signal(signal_number(container.record.stop_signal))
            await self._wait_for_end(container, grace_seconds)
        await self._kill(container)

    async def _wait_for_end(self, container: HeldContainer, seconds: float) -> None:
        ended = asyncio.ensure_future(container.ended.wait())
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((ended, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            timer.cancel()
            await asyncio.gather(ended, timer, return_exceptions=True)

    async def _kill(self, container: HeldContainer) -> None:
        """End all that runs of a container; returns when it has ended."""
        if container.info.state is ContainerState.EXITED:
            return
        container.record.process.signal(signal.SIGKILL)
        if container.record.shares_pids or container.info.state is ContainerState.UNKNOWN:
            await self._workers.run(self._containers.kill, container.record)
        try:
            async with asyncio.timeout(KILL_SECONDS):
                await container.ended.wait()
        except TimeoutError as error:
            message = (
                f"container {container.record.id} did not end {KILL_SECONDS:g} s after SIGKILL"
            )
            raise SheepError("KillContainerError", message) from error

    async def remove_container(self, container_id: str) -> None:
        container = self._find(container_id)
        if container is not None:
            await self._remove(container)

    async def _remove(self, container: HeldContainer) -> None:
        await self._once(f"remove {container.record.id}", lambda: self._kill_and_forget(container))

    async def _kill_and_forget(self, container: HeldContainer) -> None:
        await self._kill(container)
        record = container.record
        await self._workers.run(self._containers.remove, record)
        self._sweep()
        sandbox = self._held.get(record.config.sandbox_id)
        if sandbox is not None:
            sandbox.containers.pop(record.id, None)

    def _sweep(self) -> None:
        """Empty the trash in the background; one broom is enough."""
        if "sweep" not in self._tasks:
            self._background("sweep", self._image_workers.run(self._trash.empty))

    async def exec(
        self, container_id: str, command: list[str], *, timeout_seconds: float
    ) -> ExecResult:
        container = self._running(container_id)
        process = await self._workers.run(self._containers.exec_spec, container.record, command)
        return await execute(
            self._workers, self._command, container_id, process, timeout_seconds=timeout_seconds
        )

    @asynccontextmanager
    async def open_exec(
        self, container_id: str, command: list[str], stdio: Stdio
    ) -> AsyncIterator[Process]:
        record = self._running(container_id).record
        spec = await self._workers.run(self._containers.exec_spec, record, command)
        starting = asyncio.create_task(
            self._workers.run(ExecProcess, self._command, container_id, spec, stdio)
        )
        try:
            process = await asyncio.shield(starting)
            await process.opened()
            yield process
        except OSError as error:
            raise SheepError("ExecError", f"cannot run a command: {error}") from error
        finally:
            # Whoever is cancelled while it starts still waits for it, to end it.
            await asyncio.wait([starting])
            if starting.exception() is None:
                starting.result().closing()
                await self._workers.run(starting.result().close)

    @asynccontextmanager
    async def attach(self, container_id: str, stdio: Stdio) -> AsyncIterator[Process]:
        self._running(container_id)
        process = AttachedContainer(self._containers.folder(container_id), stdio)
        try:
            yield process
        finally:
            process.close()

    async def dial(self, sandbox_id: str, port: int) -> SocketDuplex:
        sandbox = self._held.get(sandbox_id)
        if sandbox is None:
            raise SheepError("SandboxNotFound", f"sandbox {sandbox_id} is gone")
        own = "net" in namespace_kinds(sandbox.record.config)
        return await dial(self._sandboxes.folder(sandbox_id) / "net" if own else None, port)

    async def stats(self, sandbox_id: str) -> dict[str, Stats]:
        sandbox = self._held.get(sandbox_id)
        if sandbox is None:
            return {}
        records = [one.record for one in sandbox.containers.values()]
        return await self._workers.run(self._read_stats, records)

    def _read_stats(self, records: list[ContainerRecord]) -> dict[str, Stats]:
        read = {one.id: self._cgroups.stats(self._containers.cgroup(one.config)) for one in records}
        return {name: stats for name, stats in read.items() if stats is not None}

    async def reopen_log(self, container_id: str) -> None:
        container = self._find(container_id)
        if container is not None:
            with contextlib.suppress(OSError):  # it ended: no one writes there any more
                await self._workers.run(monitor.reopen_log, self._containers.folder(container_id))

    def changes(self) -> AsyncGenerator[str, None]:
        return self._changes.listen()

    def _running(self, container_id: str) -> HeldContainer:
        """Raises SheepError."""
        container = self._find(container_id)
        if container is None or container.info.state is not ContainerState.RUNNING:
            raise SheepError("ContainerNotRunning", f"container {container_id} is not running")
        return container

    def _find(self, container_id: str) -> HeldContainer | None:
        for sandbox in self._held.values():
            if container_id in sandbox.containers:
                return sandbox.containers[container_id]
        return None

    def _layers_in_use(self) -> set[str]:
        containers = (one for sandbox in self._held.values() for one in sandbox.containers.values())
        return {layer for container in containers for layer in container.record.layers}

    async def _once(self, key: str, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await a change that goes on to its end even if the caller is cancelled: no process may
        run of which nobody knows. Who asks for the same meanwhile waits for the same."""
        task: asyncio.Task[T] | None = self._tasks.get(key)
        if task is None:
            task = self._background(key, change())
        return await asyncio.shield(task)

    def _background(self, key: str, change: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = self._tasks[key] = asyncio.create_task(change)
        task.add_done_callback(lambda _: self._tasks.pop(key))
        return task

    def _watch(self, container: HeldContainer) -> None:
        """Follow a container until it ends."""
        if container.info.state is ContainerState.RUNNING:
            watch = asyncio.create_task(self._follow(container))
            self._watches.add(watch)
            watch.add_done_callback(self._watched)
        else:
            container.ended.set()

    def _watched(self, watch: asyncio.Task[None]) -> None:
        self._watches.discard(watch)
        if not watch.cancelled() and watch.exception() is not None:
            _log.error("a container is no longer watched", exc_info=watch.exception())

    async def _follow(self, container: HeldContainer) -> None:
        """conmon ends when the container has ended: then the exit code is on disk."""
        await container.monitor_ended()
        container.info = await self._workers.run(self._containers.settle, container.record)
        container.ended.set()
        self._changes.notify(container.record.pod_uid)


@contextmanager
def _resizing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SheepError("ResizeError", f"cannot change the limits: {error}") from error
