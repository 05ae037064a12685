"""ReplicationController, PodTemplate, ControllerRevision.

Source: kubernetes pkg/apis/core/validation, ValidateReplicationController.
"""

from shepherd.api.errors import FieldError, invalid_value
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import (
    AGE,
    NAME,
    TEMPLATE_COLUMNS,
    column,
    labels_text,
    number,
    value_at,
)
from shepherd.api.kinds.checks import IMMUTABLE, Errors
from shepherd.api.kinds.podrules import validate_pods
from shepherd.api.kinds.podspec import default_template
from shepherd.api.kinds.podwarnings import template_warnings
from shepherd.api.kinds.shape import child, fill
from shepherd.api.kinds.workloads import validate_workload
from shepherd.api.resource import Column, Object, Resource


def _default(controller: Object) -> None:
    spec = child(controller, "spec")
    fill(spec, {"replicas": 1})
    template = spec.get("template")
    default_template(template)
    labels = ((template or {}).get("metadata") or {}).get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        child(controller, "metadata").setdefault("labels", dict(labels))
    # Go never omits the counter, and typed clients insist on it.
    fill(child(controller, "status"), {"replicas": 0})


def _validate(controller: Object) -> list[FieldError]:
    """The selector is a plain map of labels; what it says is judged in the usual form."""
    spec = dict(controller.get("spec") or {})
    if spec.get("selector") is not None:
        spec["selector"] = {"matchLabels": spec["selector"]}
    return list(validate_workload(spec, "replicationcontroller"))


REPLICATION_CONTROLLER = Resource(
    group="",
    version="v1",
    kind="ReplicationController",
    plural="replicationcontrollers",
    short_names=("rc",),
    categories=("all",),
    status=True,
    scale=True,
    generation=True,
    orphans=True,
    columns=(
        number("Desired", "spec.replicas", "Pods there should be."),
        number("Current", "status.replicas", "Pods there are."),
        number("Ready", "status.readyReplicas", "Pods that are ready."),
        AGE,
        *TEMPLATE_COLUMNS[:2],
        Column(
            "Selector",
            lambda obj, now: labels_text(value_at(obj, "spec.selector")),
            wide=True,
            description="Which pods belong to it.",
        ),
    ),
    default=_default,
    validate=_validate,
    warnings=lambda obj: template_warnings(value_at(obj, "spec.template")),
    fields=lambda obj: {"status.replicas": str(value_at(obj, "status.replicas") or 0)},
)


def _texts(field: str, obj: Object) -> str:
    containers = value_at(obj, "template.spec.containers") or ()
    return ",".join(container.get(field) or "" for container in containers)


def _validate_template(obj: Object) -> list[FieldError]:
    return list(validate_pods(obj.get("template"), "template", ("Always", "Never", "OnFailure")))


POD_TEMPLATE = Resource(
    group="",
    version="v1",
    kind="PodTemplate",
    plural="podtemplates",
    shown_deleted=True,
    generation=True,
    idle=True,
    columns=(
        NAME,
        Column("Containers", lambda obj, now: _texts("name", obj), description="Their names."),
        Column("Images", lambda obj, now: _texts("image", obj), description="Their images."),
        Column(
            "Pod Labels",
            lambda obj, now: labels_text(value_at(obj, "template.metadata.labels")),
            description="The labels of its pods.",
        ),
    ),
    default=lambda obj: default_template(obj.get("template")),
    validate=_validate_template,
)


def _controller(revision: Object, now: float) -> str:
    for owner in (revision.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner["kind"].lower() + (f".{group}" if group else "")
            return f"{kind}/{owner['name']}"
    return "<none>"


def _validate_revision(revision: Object) -> Errors:
    if (revision.get("revision") or 0) < 0:
        detail = "must be greater than or equal to 0"
        yield invalid_value("revision", revision["revision"], detail)


def _validate_revision_update(revision: Object, old: Object) -> list[FieldError]:
    same = revision.get("data") == old.get("data")
    return [] if same else [invalid_value("data", revision.get("data"), IMMUTABLE)]


CONTROLLER_REVISION = Resource(
    group="apps",
    version="v1",
    kind="ControllerRevision",
    plural="controllerrevisions",
    columns=(
        Column("Controller", _controller, description="Whose revision it is."),
        column("Revision", "revision", "Which one.", missing=0),
        AGE,
    ),
    default=lambda revision: fill(revision, {"revision": 0}),
    validate=validates("apps.v1.ControllerRevision", _validate_revision),
    validate_update=_validate_revision_update,
)
