"""Validation of what a pod says about where it may run.

Source: kubernetes pkg/apis/core/validation/validation.go (tolerations, affinity, spread).
"""

from shepherd.api.errors import invalid_value, required
from shepherd.api.kinds.checks import (
    Errors,
    absent,
    at_least,
    label_selector,
    labels,
    needed,
    one_of,
    text,
)
from shepherd.api.names import label_value, qualified_name
from shepherd.api.resource import Object

EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_placement(spec: Object, path: str) -> Errors:
    """Node selector, tolerations, affinity and spread of a pod's spec."""
    yield from labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _validate_toleration(toleration, f"{path}.tolerations[{index}]")
    if affinity := spec.get("affinity"):
        yield from _validate_affinity(affinity, f"{path}.affinity")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _validate_spread(constraint, f"{path}.topologySpreadConstraints[{index}]")


def _validate_toleration(toleration: Object, path: str) -> Errors:
    key, value = toleration.get("key") or "", toleration.get("value") or ""
    operator, effect = toleration.get("operator") or "Equal", toleration.get("effect") or ""
    yield from text(f"{path}.key", key, qualified_name)
    if not key and operator != "Exists":
        detail = (
            "operator must be Exists when `key` is empty, which means "
            '"match all values and all keys"'
        )
        yield invalid_value(f"{path}.operator", operator, detail)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid_value(f"{path}.effect", effect, detail)
    yield from one_of(f"{path}.operator", operator, ("Equal", "Exists"))
    if operator == "Equal":
        yield from text(f"{path}.operator", value, label_value)
    elif operator == "Exists" and value:
        detail = "value must be empty when `operator` is 'Exists'"
        yield invalid_value(f"{path}.operator", toleration, detail)
    yield from one_of(f"{path}.effect", effect, EFFECTS)


def _validate_affinity(affinity: Object, path: str) -> Errors:
    if node := affinity.get("nodeAffinity"):
        at = f"{path}.nodeAffinity"
        if wanted := node.get(_REQUIRED):
            terms = wanted.get("nodeSelectorTerms") or ()
            if not terms:
                detail = "must have at least one node selector term"
                yield required(f"{at}.{_REQUIRED}.nodeSelectorTerms", detail)
            for index, term in enumerate(terms):
                yield from _validate_term(term, f"{at}.{_REQUIRED}.nodeSelectorTerms[{index}]")
        for index, preference in enumerate(node.get(_PREFERRED) or ()):
            item = f"{at}.{_PREFERRED}[{index}]"
            yield from _validate_weight(preference, item)
            yield from _validate_term(preference.get("preference") or {}, f"{item}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        for index, term in enumerate(pods.get(_REQUIRED) or ()):
            yield from _validate_pod_term(term, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(pods.get(_PREFERRED) or ()):
            item = f"{path}.{kind}.{_PREFERRED}[{index}]"
            yield from _validate_weight(weighted, item)
            term = weighted.get("podAffinityTerm") or {}
            yield from _validate_pod_term(term, f"{item}.podAffinityTerm")


def _validate_weight(weighted: Object, path: str) -> Errors:
    weight = weighted.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid_value(f"{path}.weight", weight, "must be in the range 1-100")


def _validate_term(term: Object, path: str) -> Errors:
    for kind in ("matchExpressions", "matchFields"):
        for index, item in enumerate(term.get(kind) or ()):
            yield from _validate_requirement(item, f"{path}.{kind}[{index}]")


def _validate_requirement(item: Object, path: str) -> Errors:
    values = item.get("values") or []
    match item.get("operator"):
        case "In" | "NotIn":
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                yield required(f"{path}.values", detail)
        case "Exists" | "DoesNotExist":
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield from absent(f"{path}.values", values, detail)
        case "Gt" | "Lt":
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(f"{path}.values", detail)
        case operator:
            detail = "not a valid selector operator"
            yield invalid_value(f"{path}.operator", operator or "", detail)
    yield from needed(f"{path}.key", item.get("key"), qualified_name)


def _validate_pod_term(term: Object, path: str) -> Errors:
    yield from label_selector(f"{path}.labelSelector", term.get("labelSelector"))
    yield from label_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    yield from _validate_topology_key(term, path)


def _validate_topology_key(item: Object, path: str) -> Errors:
    key = item.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from text(f"{path}.topologyKey", key, qualified_name)


def _validate_spread(constraint: Object, path: str) -> Errors:
    if (constraint.get("maxSkew") or 0) < 1:
        detail = "must be greater than zero"
        yield invalid_value(f"{path}.maxSkew", constraint.get("maxSkew") or 0, detail)
    yield from _validate_topology_key(constraint, path)
    yield from needed(f"{path}.whenUnsatisfiable", constraint.get("whenUnsatisfiable"))
    allowed = ("DoNotSchedule", "ScheduleAnyway")
    yield from one_of(f"{path}.whenUnsatisfiable", constraint.get("whenUnsatisfiable"), allowed)
    yield from at_least(f"{path}.minDomains", constraint.get("minDomains"), 1)
    yield from label_selector(f"{path}.labelSelector", constraint.get("labelSelector"))
