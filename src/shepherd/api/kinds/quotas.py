"""ResourceQuota, LimitRange.

Source: kubernetes pkg/apis/core/validation, ValidateResourceQuota and ValidateLimitRange.
"""

from itertools import pairwise

from shepherd.api.errors import FieldError, invalid_value
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, CREATED_AT, NAME, value_at
from shepherd.api.kinds.checks import Errors, amount, immutable, quantities, unique
from shepherd.api.kinds.shape import child
from shepherd.api.resource import Column, Object, Resource


def _default_quota(quota: Object) -> None:
    child(quota, "spec")
    child(quota, "status")


def _validate_quota(quota: Object) -> Errors:
    yield from quantities("spec.hard", value_at(quota, "spec.hard"))
    yield from quantities("status.hard", value_at(quota, "status.hard"))
    yield from quantities("status.used", value_at(quota, "status.used"))


def _validate_quota_update(quota: Object, old: Object) -> list[FieldError]:
    new, before = value_at(quota, "spec.scopes"), value_at(old, "spec.scopes")
    return list(immutable("spec.scopes", new, before))


def _usage(quota: Object, *, limits: bool) -> str:
    """`pods: 3/10, requests.cpu: 1/2`, of the requests or of the limits."""
    hard, used = value_at(quota, "status.hard") or {}, value_at(quota, "status.used") or {}
    names = sorted(name for name in hard if name.startswith("limits.") == limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


RESOURCE_QUOTA = Resource(
    group="",
    version="v1",
    kind="ResourceQuota",
    plural="resourcequotas",
    shown_deleted=True,
    short_names=("quota",),
    status=True,
    idle=True,
    columns=(
        Column(
            "Request",
            lambda quota, now: _usage(quota, limits=False),
            description="Used and allowed, of counts and requests.",
        ),
        Column(
            "Limit",
            lambda quota, now: _usage(quota, limits=True),
            description="Used and allowed, of limits.",
        ),
        AGE,
    ),
    default=_default_quota,
    validate=validates("core.v1.ResourceQuota", _validate_quota),
    validate_update=_validate_quota_update,
)


def _default_limits(limit_range: Object) -> None:
    """Source: kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_LimitRangeItem."""
    for item in value_at(limit_range, "spec.limits") or ():
        if item.get("type") != "Container":
            continue
        default = item["default"] = (item.get("max") or {}) | (item.get("default") or {})
        item["defaultRequest"] = (
            (item.get("min") or {}) | default | (item.get("defaultRequest") or {})
        )
        for field in ("default", "defaultRequest"):
            if not item[field]:
                del item[field]


def _validate_limits(limit_range: Object) -> Errors:
    types: set[str] = set()
    for index, item in enumerate(value_at(limit_range, "spec.limits") or ()):
        at = f"spec.limits[{index}]"
        yield from unique(f"{at}.type", item.get("type") or "", types)
        for field in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"):
            yield from quantities(f"{at}.{field}", item.get(field))
        # Each of these may not exceed the next.
        ordered = ("min", "defaultRequest", "default", "max")
        for low, high in pairwise(ordered):
            yield from _not_above(item, low, high, at)
        yield from _not_above(item, "min", "max", at)


def _not_above(item: Object, low: str, high: str, path: str) -> Errors:
    highs = item.get(high) or {}
    for name, value in (item.get(low) or {}).items():
        small, large = amount(value), amount(highs.get(name))
        if small and large and large < small:
            detail = f"{low} value {value} is greater than {high} value {highs[name]}"
            yield invalid_value(f"{path}.{low}[{name}]", str(value), detail)


LIMIT_RANGE = Resource(
    group="",
    version="v1",
    kind="LimitRange",
    plural="limitranges",
    short_names=("limits",),
    idle=True,
    columns=(NAME, CREATED_AT),
    default=_default_limits,
    validate=validates("core.v1.LimitRange", _validate_limits),
)
