"""A container's environment. Pure.

Source: kubernetes pkg/kubelet makeEnvironmentVariables, third_party/forked/golang/expansion,
pkg/kubelet/envvars.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shepherd.agent.downward import field_value, resource_value
from shepherd.agent.pod_state import BoundPod
from shepherd.agent.references import Lookup, UnresolvedError, Values
from shepherd.api.kinds import CONFIG_MAP, SECRET
from shepherd.api.objects import Container, Service
from shepherd.api.objects.pod import EnvVarSource, KeySelector
from shepherd.api.references import Reference

_VARIABLE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_NAME = re.compile(r"[ -<>-~]+")  # printable ASCII without "="


@dataclass(slots=True)
class Environment:
    """The variables in order, and what was left out."""

    variables: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    """For events: which keys of envFrom are no names of variables."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value. `$$` is a dollar sign; an unknown `$(NAME)` stays."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    # Behind the last parenthesis nothing is a reference, and looking for its end takes long.
    end = text.rfind(")") + 1
    return _VARIABLE.sub(value, text[:end]) + text[end:].replace("$$", "$")


def environment(
    pod: BoundPod,
    container: Container,
    *,
    status: Mapping[str, object],
    lookup: Lookup,
    services: Mapping[str, str],
    allocatable: Mapping[str, str],
) -> Environment:
    """The environment of `container`.

    Later variables may use earlier ones; values that come from elsewhere (envFrom, valueFrom) are
    taken as they are. `status` is the pod's status for field references, `services` the variables
    of the service links. Raises UnresolvedError for what must be there and is not.
    """
    result = Environment()
    known = result.variables
    for source in container.env_from:
        for kind, ref in (
            (CONFIG_MAP.kind, source.config_map_ref),
            (SECRET.kind, source.secret_ref),
        ):
            if ref is None:
                continue
            reference = Reference(kind, pod.metadata.namespace, ref.name)
            values = _object(lookup, reference, optional=ref.optional) or {}
            _take_all(result, source.prefix, values, reference)
    for variable in container.env:
        if variable.value:
            value: str | None = expand(variable.value, {**services, **known})
        elif variable.value_from:
            value = _from(pod, container, variable.value_from, status, lookup, allocatable)
        else:
            value = ""
        if value is not None:
            known[variable.name] = value
    for name, value in services.items():
        known.setdefault(name, value)
    return result


def _take_all(result: Environment, prefix: str, values: Values, reference: Reference) -> None:
    names = {prefix + key: value for key, value in values.items()}
    bad = sorted(name for name in names if not _NAME.fullmatch(name))
    if bad:
        kind = "configMap" if reference.kind == CONFIG_MAP.kind else "secret"
        result.skipped.append(
            f"Keys [{', '.join(bad)}] from the EnvFrom {kind} {reference.namespace}/"
            f"{reference.name} were skipped since they are considered invalid environment "
            "variable names."
        )
    for name, value in names.items():
        if name not in bad:
            result.variables[name] = value.decode(errors="replace")


def _from(
    pod: BoundPod,
    container: Container,
    source: EnvVarSource,
    status: Mapping[str, object],
    lookup: Lookup,
    allocatable: Mapping[str, str],
) -> str | None:
    """A value from elsewhere; None: it is optional and absent."""
    if source.field_ref:
        return field_value(pod, status, source.field_ref.field_path)
    if source.resource_field_ref:
        return resource_value(pod, container, source.resource_field_ref, allocatable)
    if source.config_map_key_ref:
        return _key(pod, CONFIG_MAP.kind, source.config_map_key_ref, lookup)
    if source.secret_key_ref:
        return _key(pod, SECRET.kind, source.secret_key_ref, lookup)
    return ""


def _key(pod: BoundPod, kind: str, selector: KeySelector, lookup: Lookup) -> str | None:
    reference = Reference(kind, pod.metadata.namespace, selector.name)
    values = _object(lookup, reference, optional=selector.optional)
    if values is None:
        return None
    if selector.key in values:
        return values[selector.key].decode(errors="replace")
    if selector.optional:
        return None
    raise UnresolvedError(
        f"couldn't find key {selector.key} in {kind} {reference.namespace}/{reference.name}"
    )


def _object(lookup: Lookup, reference: Reference, *, optional: bool) -> Values | None:
    values = lookup.get(reference)
    if values is None and not optional:
        raise UnresolvedError(f'{reference.kind.lower()} "{reference.name}" not found')
    return values


def service_links(services: Iterable[Service], namespace: str, *, links: bool) -> dict[str, str]:
    """The variables by which a container finds services: `WEB_SERVICE_HOST` and so on.

    Those of `default/kubernetes` are always there, others of the pod's namespace if `links`.
    """
    found: dict[str, str] = {}
    for service in sorted(services, key=lambda s: s.metadata.creation_timestamp or ""):
        meta = service.metadata
        master = (meta.namespace, meta.name) == ("default", "kubernetes")
        if service.spec.cluster_ip in ("", "None") or not service.spec.ports:
            continue
        if master or (links and meta.namespace == namespace):
            found |= _links(service)
    return found


def _links(service: Service) -> dict[str, str]:
    name = service.metadata.name.upper().replace("-", "_")
    address, ports = service.spec.cluster_ip, service.spec.ports
    host = f"[{address}]" if ":" in address else address
    found = {
        f"{name}_SERVICE_HOST": address,
        f"{name}_SERVICE_PORT": str(ports[0].port),
    }
    for port in ports:
        if port.name:
            found[f"{name}_SERVICE_PORT_{port.name.upper().replace('-', '_')}"] = str(port.port)
    for index, port in enumerate(ports):
        url = f"{port.protocol.lower()}://{host}:{port.port}"
        prefix = f"{name}_PORT_{port.port}_{port.protocol}"
        if index == 0:
            found[f"{name}_PORT"] = url
        found |= {
            prefix: url,
            f"{prefix}_PROTO": port.protocol.lower(),
            f"{prefix}_PORT": str(port.port),
            f"{prefix}_ADDR": address,
        }
    return found
