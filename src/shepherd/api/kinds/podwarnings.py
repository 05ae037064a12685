"""What to tell the author of a pod that is accepted and may still surprise.

Source: kubernetes pkg/api/pod/warnings.go; the fields that Shepherd keeps and does not act on are
its own, and leave this table when they come to life.
"""

import json
import re
from collections.abc import Iterator, Mapping

from shepherd.api.kinds.checks import NO_EFFECT, amount
from shepherd.api.kinds.podspec import CONTAINER_LISTS
from shepherd.api.quantity import NANO
from shepherd.api.resource import Object

Warnings = Iterator[str]

_IDLE_SPEC_FIELDS = (
    "resourceClaims", "resources", "runtimeClassName", "setHostnameAsFQDN",
)  # fmt: skip
_IDLE_CONTAINER_FIELDS = ("restartPolicyRules", "volumeDevices")
_IDLE_SECURITY_FIELDS = ("appArmorProfile", "procMount", "seLinuxOptions", "windowsOptions")
_LIVE_VOLUMES = frozenset(
    ("configMap", "downwardAPI", "emptyDir", "hostPath", "name", "projected", "secret")
)
_FOLLOWED = frozenset(("configMap", "downwardAPI", "projected", "secret"))
"""Volumes that change with what they are made of."""
_LIVE_PROJECTIONS = frozenset(("configMap", "downwardAPI", "secret", "serviceAccountToken"))
NO_START = f"{NO_EFFECT}; pods with it do not start"
"""What a warning says of volumes that nothing mounts yet."""
_REFERENCE = re.compile(r"(?<!\$)\$\(([^()]*)\)")
_BYTES = ("memory", "ephemeral-storage")


def pod_warnings(pod: Object) -> list[str]:
    return list(_spec_warnings(pod.get("spec") or {}, "spec"))


def template_warnings(template: Object | None) -> list[str]:
    """Of the pod template of a workload."""
    return list(_spec_warnings((template or {}).get("spec") or {}, "spec.template.spec"))


def _spec_warnings(spec: Object, path: str) -> Warnings:
    yield from _idle(spec, _IDLE_SPEC_FIELDS, path)
    yield from _idle(spec.get("securityContext"), _IDLE_SECURITY_FIELDS, f"{path}.securityContext")
    if spec.get("hostUsers") is False:
        yield f"{path}.hostUsers: {NO_EFFECT}"
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield (
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid "
            "and will be treated as 1"
        )
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from _volume_warnings(volume, f"{path}.volumes[{index}]")
    yield from _repeats(spec.get("imagePullSecrets"), "name", f"{path}.imagePullSecrets")
    yield from _repeats(spec.get("hostAliases"), "ip", f"{path}.hostAliases")
    followed = {
        volume.get("name") for volume in spec.get("volumes") or () if volume.keys() & _FOLLOWED
    }
    ports: dict[str, tuple[str, Object]] = {}
    for kind in CONTAINER_LISTS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield from _container_warnings(container, f"{path}.{kind}[{index}]", ports)
            yield from _frozen_mounts(container, f"{path}.{kind}[{index}]", followed)


def _idle(obj: Object | None, fields: tuple[str, ...], path: str) -> Warnings:
    if obj:
        for field in fields:
            if obj.get(field):
                yield f"{path}.{field}: {NO_EFFECT}"


def _volume_warnings(volume: Object, path: str) -> Warnings:
    for kind, source in volume.items():
        if kind not in _LIVE_VOLUMES and source is not None:
            yield f"{path}.{kind}: {NO_START}"
    for index, part in enumerate((volume.get("projected") or {}).get("sources") or ()):
        for kind in part:
            if kind not in _LIVE_PROJECTIONS:
                yield f"{path}.projected.sources[{index}].{kind}: {NO_START}"


def _frozen_mounts(container: Object, path: str, followed: set[str]) -> Warnings:
    """Whole volumes follow their source; a mount of a part keeps the file it began with."""
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        part = "subPath" if mount.get("subPath") else "subPathExpr"
        if mount.get(part) and mount.get("name") in followed:
            yield (
                f"{path}.volumeMounts[{index}].{part}: does not follow changes of what "
                f'volume "{mount["name"]}" is made of; a mount of the whole volume does'
            )


def _repeats(items: list[Object] | None, key: str, path: str) -> Warnings:
    seen: set[str] = set()
    for index, item in enumerate(items or ()):
        value = item.get(key) or ""
        if value in seen:
            yield f"{path}[{index}].{key}: duplicate {key} {json.dumps(value)}"
        seen.add(value)


def _container_warnings(
    container: Object, path: str, ports: dict[str, tuple[str, Object]]
) -> Warnings:
    yield from _idle(container, _IDLE_CONTAINER_FIELDS, path)
    context = container.get("securityContext")
    yield from _idle(context, _IDLE_SECURITY_FIELDS, f"{path}.securityContext")
    if container.get("restartPolicy") and not path.partition(".initContainers[")[1]:
        yield f"{path}.restartPolicy: {NO_EFFECT}"
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        yield from _fractions(resources.get(kind) or {}, f"{path}.resources.{kind}")
    if variables := container.get("env"):
        yield from _variable_warnings(variables, f"{path}.env")
    for index, port in enumerate(container.get("ports") or ()):
        yield from _port_warnings(port, f"{path}.ports[{index}]", ports)


def _variable_warnings(variables: list[Object], path: str) -> Warnings:
    first: dict[str, int] = {}
    for index, variable in enumerate(variables):
        first.setdefault(variable.get("name") or "", index)
    for index, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        references = _REFERENCE.findall(value) if "$(" in value else ()
        # Building on the earlier value (`$(PATH):/more`) is the one good use of a repeat.
        if first[name] < index and name not in references:
            yield (
                f'{path}[{index}]: hides previous definition of "{name}", '
                "which may be dropped when using apply"
            )
        for reference in references:
            if first.get(reference, 0) > index:
                yield (
                    f"{path}[{index}]: $({reference}) is not expanded here: "
                    f'"{reference}" is defined further down'
                )


def _fractions(values: Mapping[str, object], path: str) -> Warnings:
    for name in _BYTES:
        value = amount(values.get(name))
        if value and value.nano % NANO:
            yield f'{path}[{name}]: fractional byte value "{value}" is invalid, must be an integer'


def _port_warnings(port: Object, path: str, ports: dict[str, tuple[str, Object]]) -> Warnings:
    host_port, host_ip = port.get("hostPort") or 0, port.get("hostIP") or ""
    if host_ip and not host_port:
        yield f"{path}: hostIP set without hostPort"
    key = f"{port.get('containerPort')}/{port.get('protocol')}"
    if key not in ports:
        ports[key] = (path, port)
        return
    other_path, other = ports[key]
    if (other.get("hostPort") or 0, other.get("hostIP") or "") == (host_port, host_ip):
        yield f"{path}: duplicate port definition with {other_path}"
    elif not host_port or not other.get("hostPort"):
        yield f"{path}: overlapping port definition with {other_path}"
