"""What the agent knows of one pod at one instant: the input of `pod_plan` and `pod_status`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shepherd.api.objects.meta import ObjectMeta, View
from shepherd.api.objects.pod import Container, PodSpec
from shepherd.api.resource import Object
from shepherd.runtime.base import UNLIMITED, ContainerInfo, ContainerState, Resources, SandboxInfo

TERMINAL = ("Succeeded", "Failed")


class BoundPod(View):
    """A pod of this node: its spec to decide by, its status as JSON because the agent writes it."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return self.status.get("phase") in TERMINAL


@dataclass(frozen=True, slots=True)
class Failure:
    """What did not work and will be tried again at `retry_at` (monotonic seconds)."""

    reason: str
    """A container's waiting reason: ErrImagePull, CreateContainerConfigError..."""
    message: str
    count: int = 1
    """Failures in a row."""
    retry_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why the pod as a whole has failed: not admitted, over its deadline."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container of the spec: what runs of it, and what the worker remembers."""

    spec: Container
    kind: str = "main"
    """main, init, sidecar or ephemeral."""
    current: ContainerInfo | None = None
    """The newest attempt in the pod's present sandbox."""
    previous: ContainerInfo | None = None
    """The attempt before it, from whichever sandbox, or from the pod's status."""
    outdated: tuple[str, ...] = ()
    """Ids of ended attempts that nothing needs any more."""
    image: str = ""
    """The image's id once resolved for the next start."""
    failure: Failure | None = None
    """Why the next start fails."""
    started: bool = True
    """Its startup probe and postStart hook, if any, have succeeded."""
    ready: bool = True
    """Its readiness probe, if any, has succeeded last."""
    unhealthy: str = ""
    """Why it must be killed: a liveness or startup probe, or a postStart hook, failed for good."""
    changed: bool = False
    """Its image is another than the running container was made from."""
    again: bool = False
    """It was stopped to be started anew, with other resources."""
    granted: Resources = UNLIMITED
    """What it may use; what it does is `current.resources`."""
    restart_at: float = 0.0
    """Monotonic seconds before which it may not start again (crash back-off)."""
    backoff_seconds: float = 0.0
    """The crash back-off that leads to `restart_at`."""

    @property
    def latest(self) -> ContainerInfo | None:
        return self.current or self.previous

    @property
    def running(self) -> bool:
        return self.current is not None and self.current.state is ContainerState.RUNNING

    @property
    def resizing(self) -> bool:
        """It was started, and has not got since, what it may use now."""
        if self.current is None or self.kind not in ("main", "sidecar"):
            return False
        return self.current.resources != self.granted

    @property
    def next_attempt(self) -> int:
        return self.latest.attempt + 1 if self.latest else 0


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod at one instant."""

    pod: BoundPod
    now: float
    """Monotonic seconds: what delays are measured by."""
    wall: float
    """Epoch seconds: what time stamps are written from."""
    containers: tuple[ContainerView, ...] = ()
    """In starting order: init containers and sidecars as in the spec, the main ones, then the
    ephemeral ones."""
    sandbox: SandboxInfo | None = None
    """The newest."""
    next_sandbox: int = 0
    """The attempt number of the next sandbox."""
    stale_sandboxes: tuple[str, ...] = ()
    volumes_ready: bool = True
    failure: Failure | None = None
    """Why its volumes or its sandbox cannot be made."""
    verdict: Verdict | None = None
    granted: Resources = UNLIMITED
    """What its containers may use together; what they do is `sandbox.resources`."""
    refused: Verdict | None = None
    """Why it has not been granted the resources that it asks for."""
    resize_failure: Failure | None = None
    """Why its containers have not got what was granted."""
    stop_by: float | None = None
    """Set when the pod must end: monotonic seconds by which its containers are killed."""
    gone: bool = False
    """The API object is gone: nothing is left to report to."""
    cleaned: bool = False
    """Sandboxes and volumes have been removed for good."""
    busy: Mapping[str, float] = field(default_factory=dict)
    """What is being done: key of the action to its deadline (0 where it has none)."""
    host_ip: str = ""
    runtime_name: str = ""

    @property
    def mains(self) -> list[ContainerView]:
        return [c for c in self.containers if c.kind == "main"]

    @property
    def inits(self) -> list[ContainerView]:
        """Init containers and sidecars, in order."""
        return [c for c in self.containers if c.kind in ("init", "sidecar")]

    @property
    def ephemerals(self) -> list[ContainerView]:
        return [c for c in self.containers if c.kind == "ephemeral"]

    @property
    def standing(self) -> bool:
        """There is a sandbox to run containers in."""
        return self.sandbox is not None and self.sandbox.ready


def resizing(view: PodView) -> bool:
    """Resources have been granted that do not hold yet."""
    if view.stop_by is not None or not view.sandbox or run_out(view):
        return False
    policy = view.pod.spec.restart_policy
    return view.sandbox.resources != view.granted or any(
        c.resizing and (c.running or wants_start(c, policy)) for c in view.containers
    )


def is_over(info: ContainerInfo) -> bool:
    """It has ended. One of which nothing is known (UNKNOWN, never started) counts as ended."""
    return info.state is not ContainerState.RUNNING


def succeeded(info: ContainerInfo | None) -> bool:
    """It has run to its end with exit code 0."""
    return info is not None and info.state is ContainerState.EXITED and info.exit_code == 0


def wants_start(container: ContainerView, restart_policy: str) -> bool:
    """Whether the restart policy has it (re)started now or after its back-off.

    Source: kubernetes pkg/kubelet/container ShouldContainerBeRestarted.
    """
    info = container.latest
    if info is None:
        return True
    if container.running or container.kind == "ephemeral":
        return False
    if container.kind == "sidecar" or container.again:
        return True
    if container.kind == "init" and container.current is None:
        return True  # of a sandbox that is gone: all init containers run again
    if container.kind == "init":
        return not succeeded(info) and restart_policy != "Never"
    if restart_policy == "Always":
        return True
    return restart_policy == "OnFailure" and not succeeded(info)


def initialized(view: PodView) -> bool:
    """All init containers of the present sandbox are through, all its sidecars have started.

    A main container that exists proves it: completion does not depend on the init containers
    being still listed (kubernetes/kubernetes issues 86531, 62362).
    """
    return any(c.current for c in view.mains) or next_init(view) is None


def next_init(view: PodView) -> ContainerView | None:
    """The init container or sidecar that the start of the pod waits for; None: none.

    Those before one that exists in the present sandbox are through: they run in order.
    """
    inits = view.inits
    reached = max((i for i, c in enumerate(inits) if c.current), default=0)
    for container in inits[reached:]:
        if container.kind == "sidecar":
            if not (container.running and container.started):
                return container
        elif not succeeded(container.current):
            return container
    return None


def init_failed(view: PodView) -> bool:
    """An init container failed and the restart policy lets the pod fail with it."""
    if view.pod.spec.restart_policy != "Never":
        return False
    return any(
        c.kind == "init" and c.current and is_over(c.current) and not succeeded(c.current)
        for c in view.containers
    )


def run_out(view: PodView) -> bool:
    """The main containers have ended for good (or never will start)."""
    if view.verdict or view.pod.finished or init_failed(view):
        return True
    policy = view.pod.spec.restart_policy
    return all(c.latest and not c.running and not wants_start(c, policy) for c in view.mains)


def container_statuses(status: Object) -> list[Object]:
    """Of all containers of a pod."""
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    return [one for kind in kinds for one in status.get(kind) or ()]


def by_name(statuses: list[Object]) -> dict[str, Object]:
    return {status["name"]: status for status in statuses}
