"""How each action of a plan is done. What fails becomes part of the pod's memory."""

import asyncio
import logging
from pathlib import Path

from shepherd.agent import pod_plan
from shepherd.agent.checks import Target
from shepherd.agent.container_config import (
    Attempt,
    container_config,
    hostname,
    hosts_file,
    kind_of,
    resolv_conf,
    sandbox_config,
)
from shepherd.agent.env import environment, service_links
from shepherd.agent.hooks import Hooks
from shepherd.agent.images import credentials
from shepherd.agent.logs import forget, log_end
from shepherd.agent.node import Node
from shepherd.agent.pod_memory import ContainerMemory, PodMemory, failed
from shepherd.agent.pod_plan import Action
from shepherd.agent.pod_state import BoundPod, PodView, by_name, container_statuses
from shepherd.agent.references import UnresolvedError
from shepherd.agent.resize import summary
from shepherd.api.errors import ApiError
from shepherd.api.kinds import POD, SECRET
from shepherd.api.objects import Container
from shepherd.api.objects.pod import EphemeralContainer
from shepherd.api.references import Reference
from shepherd.api.resource import Object
from shepherd.client.recorder import reference
from shepherd.lib.backoff import Backoff
from shepherd.runtime.base import ContainerInfo, ContainerState, Mount, SandboxInfo, SheepError

_log = logging.getLogger("shepherd.agent.pod")

_REFUSED = (UnresolvedError, OSError, ValueError)
"""What a pod wants and cannot have; ValueError comes of paths with a zero byte."""
_VOLUME_BACKOFF = Backoff(initial=0.5, cap=122.0)
_SANDBOX_BACKOFF = Backoff(initial=1.0, cap=60.0)
_PULL_BACKOFF = Backoff(initial=10.0, cap=300.0)
_START_BACKOFF = Backoff(initial=2.0, cap=300.0)
_RESIZE_BACKOFF = Backoff(initial=2.0, cap=60.0)
_DELETE_BACKOFF = Backoff(initial=0.2, cap=10.0, jitter=0.5)
_LEAST_GRACE_SECONDS = 2.0
"""What a container gets between its stop signal and SIGKILL, whatever the hook used up
(kubernetes minimumGracePeriodInSeconds)."""
_MESSAGE_BYTES = 4096


