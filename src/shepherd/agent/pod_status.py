"""The status of a pod, from what the agent sees of it. Pure.

`status` makes the whole PodStatus that the agent owns, `patch` the difference to write. Source of
the rules: kubernetes pkg/kubelet generateAPIPodStatus, getPhase, convertToAPIContainerStatuses and
pkg/kubelet/status/generate.go.
"""

from typing import Any

from shepherd.agent.pod_state import (
    TERMINAL,
    ContainerView,
    PodView,
    by_name,
    initialized,
    is_over,
    run_out,
    succeeded,
    wants_start,
)
from shepherd.api.meta import format_time
from shepherd.api.resource import Object
from shepherd.runtime.base import ContainerInfo, ContainerState


def status(view: PodView, old: Object) -> Object:
    """The pod's status now; `old` is what was said last (of an adopted pod: the API's)."""
    new: Object = {}
    inits = [_container_status(view, c, old, "initContainerStatuses") for c in view.inits]
    mains = [_container_status(view, c, old, "containerStatuses") for c in view.mains]
    if not _refused(view, old):
        if inits:
            new["initContainerStatuses"] = inits
        new["containerStatuses"] = mains
    if view.ephemerals:
        new["ephemeralContainerStatuses"] = [
            _container_status(view, c, old, "ephemeralContainerStatuses") for c in view.ephemerals
        ]
    new["phase"] = _phase(view, old)
    new |= _why(view, old)
    new |= _addresses(view, old)
    new["startTime"] = old.get("startTime") or format_time(view.wall)
    new["observedGeneration"] = view.pod.metadata.generation
    new["conditions"] = _conditions(view, old, new)
    return new


def _refused(view: PodView, old: Object) -> bool:
    """The node never took it: of its containers there is nothing to tell."""
    told = old.get("containerStatuses") or any(c.latest for c in view.containers)
    return view.verdict is not None and not told


def patch(old: Object, new: Object) -> Object:
    """A strategic merge patch of `status` that turns what the agent owns in `old` into `new`.

    Conditions are merged by type, so those of others stay; null takes a field away. Empty when
    nothing differs.
    """
    changes: Object = {
        name: new.get(name)
        for name in {*old, *new} & {*_OWNED, *new}
        if name != "conditions" and old.get(name) != new.get(name)
    }
    for name in ("podIPs", "hostIPs"):
        if changes.get(name):
            changes[name] = [*changes[name], {"$patch": "replace"}]
    known = {c["type"]: _said(c) for c in old.get("conditions", ())}
    changed = [
        dict.fromkeys(known.get(c["type"], ())) | c
        for c in new["conditions"]
        if known.get(c["type"]) != _said(c)
    ]
    if changed:
        changes["conditions"] = changed
    return changes


def _said(condition: Object) -> Object:
    """A condition without the empty fields that the API fills in (`lastProbeTime`)."""
    return {name: value for name, value in condition.items() if value is not None}


_OWNED = ("reason", "message", "podIP", "podIPs", "hostIP", "hostIPs", "initContainerStatuses")
"""Fields that the agent takes away again when it has nothing to say in them."""


# Containers


def _container_status(view: PodView, c: ContainerView, old: Object, field: str) -> Object:
    before = by_name(old.get(field, [])).get(c.spec.name, {})
    over = old.get("phase") in TERMINAL
    pruned = c.kind == "init" and any(main.current for main in view.mains)
    if (over or pruned) and c.current is None and before:
        return before
    state = _state(view, c)
    info = c.latest
    result: Object = {
        "name": c.spec.name,
        "state": state,
        "lastState": _last_state(view, c, state, before),
        "ready": _ready(c),
        "restartCount": info.attempt if info else before.get("restartCount", 0),
        "image": info.image_ref if info and info.image_ref else c.spec.image,
        "imageID": info.image if info else "",
        "started": c.running and c.started,
    }
    if info and info.id:
        result["containerID"] = f"{view.runtime_name}://{info.id}"
    return result


