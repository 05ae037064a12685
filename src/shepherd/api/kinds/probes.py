"""Validation of probes and lifecycle hooks.

Source: kubernetes pkg/apis/core/validation/validation.go, validateProbe and validateHandler.
"""

from shepherd.api.errors import forbidden_field, invalid_value, required
from shepherd.api.kinds.checks import (
    Errors,
    at_least,
    needed,
    one_of,
    port_number,
    port_or_name,
)
from shepherd.api.names import port_name
from shepherd.api.resource import Object

_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_COUNTS = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
    "failureThreshold",
)  # fmt: skip
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def validate_probes(container: Object, path: str) -> Errors:
    """The three probes of a container."""
    for name in PROBES:
        if probe := container.get(name):
            yield from _validate_probe(probe, f"{path}.{name}", readiness=name == PROBES[1])


def validate_lifecycle(lifecycle: Object, path: str) -> Errors:
    """What runs after the start and before the end of a container."""
    for name in ("postStart", "preStop"):
        handler = lifecycle.get(name)
        if handler is not None:
            yield from _validate_handler(handler, f"{path}.{name}", _HOOK_HANDLERS)


def _validate_probe(probe: Object, path: str, *, readiness: bool) -> Errors:
    yield from _validate_handler(probe, path, _PROBE_HANDLERS)
    for name in _COUNTS:
        yield from at_least(f"{path}.{name}", probe.get(name))
    grace = probe.get("terminationGracePeriodSeconds")
    yield from at_least(f"{path}.terminationGracePeriodSeconds", grace, 1)
    if readiness and grace is not None:
        detail = "must not be set for readinessProbes"
        yield invalid_value(f"{path}.terminationGracePeriodSeconds", grace, detail)
    if not readiness and probe.get("successThreshold") != 1:
        yield invalid_value(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1")


def _validate_handler(handler: Object, path: str, kinds: tuple[str, ...]) -> Errors:
    named = [kind for kind in kinds if handler.get(kind) is not None]
    if not named:
        yield required(path, "must specify a handler type")
    for kind in named[1:]:
        yield forbidden_field(f"{path}.{kind}", "may not specify more than 1 handler type")
    for kind in named:
        yield from _validate_action(kind, handler[kind], f"{path}.{kind}")


def _validate_action(kind: str, action: Object, path: str) -> Errors:
    match kind:
        case "exec":
            yield from needed(f"{path}.command", action.get("command"))
        case "httpGet":
            yield from needed(f"{path}.path", action.get("path"))
            yield from port_or_name(f"{path}.port", action.get("port"), port_name)
            yield from one_of(f"{path}.scheme", action.get("scheme"), ("HTTP", "HTTPS"))
            for index, header in enumerate(action.get("httpHeaders") or ()):
                yield from needed(f"{path}.httpHeaders[{index}].name", header.get("name"))
        case "tcpSocket":
            yield from port_or_name(f"{path}.port", action.get("port"), port_name)
        case "grpc":
            yield from port_number(f"{path}.port", action.get("port") or 0)
        case "sleep":
            yield from at_least(f"{path}.seconds", action.get("seconds") or 0)
