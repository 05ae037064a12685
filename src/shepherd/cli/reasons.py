"""Why an object is not as it should be: pure functions from what is known to findings.

What the scheduler, the controllers and the agents know stands in conditions, container states and
events; here it is put together, and what a person may do about it is said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shepherd.api.conditions import condition_is_true
from shepherd.api.kinds import NAMESPACE, POD
from shepherd.api.kinds.cells import since
from shepherd.api.kinds.podsummary import summarize
from shepherd.api.resource import Object, Resource
from shepherd.cli.events import last_seen
from shepherd.cli.sections import state_text
from shepherd.cli.targets import reference
from shepherd.scheduler.explain import Objection

FOREGROUND = "foregroundDeletion"
_KNOWN_FINALIZERS = {
    FOREGROUND: "it goes after all that it owns",
    "orphan": "the garbage collector is to let go what it owns",
    "kubernetes.io/pvc-protection": "it goes after the last pod that uses it",
    "kubernetes.io/pv-protection": "it goes after its claim",
}
_BAD_WHEN_TRUE = {
    "Degraded", "Denied", "DiskPressure", "DisruptionTarget", "Failed", "FailureTarget",
    "MemoryPressure", "NetworkUnavailable", "NonStructuralSchema", "PIDPressure", "ReplicaFailure",
    "Stalled", "Suspended", "Terminating",
}  # fmt: skip
"""Types of conditions that are well when False; those of namespaces that begin so are too."""
_NAMESPACE_PREFIX = "Namespace"
_HELD_BACK = {
    "paused": "it is paused: spec.paused is true",
    "suspend": "it is suspended: spec.suspend is true",
    "unschedulable": "it is cordoned and takes no new pods: spec.unschedulable is true",
}
_UNWELL = ("Failed", "Lost", "Pending", "Unknown")
"""Phases that are no one's aim."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, and under it what stands behind it."""

    text: str
    under: tuple["Finding", ...] = ()


def lines(findings: Iterable[Finding], indent: str = "") -> list[str]:
    """The tree as text, two spaces a level."""
    found = []
    for finding in findings:
        found += [indent + finding.text, *lines(finding.under, indent + "  ")]
    return found


def conditions(obj: Object, *, of: Iterable[str] | None = None) -> list[Finding]:
    """The conditions that say that something is wrong; of the types `of` alone, if given."""
    found = []
    for condition in (obj.get("status") or {}).get("conditions") or ():
        kind, status = str(condition.get("type")), condition.get("status")
        bad_when_true = kind in _BAD_WHEN_TRUE or kind.startswith(_NAMESPACE_PREFIX)
        wrong = status == "True" if bad_when_true else status != "True"
        if wrong and (of is None or kind in of):
            reason = f" ({condition['reason']})" if condition.get("reason") else ""
            message = f": {condition['message']}" if condition.get("message") else ""
            found.append(Finding(f"{kind}={status}{reason}{message}"))
    return found


