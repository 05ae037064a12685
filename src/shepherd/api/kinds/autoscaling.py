"""HorizontalPodAutoscaler, stored as autoscaling/v2 and served as v1 too.

Source: kubernetes pkg/apis/autoscaling/v2/defaults.go and validation.
"""

from typing import Any

from shepherd.api.errors import invalid_value, required
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, UNKNOWN, number, value_at
from shepherd.api.kinds.checks import Errors, at_least, one_of
from shepherd.api.kinds.shape import child, fill
from shepherd.api.resource import Column, Object, Resource

_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
"""The type of a metric, and the field that says more."""
_POLICIES = ("Disabled", "Max", "Min")
_MAX_WINDOW_SECONDS = 3600
_SHOWN = 2
"""Metrics that a cell names before it only counts."""


def _default(autoscaler: Object) -> None:
    spec = child(autoscaler, "spec")
    fill(spec, {"minReplicas": 1})
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if behavior := spec.get("behavior"):
        _default_behavior(behavior)
    # Go never omits the counters, and typed clients insist on them.
    fill(child(autoscaler, "status"), {"currentReplicas": 0, "desiredReplicas": 0})


def _default_behavior(behavior: Object) -> None:
    fast = [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]
    up = child(behavior, "scaleUp")
    fill(up, {"selectPolicy": "Max", "stabilizationWindowSeconds": 0})
    up.setdefault("policies", fast)
    down = child(behavior, "scaleDown")
    fill(down, {"selectPolicy": "Max"})
    down.setdefault("policies", fast[1:])


def _validate(autoscaler: Object) -> Errors:
    spec = autoscaler.get("spec") or {}
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    # Zero is for external metrics (the gate HPAScaleToZero), which nobody serves here.
    yield from at_least("spec.minReplicas", low, 1)
    if high < 1:
        yield invalid_value("spec.maxReplicas", high, "must be greater than 0")
    elif isinstance(low, int) and high < low:
        detail = "must be greater than or equal to `minReplicas`"
        yield invalid_value("spec.maxReplicas", high, detail)
    for index, metric in enumerate(spec.get("metrics") or ()):
        at, kind = f"spec.metrics[{index}]", metric.get("type") or ""
        yield from one_of(f"{at}.type", kind, _SOURCES)
        source = _SOURCES.get(kind)
        if source and not metric.get(source):
            detail = f"must populate information for the given metric source ({kind})"
            yield required(f"{at}.{source}", detail)
        yield from _validate_target(metric.get(source or "") or {}, f"{at}.{source}")
    for way in ("scaleUp", "scaleDown"):
        rules = value_at(spec, f"behavior.{way}")
        if rules:
            yield from _validate_rules(rules, f"spec.behavior.{way}")


def _validate_target(source: Object, path: str) -> Errors:
    target = source.get("target") or {}
    kinds = ("AverageValue", "Utilization", "Value")
    yield from one_of(f"{path}.target.type", target.get("type"), kinds)
    if target and not any(
        target.get(name) for name in ("averageUtilization", "averageValue", "value")
    ):
        detail = "must set either a target raw value or a target utilization"
        yield required(f"{path}.target.averageUtilization", detail)
    yield from at_least(f"{path}.target.averageUtilization", target.get("averageUtilization"), 1)


def _validate_rules(rules: Object, path: str) -> Errors:
    window = rules.get("stabilizationWindowSeconds")
    yield from at_least(f"{path}.stabilizationWindowSeconds", window)
    if isinstance(window, int) and window > _MAX_WINDOW_SECONDS:
        detail = f"must be less than or equal to {_MAX_WINDOW_SECONDS}"
        yield invalid_value(f"{path}.stabilizationWindowSeconds", window, detail)
    yield from one_of(f"{path}.selectPolicy", rules.get("selectPolicy"), _POLICIES)
    for index, policy in enumerate(rules.get("policies") or ()):
        at = f"{path}.policies[{index}]"
        yield from one_of(f"{at}.type", policy.get("type"), ("Percent", "Pods"))
        yield from at_least(f"{at}.value", policy.get("value") or 0, 1)
        yield from at_least(f"{at}.periodSeconds", policy.get("periodSeconds") or 0, 1)


def _reference(autoscaler: Object, now: float) -> str:
    target = value_at(autoscaler, "spec.scaleTargetRef") or {}
    return f"{target.get('kind')}/{target.get('name')}"


def _targets(autoscaler: Object, now: float) -> str:
    """`cpu: 12%/80%`, present and wanted."""
    metrics = value_at(autoscaler, "spec.metrics") or ()
    current = value_at(autoscaler, "status.currentMetrics") or ()
    texts = []
    for index, metric in enumerate(metrics[:_SHOWN]):
        field = _SOURCES.get(metric.get("type", ""), "")
        source = metric.get(field) or {}
        found = (current[index].get(field) or {}).get("current") if index < len(current) else None
        name = source.get("name") or value_at(source, "metric.name") or ""
        texts.append(f"{name}: {_amount(found)}/{_amount(source.get('target'))}")
    if len(metrics) > _SHOWN:
        texts.append(f"{len(metrics) - _SHOWN} more...")
    return ", ".join(texts) or "<none>"


def _amount(value: Any) -> str:
    value = value or {}
    if value.get("averageUtilization") is not None:
        return f"{value['averageUtilization']}%"
    if average := value.get("averageValue"):
        return f"{average} (avg)"
    return value.get("value") or UNKNOWN


HORIZONTAL_POD_AUTOSCALER = Resource(
    group="autoscaling",
    version="v2",
    kind="HorizontalPodAutoscaler",
    plural="horizontalpodautoscalers",
    short_names=("hpa",),
    categories=("all",),
    aliases=(("autoscaling", "v1"),),
    status=True,
    idle=True,
    columns=(
        Column("Reference", _reference, description="What it scales."),
        Column("Targets", _targets, description="Present and wanted, of each metric."),
        Column(
            "MinPods",
            lambda obj, now: str(value_at(obj, "spec.minReplicas") or "<unset>"),
            description="The fewest replicas.",
        ),
        number("MaxPods", "spec.maxReplicas", "The most replicas."),
        number("Replicas", "status.currentReplicas", "Those there are."),
        AGE,
    ),
    default=_default,
    validate=validates("autoscaling.v2.HorizontalPodAutoscaler", _validate),
)
