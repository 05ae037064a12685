"""RuntimeClass, StorageVersionMigration, APIService, ComponentStatus: the cluster itself.

Source: kubernetes pkg/apis/node/validation; kube-aggregator pkg/apis/apiregistration/validation.
"""

from shepherd.api.errors import FieldError, invalid_value
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, NAME, column, value_at
from shepherd.api.kinds.checks import Errors, immutable, needed, quantities
from shepherd.api.kinds.shape import child
from shepherd.api.names import dns1123_label
from shepherd.api.resource import Column, Object, Resource


def _validate_runtime(runtime_class: Object) -> Errors:
    yield from needed("handler", runtime_class.get("handler"), dns1123_label)
    yield from quantities("overhead.podFixed", value_at(runtime_class, "overhead.podFixed"))


def _same_handler(runtime_class: Object, old: Object) -> list[FieldError]:
    return list(immutable("handler", runtime_class.get("handler"), old.get("handler")))


RUNTIME_CLASS = Resource(
    group="node.k8s.io",
    version="v1",
    kind="RuntimeClass",
    plural="runtimeclasses",
    namespaced=False,
    idle=True,
    columns=(column("Handler", "handler", "What runs its pods."), AGE),
    validate=lambda obj: list(_validate_runtime(obj)),
    validate_update=_same_handler,
)

STORAGE_VERSION_MIGRATION = Resource(
    group="storagemigration.k8s.io",
    version="v1",
    kind="StorageVersionMigration",
    plural="storageversionmigrations",
    namespaced=False,
    status=True,
    idle=True,
    validate=validates("storagemigration.v1.StorageVersionMigration"),
)


def _validate_service(service: Object) -> Errors:
    spec = service.get("spec") or {}
    group, version = spec.get("group") or "", spec.get("version") or ""
    name = value_at(service, "metadata.name") or ""
    if name != f"{version}.{group}":
        detail = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        yield invalid_value("metadata.name", name, detail)
    for field, highest in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        if not 0 < (spec.get(field) or 0) <= highest:
            detail = f"must be positive and less than {highest}"
            yield invalid_value(f"spec.{field}", spec.get(field) or 0, detail)


def _backend(service: Object, now: float) -> str:
    found = value_at(service, "spec.service")
    return f"{found.get('namespace')}/{found.get('name')}" if found else "Local"


def _available(service: Object, now: float) -> str:
    for condition in value_at(service, "status.conditions") or ():
        if condition.get("type") == "Available":
            if condition.get("status") == "True":
                return "True"
            return f"{condition.get('status')} ({condition.get('reason')})"
    return "Unknown"


def _default_service(service: Object) -> None:
    child(service, "status")
    if backend := value_at(service, "spec.service"):
        backend.setdefault("port", 443)


API_SERVICE = Resource(
    group="apiregistration.k8s.io",
    version="v1",
    kind="APIService",
    plural="apiservices",
    namespaced=False,
    categories=("api-extensions",),
    status=True,
    status_on_create=True,
    name_rule="path",
    columns=(
        Column("Service", _backend, description="Who serves it."),
        Column("Available", _available, description="Whether it is served."),
        AGE,
    ),
    default=_default_service,
    validate=validates("apiregistration.v1.APIService", _validate_service),
)


def _condition(field: str, missing: str = "") -> Column:
    def cell(status: Object, now: float) -> str:
        for condition in status.get("conditions") or ():
            if condition.get("type") == "Healthy":
                value = condition.get(field) or missing
                return {"True": "Healthy", "False": "Unhealthy"}.get(value, value)
        return missing

    return Column(field.capitalize(), cell, description="Of the condition `Healthy`.")


COMPONENT_STATUS = Resource(
    group="",
    version="v1",
    kind="ComponentStatus",
    plural="componentstatuses",
    namespaced=False,
    short_names=("cs",),
    verbs=("get", "list"),
    columns=(NAME, _condition("status", "Unknown"), _condition("message"), _condition("error")),
)
