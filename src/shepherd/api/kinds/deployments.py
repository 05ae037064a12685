"""Deployment."""

import re
from typing import Any

from shepherd.api.errors import FieldError, forbidden_field, invalid_value
from shepherd.api.kinds.cells import AGE, TEMPLATE_COLUMNS
from shepherd.api.kinds.checks import Errors, at_least, needed, one_of
from shepherd.api.kinds.podspec import default_template
from shepherd.api.kinds.podwarnings import template_warnings
from shepherd.api.kinds.shape import child, fill
from shepherd.api.kinds.workloads import (
    surge_warnings,
    validate_workload,
    validate_workload_update,
)
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


_PERCENT = re.compile("[0-9]{1,9}%")


def _validate(deployment: Object) -> list[FieldError]:
    spec = deployment.get("spec") or {}
    return [*validate_workload(spec, "deployment"), *_validate_rollout(spec)]


def _validate_rollout(spec: Object) -> Errors:
    """Source: kubernetes pkg/apis/apps/validation, ValidateDeploymentSpec."""
    deadline, min_ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    yield from at_least("spec.progressDeadlineSeconds", deadline)
    if isinstance(deadline, int) and deadline <= min_ready:
        detail = "must be greater than minReadySeconds"
        yield invalid_value("spec.progressDeadlineSeconds", deadline, detail)
    strategy = spec.get("strategy") or {}
    yield from needed("spec.strategy.type", strategy.get("type"))
    yield from one_of("spec.strategy.type", strategy.get("type"), ("Recreate", "RollingUpdate"))
    at, rolling = "spec.strategy.rollingUpdate", strategy.get("rollingUpdate")
    if not rolling:
        return
    if strategy.get("type") == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden_field(at, detail)
        return
    surge, unavailable = rolling.get("maxSurge"), rolling.get("maxUnavailable")
    yield from validate_share(f"{at}.maxUnavailable", unavailable)
    yield from validate_share(f"{at}.maxSurge", surge)
    if unavailable in (0, "0%") and surge in (0, "0%"):
        detail = "may not be 0 when `maxSurge` is 0"
        yield invalid_value(f"{at}.maxUnavailable", unavailable, detail)
    if isinstance(unavailable, str) and percent(unavailable) > 100:
        yield invalid_value(f"{at}.maxUnavailable", unavailable, "must not be greater than 100%")


def percent(share: str) -> int:
    """The number before `%`; 0 for a text that is no percentage."""
    return int(share[:-1]) if _PERCENT.fullmatch(share) else 0


def validate_share(path: str, share: Any) -> Errors:
    """A number of pods, or a percentage of the replicas."""
    if isinstance(share, str) and not _PERCENT.fullmatch(share):
        detail = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%', or '93%', regex used for validation is '[0-9]+%')"
        )
        yield invalid_value(path, share, detail)
    yield from at_least(path, share)


def _warnings(deployment: Object) -> list[str]:
    spec = deployment.get("spec") or {}
    return template_warnings(spec.get("template")) + surge_warnings(spec, "strategy")


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
    validate=_validate,
    validate_update=validate_workload_update,
    warnings=_warnings,
)