def _ready(c: ContainerView) -> bool:
    if c.kind == "init":
        return succeeded(c.current)
    if c.kind == "ephemeral":
        return False
    return c.running and c.started and c.ready


def _state(view: PodView, c: ContainerView) -> Object:
    """Its state: waiting, running or terminated."""
    info = c.latest
    if c.running and c.current:
        return {"running": {"startedAt": format_time(c.current.started_at)}}
    ended = info is not None and info.state is not ContainerState.CREATED
    ending = view.stop_by is not None or run_out(view)
    if ending or not wants_start(c, view.pod.spec.restart_policy):
        return (
            {"terminated": terminated(info, view.runtime_name)}
            if ended and info
            else _waiting(view, c)
        )
    if ended and info and c.current and not c.failure and not c.restart_at:
        return {"terminated": terminated(info, view.runtime_name)}
    return _waiting(view, c)


def _waiting(view: PodView, c: ContainerView) -> Object:
    if c.failure:
        return {"waiting": {"reason": c.failure.reason, "message": c.failure.message}}
    if c.latest and c.restart_at > view.now:
        pod = view.pod.metadata
        message = (
            f"back-off {_duration(c.backoff_seconds)} restarting failed container={c.spec.name} "
            f"pod={pod.name}_{pod.namespace}({pod.uid})"
        )
        if c.latest.finished_at:
            again = format_time(c.latest.finished_at + c.backoff_seconds)
            message += f", next try at {again}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    reason = "PodInitializing" if view.pod.spec.init_containers else "ContainerCreating"
    return {"waiting": {"reason": reason}}


def _duration(seconds: float) -> str:
    """As Go writes a time.Duration: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _last_state(view: PodView, c: ContainerView, state: Object, before: Object) -> Object:
    """How the attempt before the one in `state` ended."""
    past: ContainerInfo | None = c.previous if c.current else None
    if "waiting" in state:
        past = c.latest
    if past and is_over(past) and past.state is not ContainerState.CREATED:
        return {"terminated": _ended(view, past, before)}
    last: Object = before.get("lastState") or {}
    return last


def _ended(view: PodView, info: ContainerInfo, before: Object) -> Object:
    """The end of a container; the words of the former status where it told of the same one."""
    for state in (before.get("state", {}), before.get("lastState", {})):
        end: Object = state.get("terminated", {})
        if end and end.get("containerID", "").endswith(f"://{info.id}"):
            return end
    return terminated(info, view.runtime_name)


def terminated(info: ContainerInfo, runtime_name: str) -> Object:
    """ContainerStateTerminated of an ended container."""
    unknown = info.state is not ContainerState.EXITED
    end: Object = {
        "exitCode": 137 if unknown else info.exit_code,
        "reason": "ContainerStatusUnknown" if unknown else info.reason or _reason(info),
    }
    if info.started_at:
        end["startedAt"] = format_time(info.started_at)
    if info.finished_at:
        end["finishedAt"] = format_time(info.finished_at)
    if info.message:
        end["message"] = info.message
    if info.id:
        end["containerID"] = f"{runtime_name}://{info.id}"
    return end


def _reason(info: ContainerInfo) -> str:
    return "Error" if info.exit_code else "Completed"


# The pod


def _phase(view: PodView, old: Object) -> str:
    """Terminal only once nothing runs any more, and then for ever."""
    if old.get("phase") in TERMINAL:
        return str(old["phase"])
    unstarted = not initialized(view) or not all(c.latest for c in view.mains)
    if "start" in view.busy or any(c.running for c in view.containers):
        return "Pending" if unstarted else "Running"
    if run_out(view) or view.stop_by is not None:
        completed = not view.verdict and all(succeeded(c.latest) for c in view.mains)
        return "Succeeded" if completed else "Failed"
    return "Pending" if unstarted else "Running"


def _why(view: PodView, old: Object) -> Object:
    if view.verdict:
        return {"reason": view.verdict.reason, "message": view.verdict.message}
    return {name: old[name] for name in ("reason", "message") if old.get(name)}


def _addresses(view: PodView, old: Object) -> Object:
    """Host and pod addresses; those of a pod that has ended are remembered."""
    result: Object = {}
    if view.host_ip:
        result |= {"hostIP": view.host_ip, "hostIPs": [{"ip": view.host_ip}]}
    if view.sandbox and view.sandbox.ready:
        own = [view.host_ip] if view.pod.spec.host_network else list(view.sandbox.addresses)
        if own:
            return result | {"podIP": own[0], "podIPs": [{"ip": address} for address in own]}
    if old.get("podIP"):
        result |= {"podIP": old["podIP"], "podIPs": old.get("podIPs") or [{"ip": old["podIP"]}]}
    return result


def _conditions(view: PodView, old: Object, new: Object) -> list[Object]:
    """The agent's conditions; a transition time changes only with the status."""
    known = {c["type"]: c for c in old.get("conditions", ())}
    ready = _containers_ready(view, new)
    found: dict[str, Any] = {
        "PodReadyToStartContainers": (view.standing and not view.cleaned, "", ""),
        "Initialized": _initialized(view, new),
        "ContainersReady": ready,
        "Ready": _pod_ready(view, known, ready),
    }
    result = []
    for kind, (holds, reason, message) in found.items():
        value = "True" if holds else "False"
        before = known.get(kind, {})
        since = before.get("lastTransitionTime") if before.get("status") == value else None
        condition: Object = {
            "type": kind,
            "status": value,
            "lastTransitionTime": since or format_time(view.wall),
        }
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        result.append(condition)
    return result


