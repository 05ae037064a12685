"""Validation of the containers of a pod.

Source: kubernetes pkg/apis/core/validation/validation.go, validateContainers and what it calls.
"""

from collections.abc import Mapping

from shepherd.api.errors import invalid_value, not_supported, required
from shepherd.api.kinds.checks import (
    PROTOCOLS,
    Errors,
    absent,
    amount,
    between,
    needed,
    one_of,
    port_number,
    quantities,
    relative_path,
    text,
    unique,
    unknown,
)
from shepherd.api.kinds.probes import validate_lifecycle, validate_probes
from shepherd.api.names import config_key, dns1123_label, env_name, port_name, qualified_name
from shepherd.api.resource import Object

_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid",
    "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", *_ENV_FIELDS[:3])
_CONTAINER_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in _STANDARD_RESOURCES
)


def validate_containers(spec: Object, path: str, volumes: set[str]) -> Errors:
    """All containers: `volumes` are the names that mounts may refer to."""
    names: set[str] = set()
    host_ports: set[str] = set()
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            at = f"{path}.{kind}[{index}]"
            yield from _validate_container(container, at, names, volumes)
            never = spec.get("restartPolicy") == "Never"
            policies = container.get("resizePolicy") or []
            yield from _validate_resize_policies(policies, f"{at}.resizePolicy", never=never)
            for number, port in enumerate(container.get("ports") or ()):
                port_at = f"{at}.ports[{number}]"
                if spec.get("hostNetwork") and port.get("hostPort") != port.get("containerPort"):
                    detail = "must match `hostPort` when `hostNetwork` is true"
                    yield invalid_value(
                        f"{port_at}.containerPort", port.get("containerPort"), detail
                    )
                if port.get("hostPort") and kind == "containers":
                    taken = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
                    yield from unique(f"{port_at}.hostPort", taken, host_ports)
            # An init container that is no sidecar has ended before anybody could probe it.
            if kind == "initContainers" and container.get("restartPolicy") != "Always":
                for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                    detail = "may not be set for init containers without restartPolicy=Always"
                    yield from absent(f"{at}.{name}", container.get(name), detail)


