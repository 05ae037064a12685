"""In-place resize: what may change of the resources of a pod that runs.

Source: kubernetes pkg/registry/core/pod/strategy.go, dropNonResizeUpdates, and
pkg/apis/core/validation, ValidatePodResize.
"""

from shepherd.api.errors import FieldError, forbidden_field, invalid_value
from shepherd.api.kinds.checks import Errors
from shepherd.api.kinds.podrules import validate_pod
from shepherd.api.kinds.pods import qos_class
from shepherd.api.resource import Object

_LISTS = ("initContainers", "containers")
_FREE = ("cpu", "memory")
"""The resources that may change."""
_MIRROR = "kubernetes.io/config.mirror"


def resized(wanted: Object, old: Object) -> Object:
    """The pod `old` with what a resize may name of `wanted`: resources and resize policies."""
    spec = dict(old["spec"])
    for kind in _LISTS:
        before = {container["name"]: container for container in spec.get(kind) or ()}
        asked = wanted["spec"].get(kind) or []
        if before or asked:
            spec[kind] = [_merged(one, before.get(one.get("name") or "", one)) for one in asked]
    return old | {"metadata": dict(old["metadata"]), "spec": spec}


def _merged(asked: Object, old: Object) -> Object:
    kept = {name: value for name, value in old.items() if name not in ("resources", "resizePolicy")}
    return kept | {name: asked[name] for name in ("resources", "resizePolicy") if name in asked}


def validate_resize(pod: Object, old: Object) -> list[FieldError]:
    """Given a pod as `resized` makes it, and the pod as it is."""
    if refused := _never(pod, old):
        return [forbidden_field("", refused)]
    if found := list(_validate_lists(pod["spec"], old["spec"])):
        return found
    found = validate_pod(pod)
    if qos_class(old["spec"]) != (quality := qos_class(pod["spec"])):
        detail = "Pod QOS Class may not change as a result of resizing"
        found.append(invalid_value("spec", quality, detail))
    for kind in _LISTS:
        pairs = zip(pod["spec"].get(kind) or (), old["spec"].get(kind) or (), strict=True)
        for index, (container, before) in enumerate(pairs):
            found += _validate_container(container, before, kind, f"spec.{kind}[{index}]")
    return found


def _never(pod: Object, old: Object) -> str:
    """Why a pod like this cannot be resized at all."""
    if any((one["spec"].get("resources") or {}).get(field) for one in (pod, old)
           for field in ("requests", "limits")):  # fmt: skip
        return "pods with pod-level resources cannot be resized"
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return "static pods cannot be resized"
    if (old["spec"].get("os") or {}).get("name") == "windows":
        return "windows pods cannot be resized"
    return ""


def _validate_lists(spec: Object, old: Object) -> Errors:
    for kind in _LISTS:
        names = [container.get("name") for container in spec.get(kind) or ()]
        before = [container["name"] for container in old.get(kind) or ()]
        if len(names) != len(before):
            yield forbidden_field("spec", f"{kind} may not be added or removed on resize")
        elif names != before:
            yield forbidden_field("spec", f"{kind} may not be renamed or reordered on resize")


def _validate_container(container: Object, old: Object, kind: str, path: str) -> Errors:
    if kind == "initContainers" and old.get("restartPolicy") != "Always":
        if container != old:
            detail = "resources for non-sidecar init containers are immutable"
            yield forbidden_field("spec", detail)
        return
    for name in ("requests", "limits"):
        if _amounts(old, name).keys() - _amounts(container, name).keys():
            detail = f"resource {name} cannot be removed"
            yield forbidden_field(f"{path}.resources.{name}", detail)
    if _fixed(container) != _fixed(old):
        whose = "resources" if kind == "containers" else "resources for sidecar containers"
        yield forbidden_field("spec", f"only cpu and memory {whose} are mutable")


def _amounts(container: Object, name: str) -> Object:
    amounts: Object = (container.get("resources") or {}).get(name) or {}
    return amounts


def _fixed(container: Object) -> Object:
    """A container without what may change."""
    fixed = {
        name: {key: value for key, value in _amounts(container, name).items() if key not in _FREE}
        for name in ("requests", "limits")
    }
    return container | {"resources": (container.get("resources") or {}) | fixed}
