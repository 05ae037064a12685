"""Pod."""

from shepherd.api.kinds.cells import AGE, NONE
from shepherd.api.kinds.checks import amount
from shepherd.api.kinds.podrules import validate_pod, validate_pod_update
from shepherd.api.kinds.podspec import default_pod
from shepherd.api.kinds.podsummary import summarize
from shepherd.api.kinds.podwarnings import pod_warnings
from shepherd.api.resource import Column, Object, Resource


def _spec(pod: Object) -> Object:
    return pod.get("spec") or {}


def _status(pod: Object) -> Object:
    return pod.get("status") or {}


def _ready(pod: Object, now: float) -> str:
    summary = summarize(pod)
    return f"{summary.ready}/{summary.total}"


def _readiness_gates(pod: Object, now: float) -> str:
    gates = [gate.get("conditionType") for gate in _spec(pod).get("readinessGates") or ()]
    conditions = _status(pod).get("conditions") or ()
    true = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}" if gates else NONE


def _pod_ip(pod: Object, now: float) -> str:
    return _status(pod).get("podIP") or NONE


def _node(pod: Object, now: float) -> str:
    return _spec(pod).get("nodeName") or NONE


def _nominated_node(pod: Object, now: float) -> str:
    return _status(pod).get("nominatedNodeName") or NONE


COLUMNS = (
    Column("Ready", _ready, description="Ready containers of all."),
    Column("Status", lambda pod, now: summarize(pod).status, description="What the pod is doing."),
    Column(
        "Restarts",
        lambda pod, now: summarize(pod).restarts_text(now),
        description="How often containers restarted, and when the last did.",
    ),
    AGE,
    Column("IP", _pod_ip, wide=True, description="The pod's address."),
    Column("Node", _node, wide=True, description="The node that runs the pod."),
    Column("Nominated Node", _nominated_node, wide=True, description="The node that makes room."),
    Column("Readiness Gates", _readiness_gates, wide=True, description="True gates of all."),
)


def _fields(pod: Object) -> dict[str, str]:
    spec, status = _spec(pod), _status(pod)
    return {
        "spec.nodeName": spec.get("nodeName") or "",
        "spec.restartPolicy": spec.get("restartPolicy") or "",
        "spec.schedulerName": spec.get("schedulerName") or "",
        "spec.serviceAccountName": spec.get("serviceAccountName") or "",
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase") or "",
        "status.podIP": status.get("podIP") or "",
        "status.nominatedNodeName": status.get("nominatedNodeName") or "",
    }


def _prepare(pod: Object, old: Object | None) -> None:
    """A new pod is pending, and its quality of service is settled for good."""
    if old is None:
        pod["status"] = {"phase": "Pending", "qosClass": qos_class(_spec(pod))}


def qos_class(spec: Object) -> str:
    """How safe a pod is when memory runs out.

    Guaranteed: every container limits cpu and memory and requests as much. BestEffort: none names
    either. Burstable: all others. Source: kubernetes pkg/apis/core/v1/helper/qos.
    """
    guaranteed, named = True, False
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            resources = container.get("resources") or {}
            requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
            for name in ("cpu", "memory"):
                request, limit = amount(requests.get(name)), amount(limits.get(name))
                positive = bool(limit and limit.nano)
                named = named or positive or bool(request and request.nano)
                guaranteed = guaranteed and positive and request == limit
    if not named:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


POD = Resource(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    shown_deleted=True,
    short_names=("po",),
    categories=("all",),
    status=True,
    graceful=True,
    generation=True,
    columns=COLUMNS,
    default=default_pod,
    prepare=_prepare,
    validate=validate_pod,
    validate_update=validate_pod_update,
    warnings=pod_warnings,
    fields=_fields,
)
