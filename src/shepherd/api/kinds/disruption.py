"""PodDisruptionBudget. Source: kubernetes pkg/apis/policy/validation."""

from shepherd.api.errors import invalid_value
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, column, number
from shepherd.api.kinds.checks import Errors, label_selector, one_of
from shepherd.api.kinds.deployments import percent, validate_share
from shepherd.api.kinds.shape import child, fill
from shepherd.api.resource import Object, Resource

_COUNTERS = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
"""Of the status; Go never omits them, and typed clients insist on them."""


def _default(budget: Object) -> None:
    child(budget, "spec")
    fill(child(budget, "status"), dict.fromkeys(_COUNTERS, 0))


def _validate(budget: Object) -> Errors:
    spec = budget.get("spec") or {}
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        detail = "minAvailable and maxUnavailable cannot be both set"
        yield invalid_value("spec", spec, detail)
    for name, share in (("minAvailable", low), ("maxUnavailable", high)):
        yield from validate_share(f"spec.{name}", share)
        if isinstance(share, str) and percent(share) > 100:
            yield invalid_value(f"spec.{name}", share, "must not be greater than 100%")
    yield from label_selector("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    allowed = ("AlwaysAllow", "IfHealthyBudget")
    yield from one_of("spec.unhealthyPodEvictionPolicy", policy, allowed)


POD_DISRUPTION_BUDGET = Resource(
    group="policy",
    version="v1",
    kind="PodDisruptionBudget",
    plural="poddisruptionbudgets",
    short_names=("pdb",),
    status=True,
    generation=True,
    columns=(
        column("Min Available", "spec.minAvailable", "Pods that must stay.", missing="N/A"),
        column("Max Unavailable", "spec.maxUnavailable", "Pods that may go.", missing="N/A"),
        number("Allowed Disruptions", "status.disruptionsAllowed", "Pods that may go now."),
        AGE,
    ),
    default=_default,
    validate=validates("policy.v1.PodDisruptionBudget", _validate),
)
