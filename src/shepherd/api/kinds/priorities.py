"""PriorityClass. Source: kubernetes pkg/apis/scheduling/validation."""

from shepherd.api.errors import FieldError, forbidden_field, invalid_value
from shepherd.api.kinds.cells import AGE, column, number
from shepherd.api.kinds.checks import Errors, immutable, one_of
from shepherd.api.kinds.shape import fill
from shepherd.api.resource import Column, Object, Resource

SYSTEM_CLASSES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}
"""Name -> value and description of the two classes that every cluster has."""
_HIGHEST = 1_000_000_000
"""Of the values that users may give."""


def _default(priority_class: Object) -> None:
    fill(priority_class, {"value": 0, "preemptionPolicy": "PreemptLowerPriority"})


def _validate(priority_class: Object) -> list[FieldError]:
    return list(_validate_class(priority_class))


def _validate_class(priority_class: Object) -> Errors:
    name = (priority_class.get("metadata") or {}).get("name") or ""
    value = priority_class.get("value") or 0
    if name in SYSTEM_CLASSES:
        if value != SYSTEM_CLASSES[name][0]:
            yield forbidden_field("value", f"value must be {SYSTEM_CLASSES[name][0]}")
    elif name.startswith("system-"):
        detail = (
            "priority class names with 'system-' prefix are reserved for system use only. error: "
            f"{name} is not a known system priority class"
        )
        yield forbidden_field("metadata.name", detail)
    elif value > _HIGHEST:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        yield forbidden_field("value", detail)
    elif value < -(2**31):
        yield invalid_value("value", value, "must fit 32 bits")
    policy = priority_class.get("preemptionPolicy")
    yield from one_of("preemptionPolicy", policy, ("Never", "PreemptLowerPriority"))


def _validate_update(priority_class: Object, old: Object) -> list[FieldError]:
    """Pods have taken these over."""
    found: list[FieldError] = []
    if priority_class.get("value") != old.get("value"):
        found.append(forbidden_field("value", "may not be changed in an update."))
    new, before = priority_class.get("preemptionPolicy"), old.get("preemptionPolicy")
    return [*found, *immutable("preemptionPolicy", new, before)]


PRIORITY_CLASS = Resource(
    group="scheduling.k8s.io",
    version="v1",
    kind="PriorityClass",
    plural="priorityclasses",
    namespaced=False,
    short_names=("pc",),
    generation=True,
    columns=(
        number("Value", "value", "How important its pods are."),
        Column(
            "Global-Default",
            lambda obj, now: "true" if obj.get("globalDefault") else "false",
            description="Whether pods that name no class get it.",
        ),
        AGE,
        column("PreemptionPolicy", "preemptionPolicy", "May its pods displace others?"),
    ),
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
)
