"""What to do next for a pod. Pure: `plan` looks at a `PodView` and returns actions.

Called anew after every change, it names everything that can be done now and is not being done yet
(`view.busy`), and when to look again if nothing changes before. Actions with different keys may be
done at the same time. Source of the rules: kubernetes pkg/kubelet/kuberuntime computePodActions,
"Pod Lifecycle" and "Sidecar Containers" in the Kubernetes documentation.
"""

from dataclasses import dataclass

from shepherd.agent.pod_state import (
    ContainerView,
    PodView,
    Verdict,
    initialized,
    next_init,
    run_out,
    wants_start,
)
from shepherd.api.meta import parse_time
from shepherd.runtime.base import Resources


@dataclass(frozen=True, slots=True)
class MountVolumes:
    key: str = "volumes"


@dataclass(frozen=True, slots=True)
class RefreshVolumes:
    """What the volumes are made from has changed."""

    key: str = "refresh"


@dataclass(frozen=True, slots=True)
class RunHook:
    """The postStart hook of a container that has been started."""

    container: str
    container_id: str

    @property
    def key(self) -> str:
        return f"hook:{self.container}"


@dataclass(frozen=True, slots=True)
class RunSandbox:
    attempt: int
    key: str = "sandbox"


@dataclass(frozen=True, slots=True)
class RemoveSandbox:
    sandbox_id: str

    @property
    def key(self) -> str:
        return f"remove:{self.sandbox_id}"


@dataclass(frozen=True, slots=True)
class PullImage:
    container: str

    @property
    def key(self) -> str:
        return f"pull:{self.container}"


@dataclass(frozen=True, slots=True)
class StartContainer:
    container: str
    attempt: int
    key: str = "start"
    """One at a time: containers start in the order of the spec."""


@dataclass(frozen=True, slots=True)
class StopContainer:
    container_id: str
    container: str
    deadline: float
    """Monotonic seconds at which it is killed; preStop hook and stop signal share the time."""
    message: str
    again: bool = False
    """It is to start anew, however it ends."""

    @property
    def key(self) -> str:
        return f"stop:{self.container_id}"


@dataclass(frozen=True, slots=True)
class ResizeSandbox:
    """Change what the containers may use together."""

    sandbox_id: str
    resources: Resources

    @property
    def key(self) -> str:
        return f"resize:{self.sandbox_id}"


@dataclass(frozen=True, slots=True)
class ResizeContainer:
    """Change what a running container may use."""

    container_id: str
    resources: Resources

    @property
    def key(self) -> str:
        return f"resize:{self.container_id}"


@dataclass(frozen=True, slots=True)
class RemoveContainer:
    container_id: str

    @property
    def key(self) -> str:
        return f"remove:{self.container_id}"


