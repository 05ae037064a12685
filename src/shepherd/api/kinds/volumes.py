"""Volumes of a pod: defaults and validation.

Source: kubernetes pkg/apis/core/v1/defaults.go and pkg/apis/core/validation/validation.go.
"""

from shepherd.api.errors import forbidden_field, invalid_value, required
from shepherd.api.kinds.checks import (
    Errors,
    needed,
    no_climbing,
    one_of,
    relative_path,
    unique,
    valid_amount,
)
from shepherd.api.kinds.containers import VOLUME_FIELDS, validate_field_sources
from shepherd.api.kinds.shape import fill
from shepherd.api.names import dns1123_label
from shepherd.api.resource import Object

DEFAULT_MODE = 0o644

_TOKEN_MIN_SECONDS = 600
_HOST_PATH_TYPES = (
    "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
    "Socket",
)  # fmt: skip
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


def validate_volumes(volumes: list[Object], path: str) -> Errors:
    """Names, and one sound source each."""
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        at = f"{path}[{index}]"
        name = volume.get("name") or ""
        yield from needed(f"{at}.name", name, dns1123_label)
        yield from unique(f"{at}.name", name, names)
        kinds = [kind for kind, source in volume.items() if source is not None and kind != "name"]
        for kind in kinds[1:]:
            yield forbidden_field(f"{at}.{kind}", "may not specify more than 1 volume type")
        for kind in kinds[:1]:
            yield from _validate_source(kind, volume[kind], f"{at}.{kind}")


def _validate_source(kind: str, source: Object, path: str) -> Errors:
    yield from _validate_mode(f"{path}.defaultMode", source.get("defaultMode"))
    match kind:
        case "emptyDir":
            yield from valid_amount(f"{path}.sizeLimit", source.get("sizeLimit") or 0)
        case "hostPath":
            yield from needed(f"{path}.path", source.get("path"))
            yield from no_climbing(f"{path}.path", source.get("path") or "")
            yield from one_of(f"{path}.type", source.get("type"), _HOST_PATH_TYPES)
        case "secret":
            yield from needed(f"{path}.secretName", source.get("secretName"))
            yield from _validate_items(source, path)
        case "configMap":
            yield from needed(f"{path}.name", source.get("name"))
            yield from _validate_items(source, path)
        case "downwardAPI":
            yield from _validate_downward(source, path)
        case "persistentVolumeClaim":
            yield from needed(f"{path}.claimName", source.get("claimName"))
        case "projected":
            for index, part in enumerate(source.get("sources") or ()):
                yield from _validate_projection(part, f"{path}.sources[{index}]")


def _validate_projection(part: Object, path: str) -> Errors:
    named = [kind for kind, source in part.items() if source is not None]
    for kind in named[1:]:
        detail = "may not specify more than 1 volume type per source"
        yield forbidden_field(f"{path}.{kind}", detail)
    for kind in ("secret", "configMap"):
        if source := part.get(kind):
            yield from needed(f"{path}.{kind}.name", source.get("name"))
            yield from _validate_items(source, f"{path}.{kind}")
    if source := part.get("downwardAPI"):
        yield from _validate_downward(source, f"{path}.downwardAPI")
    if token := part.get("serviceAccountToken"):
        at = f"{path}.serviceAccountToken"
        yield from needed(f"{at}.path", token.get("path"))
        seconds = token.get("expirationSeconds")
        if isinstance(seconds, int) and seconds < _TOKEN_MIN_SECONDS:
            detail = "may not specify a duration less than 10 minutes"
            yield invalid_value(f"{at}.expirationSeconds", seconds, detail)


def _validate_items(source: Object, path: str) -> Errors:
    for index, item in enumerate(source.get("items") or ()):
        at = f"{path}.items[{index}]"
        yield from needed(f"{at}.key", item.get("key"))
        yield from _validate_file(item, at)


def _validate_downward(source: Object, path: str) -> Errors:
    for index, item in enumerate(source.get("items") or ()):
        at = f"{path}.items[{index}]"
        yield from _validate_file(item, at)
        if not item.get("fieldRef") and not item.get("resourceFieldRef"):
            yield required(at, "one of fieldRef and resourceFieldRef is required")
        yield from validate_field_sources(item, at, VOLUME_FIELDS)


def _validate_file(item: Object, path: str) -> Errors:
    yield from needed(f"{path}.path", item.get("path"))
    yield from relative_path(f"{path}.path", item.get("path") or "")
    yield from _validate_mode(f"{path}.mode", item.get("mode"))


def _validate_mode(path: str, mode: object) -> Errors:
    if isinstance(mode, int) and not 0 <= mode <= 0o777:
        detail = "must be a number between 0 and 0777 (octal), both inclusive"
        yield invalid_value(path, mode, detail)
