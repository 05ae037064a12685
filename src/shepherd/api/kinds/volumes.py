"""Volumes of a pod: defaults. Source: kubernetes pkg/apis/core/v1/defaults.go."""

from shepherd.api.kinds.shape import fill
from shepherd.api.resource import Object

DEFAULT_MODE = 0o644

_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def default_volume(volume: Object) -> None:
    """An empty directory when no source is named; modes and API versions of the others."""
    if not any(value is not None for key, value in volume.items() if key != "name"):
        volume["emptyDir"] = {}
        return
    for kind in _WITH_MODE:
        source = volume.get(kind)
        if source is not None:
            fill(source, {"defaultMode": DEFAULT_MODE})
    if host_path := volume.get("hostPath"):
        fill(host_path, {"type": ""})
    _default_downward(volume.get("downwardAPI"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        _default_downward(source.get("downwardAPI"))
        if token := source.get("serviceAccountToken"):
            fill(token, {"expirationSeconds": 3600})


def _default_downward(source: Object | None) -> None:
    for item in (source or {}).get("items") or ():
        default_field_sources(item)


def default_field_sources(source: Object) -> None:
    """Of whatever takes its value from the pod: a variable, or a file of a volume."""
    if field := source.get("fieldRef"):
        fill(field, {"apiVersion": "v1"})
    if resource := source.get("resourceFieldRef"):
        fill(resource, {"divisor": "0"})