@dataclass(frozen=True, slots=True)
class Cancel:
    """Give up what is being done under `key`."""

    key: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The pod as a whole has failed."""

    verdict: Verdict
    key: str = "fail"


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Report the last state, then remove sandboxes and volumes; logs stay."""

    key: str = "clean"


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Nothing of the pod is left here: let its API object go."""

    key: str = "delete"


Action = (
    MountVolumes | RefreshVolumes | RunSandbox | RemoveSandbox | PullImage | StartContainer
    | RunHook | StopContainer | ResizeSandbox | ResizeContainer
    | RemoveContainer | Cancel | Fail | CleanUp | DeleteObject
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    actions: tuple[Action, ...] = ()
    wake_at: float | None = None
    """Monotonic seconds at which to plan again, if nothing happens before."""
    done: bool = False
    """Nothing is left to do, ever: the worker may end."""


def plan(view: PodView) -> Plan:
    """The next actions for the pod."""
    if view.stop_by is not None:
        return _terminate(view, view.stop_by)
    if run_out(view):
        return _wind_up(view)
    late = _deadline(view)
    if late is not None and view.now >= late:
        text = "Pod was active on the node longer than the specified deadline"
        return Plan((Fail(Verdict("DeadlineExceeded", text)),))
    return _keep_running(view, late)


def _deadline(view: PodView) -> float | None:
    """When spec.activeDeadlineSeconds is over, in monotonic seconds."""
    seconds = view.pod.spec.active_deadline_seconds
    start = view.pod.status.get("startTime")
    if seconds is None or not start:
        return None
    return view.now + parse_time(start) + seconds - view.wall


# Ending

_GIVEN_UP = ("pull:", "volumes", "refresh", "hook:", "resize:")
"""What is not waited for when the pod ends: pulls, volumes, postStart hooks, resizes."""


def _terminate(view: PodView, deadline: float) -> Plan:
    """The pod is being deleted: stop all, remove all, let the object go."""
    given_up = [Cancel(key) for key in view.busy if key.startswith(_GIVEN_UP)]
    stops = _stop_all(view, deadline)
    if given_up or stops:
        return Plan((*given_up, *stops))
    if view.busy or _anything_runs(view):
        return Plan()
    if not view.cleaned:
        return Plan((CleanUp(),))
    return Plan(done=True) if view.gone else Plan((DeleteObject(),))


def _wind_up(view: PodView) -> Plan:
    """The main containers are through: stop what is left, then release what the pod held."""
    if view.cleaned:
        return Plan()
    stops = _stop_all(view, view.now + view.pod.spec.termination_grace_period_seconds)
    if stops:
        return Plan(tuple(stops))
    return Plan() if view.busy or _anything_runs(view) else Plan((CleanUp(),))


def _anything_runs(view: PodView) -> bool:
    return any(c.running for c in view.containers)


def _stop_all(view: PodView, deadline: float) -> list[StopContainer]:
    """Stops that are due: all but sidecars at once, then the sidecars from the last to the first.

    A stop under way is asked for again when the deadline has come nearer.
    """
    running = [c for c in view.containers if c.running]
    ordinary = [c for c in running if c.kind != "sidecar"]
    turn = ordinary or running[-1:]
    if view.now >= deadline:
        turn = running
    stops = (_stop(c, deadline, f"Stopping container {c.spec.name}") for c in turn)
    return [stop for stop in stops if stop.deadline < view.busy.get(stop.key, float("inf"))]


def _stop(
    container: ContainerView, deadline: float, message: str, *, again: bool = False
) -> StopContainer:
    assert container.current is not None
    return StopContainer(container.current.id, container.spec.name, deadline, message, again)


# Running


def _keep_running(view: PodView, late: float | None) -> Plan:
    actions: list[Action] = [RemoveSandbox(stale) for stale in view.stale_sandboxes]
    if view.sandbox and not view.sandbox.ready:
        actions.append(RemoveSandbox(view.sandbox.id))
        return _pending(view, actions, late)
    for container in view.containers:
        actions += [RemoveContainer(old) for old in container.outdated]
    actions += _stop_unfit(view)
    wakes = [late] if late is not None else []
    if view.resize_failure and view.resize_failure.retry_at > view.now:
        wakes.append(view.resize_failure.retry_at)
    elif resizes := _resizes(view):
        actions += resizes
        if isinstance(resizes[0], ResizeSandbox):  # what starts next may need the room
            return _pending(view, actions, min(wakes, default=None))
    image_missing = False
    for container in _due(view):
        blocked_until = _blocked_until(container)
        if blocked_until > view.now:
            wakes.append(blocked_until)
        elif not container.image:
            actions.append(PullImage(container.spec.name))
            image_missing = True
        elif view.standing and not image_missing and not _hook_runs(view):
            actions.append(StartContainer(container.spec.name, container.next_attempt))
            break
    if not view.standing:
        if view.failure and view.failure.retry_at > view.now:
            wakes.append(view.failure.retry_at)
        else:
            actions.append(RunSandbox(view.next_sandbox) if view.volumes_ready else MountVolumes())
    return _pending(view, actions, min(wakes, default=None))


def _pending(view: PodView, actions: list[Action], wake_at: float | None) -> Plan:
    """Without what is being done already."""
    return Plan(tuple(a for a in actions if a.key not in view.busy), wake_at)


def _due(view: PodView) -> list[ContainerView]:
    """The containers that should be started now, in order.

    Sidecars that have been reached are kept running for as long as the pod runs.
    """
    policy = view.pod.spec.restart_policy
    if initialized(view):
        candidates = list(view.containers)
    else:
        frontier = next_init(view)
        candidates = [c for c in view.inits if c is frontier or c.current] + view.ephemerals
    return [
        c for c in candidates if wants_start(c, policy) and (c.kind != "init" or _is_next(view, c))
    ]


def _hook_runs(view: PodView) -> bool:
    """A postStart hook holds up the containers after its own."""
    return any(key.startswith("hook:") for key in view.busy)


def _is_next(view: PodView, container: ContainerView) -> bool:
    return not any(c.current for c in view.mains) and container is next_init(view)


def _blocked_until(container: ContainerView) -> float:
    failure = container.failure
    return max(container.restart_at, failure.retry_at if failure else 0.0)


def _stop_unfit(view: PodView) -> list[StopContainer]:
    """Running containers that must be restarted: unhealthy, their image was changed, or their
    resources were and they take no others while they run."""
    stops = []
    for container in view.containers:
        if not container.running:
            continue
        name, again = container.spec.name, _resize_restarts(container)
        if container.changed:
            message = f"Container {name} definition changed, will be restarted"
        elif again:
            message = f"Container {name} resize requires restart"
        elif container.unhealthy:
            message = f"Container {name} {container.unhealthy}"
            if container.kind == "sidecar" or view.pod.spec.restart_policy != "Never":
                message += ", will be restarted"
        else:
            continue
        deadline = view.now + _grace(view, container)
        stops.append(_stop(container, deadline, message, again=again))
    return stops


def _grace(view: PodView, container: ContainerView) -> float:
    """Seconds to end in; a probe that killed the container may give its own."""
    spec = container.spec
    for probe in (spec.startup_probe if not container.started else None, spec.liveness_probe):
        if container.unhealthy and probe and probe.termination_grace_period_seconds is not None:
            return float(probe.termination_grace_period_seconds)
    return float(view.pod.spec.termination_grace_period_seconds)


# Resources


def _resizes(view: PodView) -> list[ResizeSandbox] | list[ResizeContainer]:
    """Give the containers what they have been granted.

    On the way the pod as a whole may use what it may before or after, whichever is more: no
    container can be allowed more than its pod.
    """
    if not view.sandbox:
        return []
    changed = [c for c in view.containers if c.running and c.resizing]
    room = _larger(view.sandbox.resources, view.granted) if changed else view.granted
    if room != view.sandbox.resources:
        return [ResizeSandbox(view.sandbox.id, room)]
    return [
        ResizeContainer(c.current.id, c.granted)
        for c in changed
        if c.current and not _resize_restarts(c)
    ]


def _resize_restarts(container: ContainerView) -> bool:
    """Of what has changed of its resources something asks for a restart."""
    if not container.resizing or container.current is None:
        return False
    have, want = container.current.resources, container.granted
    changed = {
        "cpu": (have.cpu_millis, have.cpu_request_millis)
        != (want.cpu_millis, want.cpu_request_millis),
        "memory": have.memory_bytes != want.memory_bytes,
    }
    return any(
        policy.restart_policy == "RestartContainer" and changed.get(policy.resource_name, False)
        for policy in container.spec.resize_policy
    )


def _larger(one: Resources, other: Resources) -> Resources:
    """The larger of each; no limit is larger than any."""
    return Resources(
        _larger_limit(one.cpu_millis, other.cpu_millis),
        _larger_limit(one.memory_bytes, other.memory_bytes),
        max(one.cpu_request_millis, other.cpu_request_millis),
        max(one.memory_request_bytes, other.memory_request_bytes),
    )


def _larger_limit(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)
