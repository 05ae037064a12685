"""Node."""

from collections.abc import Callable

from shepherd.api.kinds.cells import AGE, NONE, UNKNOWN
from shepherd.api.kinds.shape import child
from shepherd.api.resource import Column, Object, Resource

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def _default(node: Object) -> None:
    child(node, "spec")
    status = child(node, "status")
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _status(node: Object) -> Object:
    return node.get("status") or {}


def _ready(node: Object, now: float) -> str:
    conditions = _status(node).get("conditions") or ()
    states = [c.get("status") == "True" for c in conditions if c.get("type") == "Ready"]
    texts = ["Ready" if state else "NotReady" for state in states] or ["Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        texts.append("SchedulingDisabled")
    return ",".join(texts)


def _roles(node: Object, now: float) -> str:
    labels = (node.get("metadata") or {}).get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE_LABEL) or "")
    return ",".join(sorted(roles - {""})) or NONE


def _address(type: str) -> Callable[[Object, float], str]:
    def cell(node: Object, now: float) -> str:
        addresses = _status(node).get("addresses") or ()
        return next((a.get("address", "") for a in addresses if a.get("type") == type), NONE)

    return cell


def _info(field: str, missing: str = UNKNOWN) -> Callable[[Object, float], str]:
    def cell(node: Object, now: float) -> str:
        return (_status(node).get("nodeInfo") or {}).get(field) or missing

    return cell


def _fields(node: Object) -> dict[str, str]:
    unschedulable = (node.get("spec") or {}).get("unschedulable")
    return {"spec.unschedulable": "true" if unschedulable else "false"}


NODE = Resource(
    group="",
    version="v1",
    kind="Node",
    plural="nodes",
    namespaced=False,
    short_names=("no",),
    status=True,
    status_on_create=True,
    columns=(
        Column("Status", _ready, description="Whether the node takes pods."),
        Column("Roles", _roles, description="The roles that its labels give it."),
        AGE,
        Column("Version", _info("kubeletVersion", ""), description="The agent's version."),
        Column("Internal-IP", _address("InternalIP"), wide=True, description="Its address."),
        Column("External-IP", _address("ExternalIP"), wide=True, description="Its address."),
        Column("OS-Image", _info("osImage"), wide=True, description="The operating system."),
        Column("Kernel-Version", _info("kernelVersion"), wide=True, description="The kernel."),
        Column(
            "Container-Runtime",
            _info("containerRuntimeVersion"),
            wide=True,
            description="What runs its containers.",
        ),
    ),
    default=_default,
    fields=_fields,
)
