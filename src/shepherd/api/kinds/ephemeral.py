"""Ephemeral containers: what `kubectl debug` adds to a pod that runs.

Source: kubernetes pkg/apis/core/validation, validateEphemeralContainers and
ValidatePodEphemeralContainersUpdate.
"""

from shepherd.api.errors import FieldError, forbidden_field, invalid_value
from shepherd.api.kinds.checks import Errors
from shepherd.api.kinds.podrules import validate_pod
from shepherd.api.resource import Object

_PATH = "spec.ephemeralContainers"
_NOT_FOR_THEM = (
    "ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources",
    "resizePolicy", "restartPolicy",
)  # fmt: skip


def validate_ephemeral_update(pod: Object, old: Object) -> list[FieldError]:
    """Given a pod with the wanted ephemeral containers, and the pod as it is: they can only be
    added."""
    return [*validate_pod(pod), *_validate_each(pod), *_validate_kept(pod, old)]


def _containers(pod: Object) -> list[Object]:
    return pod["spec"].get("ephemeralContainers") or []


def _validate_each(pod: Object) -> Errors:
    spec = pod["spec"]
    targets = {
        container.get("name")
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
    }
    for index, container in enumerate(_containers(pod)):
        at = f"{_PATH}[{index}]"
        for name in _NOT_FOR_THEM:
            if container.get(name):
                yield forbidden_field(f"{at}.{name}", "cannot be set for an Ephemeral Container")
        target = container.get("targetContainerName")
        if target and target not in targets:
            yield invalid_value(f"{at}.targetContainerName", target, "no such container")


def _validate_kept(pod: Object, old: Object) -> Errors:
    wanted = {container.get("name"): container for container in _containers(pod)}
    for container in _containers(old):
        name = container.get("name")
        if name not in wanted:
            detail = f'existing ephemeral containers "{name}" may not be removed'
            yield forbidden_field(_PATH, detail)
        elif wanted[name] != container:
            detail = f'existing ephemeral containers "{name}" may not be changed'
            yield forbidden_field(_PATH, detail)
