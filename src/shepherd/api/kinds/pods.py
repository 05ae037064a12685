"""Pod."""

from shepherd.api.kinds.cells import AGE, NONE
from shepherd.api.kinds.podspec import default_pod
from shepherd.api.kinds.podsummary import summarize
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


POD = Resource(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    short_names=("po",),
    categories=("all",),
    status=True,
    graceful=True,
    generation=True,
    columns=COLUMNS,
    default=default_pod,
    fields=_fields,
)