_Finding = tuple[bool, str, str]


def _initialized(view: PodView, new: Object) -> _Finding:
    if new["phase"] == "Succeeded":
        return True, "PodCompleted", ""
    if initialized(view) or any(c.latest for c in view.mains):
        return True, "", ""
    statuses = by_name(new.get("initContainerStatuses", []))
    waiting = [
        c.spec.name
        for c in view.inits
        if not statuses.get(c.spec.name, {}).get("started" if c.kind == "sidecar" else "ready")
    ]
    return False, "ContainersNotInitialized", _names("containers with incomplete status", waiting)


def _containers_ready(view: PodView, new: Object) -> _Finding:
    if new["phase"] == "Succeeded":
        return False, "PodCompleted", ""
    if new["phase"] == "Failed":
        return False, "PodFailed", ""
    unready = [
        c.spec.name for c in view.containers if c.kind in ("main", "sidecar") and not _ready(c)
    ]
    if unready:
        return False, "ContainersNotReady", _names("containers with unready status", unready)
    return True, "", ""


def _pod_ready(view: PodView, known: dict[str, Object], ready: _Finding) -> _Finding:
    if not ready[0]:
        return ready
    messages = []
    for gate in view.pod.spec.readiness_gates:
        condition = known.get(gate.condition_type) or _condition_of(view, gate.condition_type)
        if condition is None:
            messages.append(
                f'corresponding condition of pod readiness gate "{gate.condition_type}" '
                "does not exist."
            )
        elif condition.get("status") != "True":
            messages.append(
                f'the status of pod readiness gate "{gate.condition_type}" is not "True", '
                f"but {condition.get('status')}"
            )
    if messages:
        return False, "ReadinessGatesNotReady", ", ".join(messages)
    return True, "", ""


def _condition_of(view: PodView, type: str) -> Object | None:
    """A condition that somebody else wrote to the API."""
    for condition in view.pod.status.get("conditions", ()):
        if condition["type"] == type:
            return dict(condition)
    return None


def _names(text: str, names: list[str]) -> str:
    return f"{text}: [{' '.join(names)}]"
