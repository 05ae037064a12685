"""DaemonSet."""

from shepherd.api.errors import FieldError, invalid_value
from shepherd.api.kinds.cells import AGE, TEMPLATE_COLUMNS, labels_text, number, value_at
from shepherd.api.kinds.checks import Errors, one_of
from shepherd.api.kinds.deployments import validate_share
from shepherd.api.kinds.podspec import default_template
from shepherd.api.kinds.podwarnings import template_warnings
from shepherd.api.kinds.shape import child, fill
from shepherd.api.kinds.workloads import (
    surge_warnings,
    validate_workload,
    validate_workload_update,
)
from shepherd.api.resource import Column, Object, Resource

_COUNTERS = (
    "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
)  # fmt: skip
"""Of the status; Go never omits them, and typed clients insist on them."""


def _default(daemon_set: Object) -> None:
    spec = child(daemon_set, "spec")
    fill(spec, {"revisionHistoryLimit": 10})
    strategy = child(spec, "updateStrategy")
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), {"maxUnavailable": 1, "maxSurge": 0})
    default_template(spec.get("template"))
    fill(child(daemon_set, "status"), dict.fromkeys(_COUNTERS, 0))


def _validate(daemon_set: Object) -> list[FieldError]:
    spec = daemon_set.get("spec") or {}
    return [*validate_workload(spec, "daemonset"), *_validate_strategy(spec)]


def _validate_strategy(spec: Object) -> Errors:
    """Source: kubernetes pkg/apis/apps/validation, ValidateDaemonSetUpdateStrategy."""
    strategy = spec.get("updateStrategy") or {}
    yield from one_of("spec.updateStrategy", strategy.get("type"), ("OnDelete", "RollingUpdate"))
    if strategy.get("type") != "RollingUpdate":
        return
    at, rolling = "spec.updateStrategy.rollingUpdate", strategy.get("rollingUpdate") or {}
    surge, unavailable = rolling.get("maxSurge"), rolling.get("maxUnavailable")
    yield from validate_share(f"{at}.maxUnavailable", unavailable)
    yield from validate_share(f"{at}.maxSurge", surge)
    none = (None, 0, "0%")
    if unavailable in none and surge in none:
        yield invalid_value(f"{at}.maxUnavailable", unavailable, "cannot be 0 when maxSurge is 0")
    elif unavailable not in none and surge not in none:
        yield invalid_value(f"{at}.maxSurge", surge, "may not be set when maxUnavailable is non-0")


def _warnings(daemon_set: Object) -> list[str]:
    spec = daemon_set.get("spec") or {}
    return template_warnings(spec.get("template")) + surge_warnings(spec, "updateStrategy")


DAEMON_SET = Resource(
    group="apps",
    version="v1",
    kind="DaemonSet",
    plural="daemonsets",
    short_names=("ds",),
    categories=("all",),
    status=True,
    generation=True,
    columns=(
        number("Desired", "status.desiredNumberScheduled", "Nodes that should run its pod."),
        number("Current", "status.currentNumberScheduled", "Those that do."),
        number("Ready", "status.numberReady", "Those where it is ready."),
        number("Up-to-date", "status.updatedNumberScheduled", "Those with the present template."),
        number("Available", "status.numberAvailable", "Those ready for minReadySeconds."),
        Column(
            "Node Selector",
            lambda obj, now: labels_text(value_at(obj, "spec.template.spec.nodeSelector")),
            description="On which nodes it runs.",
        ),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    default=_default,
    validate=_validate,
    validate_update=validate_workload_update,
    warnings=_warnings,
)