def held_back(obj: Object) -> list[Finding]:
    """What its spec holds back, and a phase that is not well."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    found = [Finding(text) for name, text in _HELD_BACK.items() if spec.get(name) is True]
    if (phase := status.get("phase")) in _UNWELL:
        found.append(Finding(f"it is {phase}: {status.get('message') or 'no cause is told'}"))
    return found


def warnings(events: Iterable[Object], now: float, known: Object) -> list[Finding]:
    """The latest warning of each reason, but for those that a condition of the object repeats or,
    of a pod, the state that a container waits in."""
    status = known.get("status") or {}
    said = {c.get("reason") for c in status.get("conditions") or ()}
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(key) or ():
            if waiting := (container.get("state") or {}).get("waiting"):
                said |= {"BackOff", waiting.get("reason"), waiting.get("message")}
    latest = {e.get("reason"): e for e in sorted(events, key=last_seen)}
    return [
        Finding(f"{reason}: {event.get('message')} ({since(last_seen(event)[0], now)} ago)")
        for reason, event in latest.items()
        if event.get("type") == "Warning"
        and reason not in said
        and str(event.get("message")).removeprefix("Error: ") not in said
    ]


# -- why it is still there ----------------------------------------------------------------------


def staying(
    resource: Resource, obj: Object, node: Object | None, owned: Sequence[str], now: float
) -> list[Finding]:
    """What holds an object whose deletion was asked for.

    `node` is a pod's own, if it is known; `owned` names what a foreground deletion waits for.
    """
    metadata = obj["metadata"]
    held = since(metadata["deletionTimestamp"], now)
    found = [
        Finding(
            finalizer(resource, metadata, name, held),
            tuple(map(Finding, owned)) if name == FOREGROUND else (),
        )
        for name in metadata.get("finalizers") or ()
    ]
    if resource is POD and not found:
        found.append(_stopping(obj, node, held))
    if resource is NAMESPACE:
        found += conditions(obj)
    return found or [Finding(f"nothing holds it: it should go any moment, after {held}")]


def finalizer(resource: Resource, metadata: Object, name: str, held: str) -> str:
    """What a finalizer that has held an object for a time waits for, and how it is taken off."""
    text = f'finalizer "{name}" has held it for {held}'
    if name in _KNOWN_FINALIZERS:
        return f"{text}: {_KNOWN_FINALIZERS[name]}"
    space = f" -n {metadata['namespace']}" if metadata.get("namespace") else ""
    patch = """--type=merge -p '{"metadata":{"finalizers":null}}'"""
    return (
        f"{text}: who set it is to take it off. If that is gone for good: "
        f"kubectl patch {reference(resource, metadata['name'])}{space} {patch}"
    )


def _stopping(pod: Object, node: Object | None, held: str) -> Finding:
    name = pod["spec"].get("nodeName", "")
    if node is None:
        return Finding(f'its node "{name}" is gone: the garbage collector removes it within 1m')
    if not condition_is_true(node, "Ready"):
        return Finding(
            f'node "{name}" is not Ready and cannot say that the containers have ended; '
            f"if it is off for good: kubectl delete node {name}",
            tuple(conditions(node, of=("Ready",))),
        )
    grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
    return Finding(f"its containers have {grace}s to stop, which end {held} ago")


# -- why a pod does not run -----------------------------------------------------------------------


def unplaced(pod: Object, verdicts: Mapping[str, Sequence[Objection]]) -> list[Finding]:
    """Why a pod has no node: what each node has against it, by the scheduler's own plugins."""
    spec = pod["spec"]
    if gates := [gate["name"] for gate in spec.get("schedulingGates") or ()]:
        return [Finding(f"SchedulingGates: held back until these are removed: {', '.join(gates)}")]
    if not verdicts:
        return [Finding("there are no nodes")]
    free = [name for name, objections in verdicts.items() if not objections]
    if free:
        text = f"room on {', '.join(free[:3])}: its scheduler is to bind it"
        return [Finding(f"{text} ({spec.get('schedulerName', 'default-scheduler')})")]
    nodes = (
        Finding(f"{name}: {'; '.join(map(_objection, objections))}")
        for name, objections in verdicts.items()
    )
    return [Finding(f"none of {len(verdicts)} nodes can take it", tuple(nodes))]


def _objection(objection: Objection) -> str:
    detail = f" ({objection.detail})" if objection.detail else ""
    return f"{objection.plugin}: {objection.reason}{detail}"


def not_running(pod: Object, node: Object | None, now: float) -> list[Finding]:
    """What keeps a pod that has a node from being ready."""
    spec, status = pod["spec"], pod.get("status") or {}
    if status.get("phase") == "Failed":
        text = f"it has ended: {summarize(pod).status}"
        return [Finding(f"{text}: {status['message']}" if status.get("message") else text)]
    found = []
    if node is not None and not condition_is_true(node, "Ready"):
        found.append(Finding(f'node "{spec["nodeName"]}" is not Ready', tuple(conditions(node))))
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            done = (container.get("state") or {}).get("terminated") or {}
            if not container.get("ready") and done.get("exitCode") != 0:
                found.append(_container(container, now))
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    said = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    found += [Finding(f"readiness gate {gate} is not True") for gate in gates if gate not in said]
    return found


def _container(container: Object, now: float) -> Finding:
    state = container.get("state") or {}
    text = f"container {container['name']}: {state_text(state, now)}"
    if state.get("running"):
        text += ", not ready"
    last = container.get("lastState") or {}
    under = (Finding(f"before that: {state_text(last, now)}"),) if last else ()
    return Finding(text, under)
