"""A pod in one line: READY, STATUS and RESTARTS as `kubectl get pods` shows them.

Source: kubernetes pkg/printers/internalversion/printers.go, printPod.
"""

from dataclasses import dataclass

from shepherd.api.conditions import condition_is_true
from shepherd.api.kinds.cells import since
from shepherd.api.resource import Object


@dataclass(frozen=True, slots=True)
class PodSummary:
    ready: int
    """Containers and sidecars that are ready."""
    total: int
    status: str
    """The phase, or what tells more: `CrashLoopBackOff`, `Init:0/1`, `Terminating`, ..."""
    restarts: int
    last_restart: str
    """When the last container to restart had ended (RFC 3339), or empty."""

    def restarts_text(self, now: float) -> str:
        """`3 (5m ago)`."""
        if self.restarts and self.last_restart:
            return f"{self.restarts} ({since(self.last_restart, now)} ago)"
        return str(self.restarts)


def summarize(pod: Object) -> PodSummary:
    """The line of a pod."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    phase = str(status.get("phase") or "")
    sidecars = _sidecars(spec)
    init_statuses = status.get("initContainerStatuses") or []
    blocked, ready = _initialization(spec, init_statuses, sidecars)
    counted = init_statuses
    text = blocked or _phase_or_reason(status, phase)
    if not blocked or condition_is_true(pod, "Initialized"):
        containers = status.get("containerStatuses") or []
        counted = [s for s in init_statuses if s.get("name") in sidecars] + containers
        text = _containers_text(containers, text, ready_condition=condition_is_true(pod, "Ready"))
        ready += sum(1 for container in containers if _runs_ready(container))
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            text = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            text = "Terminating"
    return PodSummary(
        ready=ready,
        total=len(spec.get("containers") or ()) + len(sidecars),
        status=text,
        restarts=sum(container.get("restartCount") or 0 for container in counted),
        last_restart=max((_last_end(container) for container in counted), default=""),
    )


def _sidecars(spec: Object) -> set[str]:
    """Init containers that restart for ever: they run beside the others."""
    init = spec.get("initContainers") or ()
    return {c.get("name", "") for c in init if c.get("restartPolicy") == "Always"}


def _phase_or_reason(status: Object, phase: str) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or phase)


def _initialization(spec: Object, statuses: list[Object], sidecars: set[str]) -> tuple[str, int]:
    """What the first init container that is not done says (or nothing), and the ready sidecars."""
    ready = 0
    for index, container in enumerate(statuses):
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated and not terminated.get("exitCode"):
            continue
        if container.get("name") in sidecars and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if terminated:
            return f"Init:{_termination(terminated)}", ready
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}", ready
        return f"Init:{index}/{len(spec.get('initContainers') or ())}", ready
    return "", ready


def _termination(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _runs_ready(container: Object) -> bool:
    state = container.get("state") or {}
    return bool(container.get("ready")) and "running" in state


def _containers_text(containers: list[Object], text: str, *, ready_condition: bool) -> str:
    running = False
    for container in reversed(containers):
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            text = waiting["reason"]
        elif terminated:
            text = _termination(terminated)
        elif _runs_ready(container):
            running = True
    if text == "Completed" and running:
        return "Running" if ready_condition else "NotReady"
    return text


def _last_end(container: Object) -> str:
    last = (container.get("lastState") or {}).get("terminated") or {}
    return str(last.get("finishedAt") or "")
