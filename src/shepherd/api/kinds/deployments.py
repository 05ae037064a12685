"""Deployment."""

from shepherd.api.kinds.cells import AGE, TEMPLATE_COLUMNS
from shepherd.api.kinds.podspec import default_template
from shepherd.api.kinds.shape import child, fill
from shepherd.api.resource import Column, Object, Resource


def _default(deployment: Object) -> None:
    spec = child(deployment, "spec")
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = child(spec, "strategy")
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), {"maxUnavailable": "25%", "maxSurge": "25%"})
    default_template(spec.get("template"))
    child(deployment, "status")


def _ready(deployment: Object, now: float) -> str:
    desired = (deployment.get("spec") or {}).get("replicas") or 0
    return f"{(deployment.get('status') or {}).get('readyReplicas') or 0}/{desired}"


def _updated(deployment: Object, now: float) -> int:
    return (deployment.get("status") or {}).get("updatedReplicas") or 0


def _available(deployment: Object, now: float) -> int:
    return (deployment.get("status") or {}).get("availableReplicas") or 0


DEPLOYMENT = Resource(
    group="apps",
    version="v1",
    kind="Deployment",
    plural="deployments",
    short_names=("deploy",),
    categories=("all",),
    status=True,
    scale=True,
    generation=True,
    columns=(
        Column("Ready", _ready, description="Ready pods of those desired."),
        Column("Up-to-date", _updated, description="Pods of the present template."),
        Column("Available", _available, description="Pods ready for minReadySeconds."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    default=_default,
)
