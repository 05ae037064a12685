"""What Deployment, ReplicaSet and DaemonSet share: a selector, a template, a number of replicas.

Source: kubernetes pkg/apis/apps/validation/validation.go.
"""

from shepherd.api.errors import FieldError
from shepherd.api.kinds.checks import Errors, at_least, immutable
from shepherd.api.kinds.podrules import validate_template
from shepherd.api.kinds.podspec import CONTAINER_LISTS
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


def surge_warnings(spec: Object, field: str) -> list[str]:
    """A new pod that wants the host port of the old one waits for it, maybe for ever. `field` holds
    the strategy of rollouts."""
    strategy = spec.get(field) or {}
    surge = (strategy.get("rollingUpdate") or {}).get("maxSurge")
    if strategy.get("type") != "RollingUpdate" or surge in (None, 0, "0%"):
        return []
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = [container for kind in CONTAINER_LISTS for container in pod.get(kind) or ()]
    if not any(port.get("hostPort") for item in containers for port in item.get("ports") or ()):
        return []
    return [
        f"spec.{field}.rollingUpdate.maxSurge: pods with a hostPort cannot share a node, so a new "
        "one waits until there is a node without an old one; set maxSurge to 0 and maxUnavailable "
        "to 1"
    ]
