"""ReplicaSet."""

from shepherd.api.errors import FieldError
from shepherd.api.kinds.cells import AGE, TEMPLATE_COLUMNS
from shepherd.api.kinds.podspec import default_template
from shepherd.api.kinds.podwarnings import template_warnings
from shepherd.api.kinds.shape import child, fill
from shepherd.api.kinds.workloads import validate_workload, validate_workload_update
from shepherd.api.resource import Column, Object, Resource


def _default(replica_set: Object) -> None:
    spec = child(replica_set, "spec")
    fill(spec, {"replicas": 1})
    default_template(spec.get("template"))
    # Go never omits the counter, and typed clients insist on it.
    fill(child(replica_set, "status"), {"replicas": 0})


def _validate(replica_set: Object) -> list[FieldError]:
    return list(validate_workload(replica_set.get("spec") or {}, "replicaset"))


def _warnings(replica_set: Object) -> list[str]:
    return template_warnings((replica_set.get("spec") or {}).get("template"))


def _desired(replica_set: Object, now: float) -> int:
    return (replica_set.get("spec") or {}).get("replicas") or 0


def _current(replica_set: Object, now: float) -> int:
    return (replica_set.get("status") or {}).get("replicas") or 0


def _ready(replica_set: Object, now: float) -> int:
    return (replica_set.get("status") or {}).get("readyReplicas") or 0


def _fields(replica_set: Object) -> dict[str, str]:
    return {"status.replicas": str(_current(replica_set, 0))}


REPLICA_SET = Resource(
    group="apps",
    version="v1",
    kind="ReplicaSet",
    plural="replicasets",
    short_names=("rs",),
    categories=("all",),
    status=True,
    scale=True,
    generation=True,
    columns=(
        Column("Desired", _desired, type="integer", description="Pods there should be."),
        Column("Current", _current, type="integer", description="Pods there are."),
        Column("Ready", _ready, type="integer", description="Pods that are ready."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    default=_default,
    validate=_validate,
    validate_update=validate_workload_update,
    warnings=_warnings,
    fields=_fields,
)
