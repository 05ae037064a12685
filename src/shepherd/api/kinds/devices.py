"""The kinds of resource.k8s.io. Source: kubernetes pkg/apis/resource/v1 and validation."""

from shepherd.api.errors import FieldError
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, column, value_at
from shepherd.api.kinds.checks import immutable
from shepherd.api.kinds.shape import child, fill
from shepherd.api.resource import Column, Object, Resource

_GROUP = "resource.k8s.io"


def _default_devices(spec: Object) -> None:
    """Source: pkg/apis/resource/v1/defaults.go."""
    for request in value_at(spec, "devices.requests") or ():
        exact = request.get("exactly")
        for one in (*((exact,) if exact else ()), *(request.get("firstAvailable") or ())):
            fill(one, {"allocationMode": "ExactCount"})
            if one["allocationMode"] == "ExactCount":
                fill(one, {"count": 1})


def _default_claim(claim: Object) -> None:
    _default_devices(child(claim, "spec"))
    child(claim, "status")


def _same_spec(obj: Object, old: Object) -> list[FieldError]:
    return list(immutable("spec", obj.get("spec"), old.get("spec")))


def _state(claim: Object, now: float) -> str:
    states = ["deleted"] if (claim.get("metadata") or {}).get("deletionTimestamp") else []
    if not value_at(claim, "status.allocation"):
        states.append("pending")
    else:
        states.append("allocated")
        if value_at(claim, "status.reservedFor"):
            states.append("reserved")
    return ",".join(states)


DEVICE_CLASS = Resource(
    group=_GROUP,
    version="v1",
    kind="DeviceClass",
    plural="deviceclasses",
    namespaced=False,
    shown_deleted=True,
    generation=True,
    idle=True,
    validate=validates("resource.v1.DeviceClass"),
)

RESOURCE_CLAIM = Resource(
    group=_GROUP,
    version="v1",
    kind="ResourceClaim",
    plural="resourceclaims",
    shown_deleted=True,
    status=True,
    idle=True,
    columns=(Column("State", _state, description="Whether it has its devices."), AGE),
    default=_default_claim,
    validate=validates("resource.v1.ResourceClaim"),
    validate_update=_same_spec,
)

RESOURCE_CLAIM_TEMPLATE = Resource(
    group=_GROUP,
    version="v1",
    kind="ResourceClaimTemplate",
    plural="resourceclaimtemplates",
    shown_deleted=True,
    idle=True,
    default=lambda template: _default_devices(child(child(template, "spec"), "spec")),
    validate=validates("resource.v1.ResourceClaimTemplate"),
    validate_update=_same_spec,
)

RESOURCE_SLICE = Resource(
    group=_GROUP,
    version="v1",
    kind="ResourceSlice",
    plural="resourceslices",
    namespaced=False,
    shown_deleted=True,
    generation=True,
    idle=True,
    columns=(
        column("Node", "spec.nodeName", "Whose devices these are.", missing=""),
        column("Driver", "spec.driver", "Who manages them."),
        column("Pool", "spec.pool.name", "To which pool they belong."),
        AGE,
    ),
    validate=validates("resource.v1.ResourceSlice"),
    fields=lambda obj: {
        f"spec.{field}": value_at(obj, f"spec.{field}") or "" for field in ("nodeName", "driver")
    },
)

DEVICE_TAINT_RULE = Resource(
    group=_GROUP,
    version="v1",
    kind="DeviceTaintRule",
    plural="devicetaintrules",
    namespaced=False,
    shown_deleted=True,
    status=True,
    generation=True,
    idle=True,
    validate=validates("resource.v1.DeviceTaintRule"),
)
