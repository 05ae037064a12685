"""StatefulSet.

Source: kubernetes pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation.
"""

from shepherd.api.errors import FieldError, forbidden_field, invalid_value, required
from shepherd.api.kinds.cells import AGE, TEMPLATE_COLUMNS, value_at
from shepherd.api.kinds.checks import Errors, at_least, one_of
from shepherd.api.kinds.deployments import percent, validate_share
from shepherd.api.kinds.podspec import default_template
from shepherd.api.kinds.podwarnings import NO_START, template_warnings
from shepherd.api.kinds.shape import child, fill
from shepherd.api.kinds.storage import default_claim, validate_claim_spec
from shepherd.api.kinds.workloads import validate_workload
from shepherd.api.resource import Column, Object, Resource

_FREE = frozenset((
    "replicas", "ordinals", "template", "updateStrategy", "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds", "revisionHistoryLimit",
))  # fmt: skip
"""What of the spec may change."""


def _default(stateful_set: Object) -> None:
    spec = child(stateful_set, "spec")
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"})
    strategy = child(spec, "updateStrategy")
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), {"partition": 0})
    retention = child(spec, "persistentVolumeClaimRetentionPolicy")
    fill(retention, {"whenDeleted": "Retain", "whenScaled": "Retain"})
    for claim in spec.get("volumeClaimTemplates") or ():
        fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
        default_claim(claim)
    default_template(spec.get("template"))
    # Go never omits these counters, and typed clients insist on them.
    fill(child(stateful_set, "status"), {"replicas": 0, "availableReplicas": 0})


def _validate(stateful_set: Object) -> list[FieldError]:
    spec = stateful_set.get("spec") or {}
    return [*validate_workload(_with_claims(spec), "statefulset"), *_validate_spec(spec)]


def _with_claims(spec: Object) -> Object:
    """The spec as its pods will have it: with a volume for each claim, which they may mount."""
    template, claims = spec.get("template"), spec.get("volumeClaimTemplates")
    if not template or not claims:
        return spec
    pod = template.get("spec") or {}
    volumes = list(pod.get("volumes") or ())
    known = {volume.get("name") for volume in volumes}
    names = [value_at(claim, "metadata.name") for claim in claims]
    volumes += [
        {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for name in names
        if name and name not in known
    ]
    return spec | {"template": template | {"spec": pod | {"volumes": volumes}}}


def _validate_spec(spec: Object) -> Errors:
    policy = spec.get("podManagementPolicy")
    yield from one_of("spec.podManagementPolicy", policy, ("OrderedReady", "Parallel"))
    strategy = spec.get("updateStrategy") or {}
    yield from one_of("spec.updateStrategy", strategy.get("type"), ("OnDelete", "RollingUpdate"))
    at = "spec.updateStrategy.rollingUpdate"
    if strategy.get("rollingUpdate") and strategy.get("type") == "OnDelete":
        yield forbidden_field(at, "only allowed for updateStrategy 'RollingUpdate'")
    yield from at_least(f"{at}.partition", value_at(strategy, "rollingUpdate.partition"))
    unavailable = value_at(strategy, "rollingUpdate.maxUnavailable")
    yield from validate_share(f"{at}.maxUnavailable", unavailable)
    if unavailable in (0, "0%"):
        yield invalid_value(f"{at}.maxUnavailable", unavailable, "cannot be 0")
    if isinstance(unavailable, str) and percent(unavailable) > 100:
        yield invalid_value(f"{at}.maxUnavailable", unavailable, "must not be greater than 100%")
    yield from at_least("spec.ordinals.start", value_at(spec, "ordinals.start"))
    for name, value in (spec.get("persistentVolumeClaimRetentionPolicy") or {}).items():
        path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
        yield from one_of(path, value, ("Delete", "Retain"))
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        at = f"spec.volumeClaimTemplates[{index}]"
        if not value_at(claim, "metadata.name"):
            yield required(f"{at}.metadata.name")
        yield from validate_claim_spec(claim.get("spec") or {}, f"{at}.spec")


def _validate_update(stateful_set: Object, old: Object) -> list[FieldError]:
    def fixed(obj: Object) -> Object:
        return {key: value for key, value in obj["spec"].items() if key not in _FREE}

    if fixed(stateful_set) == fixed(old):
        return []
    detail = (
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
        "'minReadySeconds' are forbidden"
    )
    return [forbidden_field("spec", detail)]


def _warnings(stateful_set: Object) -> list[str]:
    spec = stateful_set.get("spec") or {}
    claims = [f"spec.volumeClaimTemplates: {NO_START}"] if spec.get("volumeClaimTemplates") else []
    return claims + template_warnings(spec.get("template"))


def _ready(stateful_set: Object, now: float) -> str:
    ready = value_at(stateful_set, "status.readyReplicas") or 0
    return f"{ready}/{value_at(stateful_set, 'spec.replicas') or 0}"


STATEFUL_SET = Resource(
    group="apps",
    version="v1",
    kind="StatefulSet",
    plural="statefulsets",
    short_names=("sts",),
    categories=("all",),
    status=True,
    scale=True,
    generation=True,
    columns=(
        Column("Ready", _ready, description="Ready pods of those desired."),
        AGE,
        *TEMPLATE_COLUMNS[:2],
    ),
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
    warnings=_warnings,
)