class Actions:
    """Does what the plan of one pod says."""

    def __init__(self, pod: BoundPod, node: Node, memory: PodMemory, sandbox_ids: set[str]) -> None:
        self.pod = pod
        self.status: Object = pod.status
        self.gone = asyncio.Event()
        self._node = node
        self._memory = memory
        self._sandbox_ids = sandbox_ids
        """The sandboxes of the pod: this is who knows which there are."""
        self._killing: set[str] = set()
        self._hooks = Hooks(node.checks, node.clock)

    async def do(self, action: Action) -> Action | None:
        """Do one action; what must be done right after it, if anything."""
        match action:
            case pod_plan.MountVolumes():
                await self._mount_volumes()
            case pod_plan.RefreshVolumes():
                await self._refresh_volumes()
            case pod_plan.RunSandbox():
                await self._run_sandbox(action.attempt)
            case pod_plan.RemoveSandbox():
                await self._remove_sandbox(action.sandbox_id)
            case pod_plan.PullImage():
                await self._pull(self._spec(action.container))
            case pod_plan.StartContainer():
                return await self._start(self._spec(action.container), action.attempt)
            case pod_plan.RunHook():
                await self._post_start(self._spec(action.container), action.container_id)
            case pod_plan.StopContainer():
                await self._stop(action)
            case pod_plan.ResizeSandbox() | pod_plan.ResizeContainer():
                await self._resize(action)
            case pod_plan.RemoveContainer():
                await self._remove_container(action.container_id)
            case pod_plan.Fail():
                self._memory.verdict = action.verdict
                self.say("Normal", action.verdict.reason, action.verdict.message)
            case pod_plan.CleanUp():
                await self._clean_up()
            case pod_plan.DeleteObject():
                await self._delete_object()
            case pod_plan.Cancel():
                raise AssertionError("the worker cancels")
        return None

    def say(self, type: str, reason: str, message: str, container: str = "") -> None:
        """Record an event about the pod or one of its containers."""
        path = ""
        if container:
            kind = self._kind(container)
            lists = {"main": "containers", "ephemeral": "ephemeralContainers"}
            path = f"spec.{lists.get(kind, 'initContainers')}{{{container}}}"
        about = reference(POD, self.pod.metadata, field_path=path)
        self._node.recorder.event(about, type, reason, message)

    def target(self, info: ContainerInfo, view: PodView) -> Target:
        addresses = view.sandbox.addresses if view.sandbox else ()
        return Target(info.id, self._spec(info.name), addresses[0] if addresses else view.host_ip)

    def _spec(self, name: str) -> Container:
        return next(c for c in self.pod.spec.everyone if c.name == name)

    def _kind(self, name: str) -> str:
        """main, init, sidecar or ephemeral."""
        spec = self.pod.spec
        for container in spec.init_containers:
            if container.name == name:
                return kind_of(container, init=True)
        return "ephemeral" if any(c.name == name for c in spec.ephemeral_containers) else "main"

    @property
    def _uid(self) -> str:
        return self.pod.metadata.uid

    def _now(self) -> float:
        return self._node.clock.monotonic()

    # Volumes and sandbox

    async def _set_up_volumes(self) -> None:
        await self._node.volumes.set_up(await self._node.volume_facts(self.pod, self.status))

    async def _mount_volumes(self) -> None:
        try:
            if self.pod.spec.volumes:
                await self._set_up_volumes()
        except _REFUSED as error:
            text = f"MountVolume.SetUp failed: {error}"
            self._memory.fail("FailedMount", text, backoff=_VOLUME_BACKOFF, now=self._now())
            self.say("Warning", "FailedMount", text)
        else:
            self._memory.volumes_ready = True
            self._memory.failure = None

    async def _refresh_volumes(self) -> None:
        try:
            await self._set_up_volumes()
        except _REFUSED as error:
            self.say("Warning", "FailedMount", f"MountVolume.SetUp failed: {error}")

    async def _run_sandbox(self, attempt: int) -> None:
        node = self._node
        logs = node.files.logs(self._uid)
        config = sandbox_config(
            self.pod, attempt, node_name=node.config.node_name, log_directory=str(logs)
        )
        try:
            await asyncio.to_thread(logs.mkdir, parents=True, exist_ok=True)
            if not self.pod.spec.host_network:
                await node.network_ready.wait()
            self._sandbox_ids.add(config.id)
            sandbox = await node.runtime.run_sandbox(config)
            if not node.runtime.describe().simulated:
                await asyncio.to_thread(self._write_etc, sandbox)
        except (SheepError, OSError) as error:
            text = f"Failed to create pod sandbox: {error}"
            self._memory.fail(
                "FailedCreatePodSandBox", text, backoff=_SANDBOX_BACKOFF, now=self._now()
            )
            self.say("Warning", "FailedCreatePodSandBox", text)
        else:
            self._memory.failure = None

    def _write_etc(self, sandbox: SandboxInfo) -> None:
        """The pod's own /etc/hosts and /etc/resolv.conf."""
        config = self._node.config
        etc = self._node.files.etc(self._uid)
        etc.mkdir(parents=True, exist_ok=True)
        host = Path("/etc/resolv.conf")
        resolv = resolv_conf(
            self.pod,
            cluster_dns=config.cluster_dns,
            domain=config.cluster_domain,
            host=host.read_text() if host.exists() else "",
        )
        (etc / "resolv.conf").write_text(resolv)
        if sandbox.addresses:
            name = hostname(self.pod, config.node_name)
            text = hosts_file(self.pod, name, sandbox.addresses[0], config.cluster_domain)
            (etc / "hosts").write_text(text)

    async def _remove_sandbox(self, sandbox_id: str) -> None:
        try:
            await self._node.runtime.remove_sandbox(sandbox_id)
        except SheepError as error:
            self.say("Warning", "FailedKillPod", f"error killing pod: {error.message}")
            await self._node.clock.sleep(_SANDBOX_BACKOFF.initial)
        else:
            self._sandbox_ids.discard(sandbox_id)

    async def _remove_container(self, container_id: str) -> None:
        try:
            await self._node.runtime.remove_container(container_id)
        except SheepError as error:
            _log.warning("cannot remove container %s: %s", container_id, error.message)
            await self._node.clock.sleep(_SANDBOX_BACKOFF.initial)
            return
        name, _, attempt = container_id.removeprefix(f"{self._uid}-").rpartition("-")
        await asyncio.to_thread(forget, self._node.files.log(self._uid, name, int(attempt)))

    # Containers

    async def _pull(self, container: Container) -> None:
        memory = self._memory.container(container.name)
        try:
            secrets = []
            if self.pod.spec.image_pull_secrets:
                lookup, namespace = await self._node.lookup(self.pod), self.pod.metadata.namespace
                keys = [
                    Reference(SECRET.kind, namespace, s.name)
                    for s in self.pod.spec.image_pull_secrets
                ]
                secrets = [values for key in keys if (values := lookup.get(key)) is not None]
            memory.image = await self._node.images.ensure(
                container.image,
                container.image_pull_policy,
                credentials(container.image, secrets),
                lambda kind, reason, message: self.say(kind, reason, message, container.name),
            )
        except SheepError as error:
            self._pull_failed(container, memory, error)
        else:
            memory.failure = None

    def _pull_failed(
        self, container: Container, memory: ContainerMemory, error: SheepError
    ) -> None:
        reason, message = error.reason, error.message
        if memory.failure and reason == "ErrImagePull":
            reason = "ImagePullBackOff"
            message = f'Back-off pulling image "{container.image}": ErrImagePull: {message}'
            self.say("Normal", "BackOff", f'Back-off pulling image "{container.image}"',
                     container.name)  # fmt: skip
        self.say("Warning", "Failed", f"Error: {reason}", container.name)
        memory.fail(reason, message, backoff=_PULL_BACKOFF, now=self._now())

    async def _start(self, container: Container, attempt: int) -> Action | None:
        """Start one attempt; its postStart hook comes next."""
        memory = self._memory.container(container.name)
        try:
            async with self._node.starts:
                info = await self._start_attempt(container, memory, attempt)
        except _REFUSED as error:
            self._start_failed(container, memory, "CreateContainerConfigError", str(error))
            return None
        except SheepError as error:
            self._start_failed(container, memory, error.reason, error.message)
            return None
        memory.failure = None
        memory.image = None  # the next attempt asks for it again, by the pull policy
        self.say("Normal", "Created", f"Container created: {container.name}", container.name)
        self.say("Normal", "Started", f"Container started: {container.name}", container.name)
        if container.lifecycle and container.lifecycle.post_start:
            return pod_plan.RunHook(container.name, info.id)
        return None

    async def _start_attempt(
        self, container: Container, memory: ContainerMemory, attempt: int
    ) -> ContainerInfo:
        node, uid = self._node, self._uid
        env = await self._environment(container)
        mounts = node.volumes.mounts(self.pod, container, env)
        if not node.runtime.describe().simulated:
            mounts += await asyncio.to_thread(self._own_mounts, container, attempt, mounts)
        newest = max(self._sandbox_ids, key=lambda sandbox_id: int(sandbox_id.rsplit("-", 1)[-1]))
        assert memory.image
        config = container_config(
            self.pod,
            container,
            Attempt(
                self._kind(container.name),
                attempt,
                newest,
                str(node.files.log(uid, container.name, attempt)),
                await self._target_of(container, newest),
            ),
            image=memory.image,
            env=env,
            mounts=mounts,
            node_memory_bytes=node.facts.memory_bytes,
            max_pids=node.config.max_pids,
        )
        return await node.runtime.start_container(config)

    async def _target_of(self, container: Container, sandbox_id: str) -> str:
        """The id of the container whose processes an ephemeral one is to see; empty: none.

        Raises SheepError.
        """
        name = container.target_container_name if isinstance(container, EphemeralContainer) else ""
        sandbox = await self._node.runtime.sandbox(sandbox_id) if name else None
        if sandbox is None:
            return ""
        for info in sandbox.containers:
            if info.name == name and info.state is ContainerState.RUNNING:
                return info.id
        message = f"unable to find target container {name}: it does not run"
        raise SheepError("CreateContainerConfigError", message)

    async def _environment(self, container: Container) -> dict[str, str]:
        node = self._node
        needed = any(e.value_from for e in container.env) or container.env_from
        lookup = await self._node.lookup(self.pod) if needed else {}
        await node.services_known.wait()
        links = service_links(
            node.services(), self.pod.metadata.namespace, links=self.pod.spec.enable_service_links
        )
        address = await self._address()
        status = {**self.status, "hostIP": node.facts.host_ip, **address}
        result = environment(
            self.pod,
            container,
            status=status,
            lookup=lookup,
            services=links,
            allocatable=node.facts.allocatable,
        )
        for text in result.skipped:
            self.say("Warning", "InvalidEnvironmentVariableNames", text, container.name)
        return {"HOSTNAME": hostname(self.pod, node.config.node_name), **result.variables}

    async def _address(self) -> Object:
        """podIP and podIPs as of now: the status may not have them yet."""
        if self.pod.spec.host_network:
            own = [self._node.facts.host_ip]
        else:
            found = [await self._node.runtime.sandbox(key) for key in self._sandbox_ids]
            own = [a for sandbox in found if sandbox and sandbox.ready for a in sandbox.addresses]
        return {"podIP": own[0], "podIPs": [{"ip": a} for a in own]} if own else {}

    def _own_mounts(self, container: Container, attempt: int, mounts: list[Mount]) -> list[Mount]:
        """/etc/hosts, /etc/resolv.conf and the termination log, where the pod does not mount
        something of its own."""
        etc = self._node.files.etc(self._uid)
        termination = self._node.files.termination(self._uid, container.name, attempt)
        termination.parent.mkdir(parents=True, exist_ok=True)
        termination.touch()
        termination.chmod(0o666)
        own = [
            Mount(str(etc / "resolv.conf"), "/etc/resolv.conf"),
            Mount(str(termination), container.termination_message_path),
        ]
        if (etc / "hosts").exists():
            own.append(Mount(str(etc / "hosts"), "/etc/hosts"))
        taken = {mount.target.rstrip("/") for mount in mounts}
        return [mount for mount in own if mount.target not in taken and "/etc" not in taken]

    def _start_failed(
        self, container: Container, memory: ContainerMemory, reason: str, message: str
    ) -> None:
        memory.fail(reason, message, backoff=_START_BACKOFF, now=self._now())
        self.say("Warning", "Failed", f"Error: {message}", container.name)

    async def _post_start(self, container: Container, container_id: str) -> None:
        failed = await self._hooks.post_start(await self._hook_target(container, container_id))
        if failed:
            memory = self._memory.container(container.name)
            if memory.health_of == container_id:
                memory.health.unhealthy = "failed postStart hook"
            self.say("Warning", "FailedPostStartHook", f"PostStartHook failed: {failed}",
                     container.name)  # fmt: skip

    async def _hook_target(self, container: Container, container_id: str) -> Target:
        address = (await self._address()).get("podIP", self._node.facts.host_ip)
        return Target(container_id, container, address)

    async def _stop(self, action: pod_plan.StopContainer) -> None:
        container = self._spec(action.container)
        if action.again:
            self._memory.container(container.name).again = action.container_id
        if action.container_id not in self._killing:
            self._killing.add(action.container_id)
            self.say("Normal", "Killing", action.message, container.name)
            await self._pre_stop(container, action)
        left = max(_LEAST_GRACE_SECONDS, action.deadline - self._now())
        try:
            await self._node.runtime.stop_container(action.container_id, left)
        except SheepError as error:
            self.say("Warning", "FailedKillPod", f"error killing pod: {error.message}")
            await self._node.clock.sleep(_SANDBOX_BACKOFF.initial)

    async def _resize(self, action: pod_plan.ResizeSandbox | pod_plan.ResizeContainer) -> None:
        runtime, memory = self._node.runtime, self._memory
        try:
            if isinstance(action, pod_plan.ResizeSandbox):
                await runtime.resize_sandbox(action.sandbox_id, action.resources)
            else:
                await runtime.resize_container(action.container_id, action.resources)
        except SheepError as error:
            memory.resize_failure = failed(
                memory.resize_failure, "Error", error.message,
                backoff=_RESIZE_BACKOFF, now=self._now(),
            )  # fmt: skip
            text = f"Pod resize error: {summary(self.pod, error.message)}"
            self.say("Warning", "ResizeError", text)
        else:
            memory.resize_failure = None

    async def _pre_stop(self, container: Container, action: pod_plan.StopContainer) -> None:
        target = await self._hook_target(container, action.container_id)
        if failed := await self._hooks.pre_stop(target, action.deadline - self._now()):
            text = f"PreStopHook failed: {failed}"
            self.say("Warning", "FailedPreStopHook", text, container.name)

    def note_ends(self, view: PodView) -> None:
        """Let preStop hooks know of containers that have ended by themselves."""
        self._hooks.note_running({c.current.id for c in view.containers if c.current and c.running})

    def note_back_offs(self) -> None:
        """Tell once of each attempt of a container that waits for the next.

        Source: kubernetes pkg/kubelet/kuberuntime, doBackOff.
        """
        pod = self.pod.metadata
        for name, found in by_name(container_statuses(self.status)).items():
            waiting = (found.get("state") or {}).get("waiting") or {}
            memory = self._memory.container(name)
            if waiting.get("reason") == "CrashLoopBackOff" and memory.backed_off != memory.counted:
                memory.backed_off = memory.counted
                where = f"{name} in pod {pod.name}_{pod.namespace}({pod.uid})"
                text = f"Back-off restarting failed container {where}"
                self.say("Warning", "BackOff", text, name)

    async def read_messages(self, sandboxes: list[SandboxInfo]) -> None:
        """Take in the termination messages of containers that have ended."""
        for sandbox in sandboxes:
            for info in sandbox.containers:
                memory = self._memory.container(info.name)
                over = info.state is ContainerState.EXITED
                if over and memory.message_of != info.id and not info.message:
                    memory.message_of = info.id
                    memory.message = await asyncio.to_thread(self._message, info)

    def _message(self, info: ContainerInfo) -> str:
        path = self._node.files.termination(self._uid, info.name, info.attempt)
        try:
            with path.open("rb") as file:
                text = file.read(_MESSAGE_BYTES).decode(errors="replace")
        except FileNotFoundError:
            text = ""
        spec = next((c for c in self.pod.spec.everyone if c.name == info.name), None)
        if text or not info.exit_code or spec is None:
            return text
        if spec.termination_message_policy != "FallbackToLogsOnError":
            return ""
        return log_end(Path(info.log_path))

    # The end

    async def _clean_up(self) -> None:
        node = self._node
        if not self._memory.gone:
            await node.statuses.flush(self._uid)
        for sandbox_id in list(self._sandbox_ids):
            await self._remove_sandbox(sandbox_id)
        if self._sandbox_ids:
            return
        await node.volumes.tear_down(self._uid)
        node.sources.release(self._uid)
        self._memory.cleaned = True

    async def _delete_object(self) -> None:
        """Delete the API object and wait until it has gone (a finalizer may hold it)."""
        meta = self.pod.metadata
        failures = 0
        while not self.gone.is_set():
            try:
                await self._node.client.delete(
                    POD, meta.name, meta.namespace, grace_seconds=0, uid=meta.uid
                )
            except (ConnectionError, ApiError) as error:
                if not isinstance(error, ApiError) or error.code not in (404, 409):
                    failures += 1
                    await self._node.clock.sleep(_DELETE_BACKOFF.delay(failures, self._node.random))
                    continue
            await self.gone.wait()
