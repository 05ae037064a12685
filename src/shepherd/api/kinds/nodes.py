"""Node."""

from collections.abc import Callable

from shepherd.api.errors import FieldError, duplicate, forbidden_field
from shepherd.api.kinds.cells import AGE, NONE, UNKNOWN
from shepherd.api.kinds.checks import Errors, needed, one_of, quantities, text
from shepherd.api.kinds.scheduling import EFFECTS
from shepherd.api.kinds.shape import child
from shepherd.api.names import label_value, qualified_name
from shepherd.api.resource import Column, Object, Resource

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def _default(node: Object) -> None:
    child(node, "spec")
    status = child(node, "status")
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _validate(node: Object) -> list[FieldError]:
    status = _status(node)
    return [
        *_validate_taints((node.get("spec") or {}).get("taints") or []),
        *quantities("status.capacity", status.get("capacity")),
        *quantities("status.allocatable", status.get("allocatable")),
    ]


def _validate_taints(taints: list[Object]) -> Errors:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        at, key, effect = f"spec.taints[{index}]", taint.get("key"), taint.get("effect")
        yield from needed(f"{at}.key", key, qualified_name)
        yield from text(f"{at}.value", taint.get("value") or "", label_value)
        yield from needed(f"{at}.effect", effect)
        yield from one_of(f"{at}.effect", effect, EFFECTS)
        if (key or "", effect or "") in seen:
            yield duplicate(at, taint)
        seen.add((key or "", effect or ""))


def _validate_update(node: Object, old: Object) -> list[FieldError]:
    """What pods were given addresses by, and what a cloud knows the node by, stays."""
    spec, before = node.get("spec") or {}, old.get("spec") or {}
    found: list[FieldError] = []
    for field in ("podCIDRs", "providerID"):
        if before.get(field) and spec.get(field) != before[field]:
            detail = f'node updates may not change {field} except from "" to valid'
            found.append(forbidden_field(f"spec.{field}", detail))
    return found


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
    validate=_validate,
    validate_update=_validate_update,
    fields=_fields,
)
