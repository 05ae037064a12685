"""What the agent remembers of a pod, and how that and the runtime's view become a `PodView`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shepherd.agent.container_config import (
    kind_of,
    pod_resources,
    resources_of,
    spec_changed,
)
from shepherd.agent.pod_state import (
    BoundPod,
    ContainerView,
    Failure,
    PodView,
    Verdict,
    by_name,
    container_statuses,
    is_over,
)
from shepherd.agent.probes import Health
from shepherd.api.meta import parse_time
from shepherd.api.objects import Container
from shepherd.api.resource import Object
from shepherd.lib.backoff import Backoff
from shepherd.runtime.base import ContainerInfo, ContainerState, ImageInfo, SandboxInfo

_CRASH = Backoff(initial=10.0, cap=300.0)
_CALM_SECONDS = 600.0
"""A container that ran for so long starts its back-off anew.

The first restart is immediate, then come 10 s, 20 s... up to 5 minutes (kubernetes
pkg/kubelet MaxCrashLoopBackOff, client-go util/flowcontrol Backoff)."""


def failed(
    before: Failure | None, reason: str, message: str, *, backoff: Backoff, now: float
) -> Failure:
    """One failure more in a row."""
    count = before.count + 1 if before else 1
    return Failure(reason, message, count, now + backoff.delay(count))


@dataclass(slots=True)
class ContainerMemory:
    """Of one container of the spec."""

    last: ContainerInfo | None = None
    """The newest attempt ever seen."""
    image: ImageInfo | None = None
    """Resolved for the next start."""
    failure: Failure | None = None
    health: Health = field(default_factory=Health)
    health_of: str = ""
    """The container id that `health` is about."""
    crashes: int = 0
    counted: str = ""
    """The last container id whose end was counted."""
    backed_off: str = ""
    """The last container id whose back-off was told."""
    restart_at: float = 0.0
    again: str = ""
    """The container id that was stopped to be started anew."""
    message_of: str = ""
    message: str = ""
    """The termination message of a container, by its id."""

    def fail(self, reason: str, message: str, *, backoff: Backoff, now: float) -> None:
        self.failure = failed(self.failure, reason, message, backoff=backoff, now=now)


@dataclass(frozen=True, slots=True)
class Scene:
    """What is seen of a pod from outside its memory."""

    pod: BoundPod
    sandboxes: list[SandboxInfo]
    now: float
    wall: float
    busy: Mapping[str, float]
    host_ip: str
    runtime_name: str

    @property
    def newest(self) -> SandboxInfo | None:
        return max(self.sandboxes, key=lambda s: s.attempt, default=None)

    def being_made(self, info: ContainerInfo) -> bool:
        """It is on its way to run: not there yet. (One that is not, is left over and counts.)"""
        return info.state is ContainerState.CREATED and "start" in self.busy

    def in_hook(self, spec: Container) -> bool:
        """Its postStart hook has not ended yet."""
        if spec.lifecycle is None or spec.lifecycle.post_start is None:
            return False
        return "start" in self.busy or f"hook:{spec.name}" in self.busy


@dataclass(slots=True)
class PodMemory:
    """Of one pod."""

    containers: dict[str, ContainerMemory] = field(default_factory=dict)
    next_sandbox: int = 0
    volumes_ready: bool = False
    failure: Failure | None = None
    verdict: Verdict | None = None
    refused: Verdict | None = None
    resize_failure: Failure | None = None
    stop_by: float | None = None
    gone: bool = False
    cleaned: bool = False

    def container(self, name: str) -> ContainerMemory:
        return self.containers.setdefault(name, ContainerMemory())

    def fail(self, reason: str, message: str, *, backoff: Backoff, now: float) -> None:
        self.failure = failed(self.failure, reason, message, backoff=backoff, now=now)

    def stop(self, grace_seconds: float, now: float) -> None:
        """The pod must end; a second call can only make it sooner."""
        until = now + grace_seconds
        self.stop_by = until if self.stop_by is None else min(self.stop_by, until)

    def recall(self, pod: BoundPod) -> None:
        """Take over what an earlier agent said of the pod in its status.

        A container that the status knows as started and the runtime does not know any more (the
        node was rebooted) counts as ended: restart counts go on, and a pod that must not be
        restarted is not.
        """
        for status in container_statuses(pod.status):
            if status.get("containerID"):
                self.container(status["name"]).last = _from_status(status)

    def view(self, scene: "Scene") -> PodView:
        """The pod as it is now. Notes ends of containers for the back-off."""
        newest = scene.newest
        if newest:
            self.next_sandbox = max(self.next_sandbox, newest.attempt + 1)
        spec = scene.pod.spec
        specs = [(c, kind_of(c, init=True)) for c in spec.init_containers]
        specs += [(c, "main") for c in spec.containers]
        specs += [(c, "ephemeral") for c in spec.ephemeral_containers]
        return PodView(
            pod=scene.pod,
            now=scene.now,
            wall=scene.wall,
            containers=tuple(self._container(c, kind, scene) for c, kind in specs),
            sandbox=newest,
            next_sandbox=self.next_sandbox,
            stale_sandboxes=tuple(s.id for s in scene.sandboxes if s is not newest),
            volumes_ready=self.volumes_ready,
            failure=self.failure,
            verdict=self.verdict,
            granted=pod_resources(scene.pod),
            refused=self.refused,
            resize_failure=self.resize_failure,
            stop_by=self.stop_by,
            gone=self.gone,
            cleaned=self.cleaned,
            busy=scene.busy,
            host_ip=scene.host_ip,
            runtime_name=scene.runtime_name,
        )

    def _container(self, spec: Container, kind: str, scene: "Scene") -> ContainerView:
        memory, newest = self.container(spec.name), scene.newest
        infos = [c for s in scene.sandboxes for c in s.containers if c.name == spec.name]
        infos = [self._with_message(memory, i) for i in infos if not scene.being_made(i)]
        infos.sort(key=lambda info: info.attempt, reverse=True)
        if memory.last and all(memory.last.attempt > info.attempt for info in infos):
            infos.insert(0, _ended(memory.last))
        current = infos[0] if infos and newest and infos[0].sandbox_id == newest.id else None
        older = infos[1:] if current else infos
        if infos and infos[0].state is not ContainerState.CREATED:
            memory.last = infos[0]
            _count_end(memory, infos[0], scene)
        if current and memory.health_of != current.id:
            memory.health_of = current.id
            memory.health = _first_health(spec, current, scene.pod)
        return ContainerView(
            spec=spec,
            kind=kind,
            current=current,
            previous=older[0] if older else None,
            outdated=tuple(i.id for i in older[1:] if newest and i.sandbox_id == newest.id),
            image=memory.image.id if memory.image else "",
            failure=memory.failure,
            started=memory.health.started and not scene.in_hook(spec),
            ready=memory.health.ready,
            unhealthy=memory.health.unhealthy,
            changed=current is not None and spec_changed(spec, current.spec_hash),
            again=bool(infos) and infos[0].id == memory.again,
            granted=resources_of(spec),
            restart_at=memory.restart_at,
            backoff_seconds=_CRASH.delay(memory.crashes - 1),
        )

    def _with_message(self, memory: ContainerMemory, info: ContainerInfo) -> ContainerInfo:
        if memory.message_of == info.id and memory.message:
            return replace(info, message=memory.message)
        return info


def _ended(info: ContainerInfo) -> ContainerInfo:
    """A container that the runtime does not list any more: it does not run."""
    if info.state is ContainerState.EXITED:
        return info
    return replace(
        info,
        state=ContainerState.UNKNOWN,
        message="The container could not be located when the pod was looked at",
    )


def _count_end(memory: ContainerMemory, info: ContainerInfo, scene: Scene) -> None:
    if not is_over(info) or memory.counted == info.id:
        return
    memory.counted = info.id
    ran = info.finished_at - info.started_at
    memory.crashes = 1 if ran >= _CALM_SECONDS else memory.crashes + 1
    delay = _CRASH.delay(memory.crashes - 1)
    since = max(0.0, scene.wall - info.finished_at) if info.finished_at else 0.0
    memory.restart_at = scene.now + max(0.0, delay - since) if delay else 0.0


def _first_health(spec: Container, info: ContainerInfo, pod: BoundPod) -> Health:
    """Before any probe: what an earlier agent had found of this very container, or nothing yet."""
    health = Health(started=spec.startup_probe is None, ready=spec.readiness_probe is None)
    known = by_name(container_statuses(pod.status)).get(spec.name, {})
    if known.get("containerID", "").endswith(f"://{info.id}"):
        health.started = health.started or bool(known.get("started"))
        health.ready = health.ready or bool(known.get("ready"))
    return health


def _from_status(status: Object) -> ContainerInfo:
    """The attempt that a container status tells of."""
    state = status.get("state", {})
    end = state.get("terminated") or status.get("lastState", {}).get("terminated")
    running = state.get("running", {})
    over = end if not running else None
    return ContainerInfo(
        id=status["containerID"].partition("://")[2],
        sandbox_id="",
        name=status["name"],
        attempt=status.get("restartCount", 0),
        state=ContainerState.EXITED if over else ContainerState.UNKNOWN,
        image=status.get("imageID", ""),
        image_ref=status.get("image", ""),
        started_at=_time((over or running).get("startedAt")),
        finished_at=_time(over.get("finishedAt")) if over else 0.0,
        exit_code=over.get("exitCode", 0) if over else 0,
        reason=over.get("reason", "") if over else "",
        message=over.get("message", "") if over else "",
    )


def _time(text: str | None) -> float:
    return parse_time(text) if text else 0.0
