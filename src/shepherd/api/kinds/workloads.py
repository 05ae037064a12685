"""What Deployment and ReplicaSet share: a selector, a template, a number of replicas.

Source: kubernetes pkg/apis/apps/validation/validation.go.
"""

from shepherd.api.errors import FieldError
from shepherd.api.kinds.checks import Errors, at_least, immutable
from shepherd.api.kinds.podrules import validate_template
from shepherd.api.resource import Object


def validate_workload(spec: Object, kind: str) -> Errors:
    """`kind` is how messages name it."""
    for name in ("replicas", "minReadySeconds", "revisionHistoryLimit"):
        yield from at_least(f"spec.{name}", spec.get(name))
    yield from validate_template(spec, kind)


def validate_workload_update(obj: Object, old: Object) -> list[FieldError]:
    """Pods belong to a workload by its selector, so that may not change."""
    selector, before = ((o.get("spec") or {}).get("selector") for o in (obj, old))
    return list(immutable("spec.selector", selector, before))