def _validate_container(container: Object, path: str, names: set[str], volumes: set[str]) -> Errors:
    name = container.get("name") or ""
    yield from needed(f"{path}.name", name, dns1123_label)
    yield from unique(f"{path}.name", name, names)
    image = container.get("image") or ""
    yield from needed(f"{path}.image", image)
    if image != image.strip():
        detail = "must not have leading or trailing whitespace"
        yield invalid_value(f"{path}.image", image, detail)
    yield from one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    yield from one_of(f"{path}.restartPolicy", container.get("restartPolicy"), _RESTART_POLICIES)
    policy = container.get("terminationMessagePolicy")
    yield from one_of(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if ports := container.get("ports"):
        yield from _validate_ports(ports, f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        yield from _validate_env(variable, f"{path}.env[{index}]")
    for index, source in enumerate(container.get("envFrom") or ()):
        yield from _validate_env_from(source, f"{path}.envFrom[{index}]")
    if mounts := container.get("volumeMounts"):
        yield from _validate_mounts(mounts, f"{path}.volumeMounts", volumes)
    if resources := container.get("resources"):
        yield from _validate_resources(resources, f"{path}.resources")
    yield from validate_probes(container, path)
    if lifecycle := container.get("lifecycle"):
        yield from validate_lifecycle(lifecycle, f"{path}.lifecycle")
    if context := container.get("securityContext"):
        yield from _validate_security(context, f"{path}.securityContext")


def _validate_ports(ports: list[Object], path: str) -> Errors:
    names: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        if name := port.get("name"):
            yield from text(f"{at}.name", name, port_name)
            yield from unique(f"{at}.name", name, names)
        if not port.get("containerPort"):
            yield required(f"{at}.containerPort")
        else:
            yield from port_number(f"{at}.containerPort", port["containerPort"])
        if port.get("hostPort"):
            yield from port_number(f"{at}.hostPort", port["hostPort"])
        yield from needed(f"{at}.protocol", port.get("protocol"))
        yield from one_of(f"{at}.protocol", port.get("protocol"), PROTOCOLS)


def _validate_env(variable: Object, path: str) -> Errors:
    yield from needed(f"{path}.name", variable.get("name"), env_name)
    source = variable.get("valueFrom")
    if source is None:
        return
    at = f"{path}.valueFrom"
    named = [kind for kind in _ENV_SOURCES if source.get(kind)]
    if not named:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
            "`secretKeyRef`"
        )
        yield invalid_value(at, "", detail)
    elif len(named) > 1:
        yield invalid_value(at, "", "may not have more than one field specified at a time")
    if variable.get("value"):
        yield invalid_value(at, "", "may not be specified when `value` is not empty")
    yield from validate_field_sources(source, at, _ENV_FIELDS)
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if reference := source.get(kind):
            yield from needed(f"{at}.{kind}.name", reference.get("name"))
            yield from needed(f"{at}.{kind}.key", reference.get("key"), config_key)


def validate_field_sources(source: Object, path: str, allowed: tuple[str, ...]) -> Errors:
    """`fieldRef` and `resourceFieldRef`, of a variable or of a file in a volume."""
    if reference := source.get("fieldRef"):
        at, field = f"{path}.fieldRef.fieldPath", reference.get("fieldPath") or ""
        plain, subscript, key = field.partition("['")
        if subscript and plain in ("metadata.labels", "metadata.annotations"):
            yield from text(at, key.removesuffix("']").lower(), qualified_name)
        elif not field:
            yield required(at)
        elif field not in allowed:
            yield not_supported(at, field, sorted(allowed))
    if reference := source.get("resourceFieldRef"):
        at, field = f"{path}.resourceFieldRef.resource", reference.get("resource") or ""
        if not field:
            yield required(at)
        elif field not in _CONTAINER_RESOURCES and ".hugepages-" not in field:
            yield not_supported(at, field, sorted(_CONTAINER_RESOURCES))


def _validate_env_from(source: Object, path: str) -> Errors:
    yield from text(f"{path}.prefix", source.get("prefix") or "", env_name)
    named = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
    if not named:
        yield invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`")
    elif len(named) > 1:
        yield invalid_value(path, "", "may not have more than one field specified at a time")
    for kind in named:
        yield from needed(f"{path}.{kind}.name", source[kind].get("name"))


def _validate_mounts(mounts: list[Object], path: str, volumes: set[str]) -> Errors:
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        at = f"{path}[{index}]"
        name, place = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{at}.name")
        elif name not in volumes:
            yield unknown(f"{at}.name", name)
        yield from needed(f"{at}.mountPath", place)
        if place in places:
            yield invalid_value(f"{at}.mountPath", place, "must be unique")
        places.add(place)
        if sub_path := mount.get("subPath"):
            yield from relative_path(f"{at}.subPath", sub_path)
        if sub_path_expr := mount.get("subPathExpr"):
            if sub_path:
                detail = "subPathExpr and subPath are mutually exclusive"
                yield invalid_value(f"{at}.subPathExpr", sub_path_expr, detail)
            yield from relative_path(f"{at}.subPathExpr", sub_path_expr)
        yield from one_of(f"{at}.mountPropagation", mount.get("mountPropagation"), _PROPAGATIONS)


def _validate_resources(resources: Object, path: str) -> Errors:
    """Requests and limits: known names, sound amounts, no request above its limit."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, values in (("limits", limits), ("requests", requests)):
        if values:
            yield from _validate_resource_names(values, f"{path}.{kind}")
            yield from quantities(f"{path}.{kind}", values)
    for name, value in requests.items():
        wanted, limit = amount(value), amount(limits.get(name))
        if wanted and limit and limit < wanted:
            detail = f"must be less than or equal to {name} limit of {limit}"
            yield invalid_value(f"{path}.requests", str(wanted), detail)


def _validate_resize_policies(policies: list[Object], path: str, *, never: bool) -> Errors:
    """`never`: containers of the pod are not restarted."""
    names: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName"), policy.get("restartPolicy")
        yield from unique(f"{path}[{index}]", name or "", names)
        yield from needed(path, name)
        yield from one_of(path, name, ("cpu", "memory"))
        yield from needed(path, restart)
        yield from one_of(path, restart, ("NotRequired", "RestartContainer"))
        if never and restart == "RestartContainer":
            detail = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            yield invalid_value(path, restart, detail)


def _validate_resource_names(values: Mapping[str, object], path: str) -> Errors:
    for name in values:
        if name in _STANDARD_RESOURCES:
            continue
        at = f"{path}[{name}]"
        yield from text(at, name, qualified_name)
        if "/" not in name and not name.startswith("hugepages-"):
            yield invalid_value(at, name, "must be a standard resource type or fully qualified")
            yield invalid_value(at, name, "must be a standard resource for containers")


def _validate_security(context: Object, path: str) -> Errors:
    yield from validate_ids(context, path)
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield invalid_value(path, context, detail)
    added = (context.get("capabilities") or {}).get("add") or ()
    if "CAP_SYS_ADMIN" in added and context.get("allowPrivilegeEscalation") is False:
        detail = (
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        )
        yield invalid_value(path, context, detail)
    yield from validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")


def validate_ids(context: Object, path: str) -> Errors:
    """User and group numbers of a security context."""
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        yield from between(f"{path}.{name}", context.get(name), 0)


def validate_seccomp(profile: Object | None, path: str) -> Errors:
    if not profile:
        return
    kind, file = profile.get("type"), profile.get("localhostProfile")
    yield from needed(f"{path}.type", kind)
    yield from one_of(f"{path}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))
    if kind == "Localhost":
        detail = "must be set when seccomp type is Localhost"
        if not file:
            yield required(f"{path}.localhostProfile", detail)
        else:
            yield from relative_path(f"{path}.localhostProfile", file)
    elif file:
        detail = "can only be set when seccomp type is Localhost"
        yield invalid_value(f"{path}.localhostProfile", file, detail)
