"""Defaults of a pod's spec, alone and in the template of a workload.

Source: kubernetes pkg/apis/core/v1/defaults.go. All are idempotent and work in place; nothing here
judges, so a field of the wrong shape is left for validation to name.
"""

from shepherd.api.kinds.shape import Defaults, child, fill
from shepherd.api.kinds.volumes import default_field_sources, default_volume
from shepherd.api.resource import Object

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")

_SPEC_DEFAULTS: Defaults = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER_DEFAULTS: Defaults = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE_DEFAULTS: Defaults = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def default_pod_spec(spec: Object) -> None:
    """What a spec gets wherever it stands."""
    fill(spec, _SPEC_DEFAULTS)
    # kubectl debug and other Go programs follow this pointer without looking.
    child(spec, "securityContext")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # The old name of the field is served besides the new one.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for name in CONTAINER_LISTS:
        for container in spec.get(name) or ():
            _default_container(container)
    for volume in spec.get("volumes") or ():
        default_volume(volume)


def default_template(template: Object | None) -> None:
    """The pod template of a workload."""
    if template:
        child(template, "metadata")
        default_pod_spec(child(template, "spec"))


def default_pod(pod: Object) -> None:
    """A pod: besides the defaults of every spec those that a template does not show."""
    spec = child(pod, "spec")
    default_pod_spec(spec)
    fill(spec, {"enableServiceLinks": True})
    host_network = spec.get("hostNetwork")
    for name in ("initContainers", "containers"):
        for container in spec.get(name) or ():
            _requests_from_limits(container)
            if host_network:
                for port in container.get("ports") or ():
                    if not port.get("hostPort"):
                        port["hostPort"] = port.get("containerPort", 0)


def pull_policy(image: str) -> str:
    """Always for an image that floats (`:latest` or no tag), else IfNotPresent."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    floats = tag == "latest" or not (tag or digest)
    return "Always" if floats else "IfNotPresent"


def _requests_from_limits(container: Object) -> None:
    resources = container.get("resources") or {}
    if limits := resources.get("limits"):
        resources["requests"] = limits | (resources.get("requests") or {})


def _default_container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    fill(container, _CONTAINER_DEFAULTS)
    child(container, "resources")
    for port in container.get("ports") or ():
        fill(port, {"protocol": "TCP"})
    for variable in container.get("env") or ():
        if source := variable.get("valueFrom"):
            default_field_sources(source)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe := container.get(name):
            _default_probe(probe)
    lifecycle = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        _default_http_get((lifecycle.get(name) or {}).get("httpGet"))


def _default_probe(probe: Object) -> None:
    for name, value in _PROBE_DEFAULTS.items():
        if not probe.get(name):
            probe[name] = value
    _default_http_get(probe.get("httpGet"))
    if grpc := probe.get("grpc"):
        grpc.setdefault("service", "")


def _default_http_get(action: Object | None) -> None:
    if action is not None:
        fill(action, {"path": "/", "scheme": "HTTP"})
