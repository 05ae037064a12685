"""HorizontalPodAutoscalers in the form of autoscaling/v1, which knows one metric: cpu.

What v1 has no field for travels in annotations, so that nothing is lost on the way through an old
client. Source: kubernetes pkg/apis/autoscaling/v1/conversion.go.
"""

import json
from typing import Any

from shepherd.api.resource import Object

_ANNOTATION = "autoscaling.alpha.kubernetes.io/"
_CARRIED = (
    ("spec", "metrics"), ("spec", "behavior"), ("status", "currentMetrics"),
    ("status", "conditions"),
)  # fmt: skip
"""What goes into an annotation, each as JSON: `autoscaling.alpha.kubernetes.io/metrics`."""
_TARGET = "targetCPUUtilizationPercentage"
_CURRENT = "currentCPUUtilizationPercentage"

_OF_CPU = (
    ("spec", "metrics", "target", _TARGET),
    ("status", "currentMetrics", "current", _CURRENT),
)


def _annotation(field: str) -> str:
    return _ANNOTATION + {"currentMetrics": "current-metrics"}.get(field, field)


def _cpu(metrics: list[Object], place: str) -> int | None:
    """The average utilization of the metric that v1 knows, under `target` or `current`."""
    for metric in metrics:
        resource = metric.get("resource") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu":
            utilization: int | None = (resource.get(place) or {}).get("averageUtilization")
            return utilization
    return None


def _others(metrics: list[Object], place: str) -> list[Object]:
    """All but the first metric that v1 has a field for."""
    for index, metric in enumerate(metrics):
        if _cpu([metric], place) is not None:
            return metrics[:index] + metrics[index + 1 :]
    return metrics


def to_served(stored: Object) -> Object:
    """An autoscaling/v2 object as v1."""
    parts = {name: dict(stored.get(name) or {}) for name in ("spec", "status")}
    annotations = dict((stored.get("metadata") or {}).get("annotations") or {})
    for part_name, field, place, name in _OF_CPU:
        part = parts[part_name]
        metrics = part.get(field) or []
        utilization = _cpu(metrics, place)
        if utilization is not None:
            part[name] = utilization
        part[field] = _others(metrics, place)
    for part_name, field in _CARRIED:
        if value := parts[part_name].pop(field, None):
            annotations[_annotation(field)] = json.dumps(value, separators=(",", ":"))
    metadata = _with_annotations(stored.get("metadata") or {}, annotations)
    return stored | {"apiVersion": "autoscaling/v1", "metadata": metadata} | parts


def to_stored(served: Object) -> Object:
    """An autoscaling/v1 object as v2."""
    parts = {name: dict(served.get(name) or {}) for name in ("spec", "status")}
    annotations = dict((served.get("metadata") or {}).get("annotations") or {})
    for part_name, field in _CARRIED:
        value = _read(annotations.pop(_annotation(field), ""))
        if value:
            parts[part_name][field] = value
    spec, status = parts["spec"], parts["status"]
    target, current = spec.pop(_TARGET, None), status.pop(_CURRENT, None)
    if target is not None:
        wanted = {"type": "Utilization", "averageUtilization": target}
        spec["metrics"] = [_resource("target", wanted), *spec.get("metrics", [])]
    if current is not None:
        found = _resource("current", {"averageUtilization": current})
        status["currentMetrics"] = [found, *status.get("currentMetrics", [])]
    metadata = _with_annotations(served.get("metadata") or {}, annotations)
    return served | {"apiVersion": "autoscaling/v2", "metadata": metadata} | parts


def _resource(place: str, value: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", place: value}}


def _with_annotations(metadata: Object, annotations: dict[str, str]) -> Object:
    kept = {key: value for key, value in metadata.items() if key != "annotations"}
    return kept | {"annotations": annotations} if annotations else kept


def _read(text: str) -> Any:
    """An annotation that a client has spoiled counts as absent."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, list | dict) else None
