"""What every cluster has from its first start: four namespaces and the `kubernetes` Service."""

from shepherd.api import errors
from shepherd.api.kinds import ENDPOINT_SLICE, ENDPOINTS, NAMESPACE, SERVICE
from shepherd.api.managedfields import UPDATE, Writer
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import User
from shepherd.server.auth import ADMIN_GROUP
from shepherd.server.config import ServerConfig
from shepherd.server.registry import Registry, main
from shepherd.server.routes import Route

SELF = User("system:apiserver", (ADMIN_GROUP,))
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_NAME = "kubernetes"
_LABELS = {"component": "apiserver", "provider": "kubernetes"}


async def make(registry: Registry, config: ServerConfig) -> None:
    """Make what is missing, and point the `kubernetes` Service at where the API is now."""
    for name in NAMESPACES:
        await _ensure(registry, NAMESPACE, "", name, {})
    service = {
        "spec": {
            "clusterIP": config.kubernetes_address,
            "ports": [{"name": "https", "port": 443, "targetPort": config.advertise_port or 443}],
        }
    }
    await _ensure(registry, SERVICE, "default", _NAME, service, _LABELS)
    port = {"name": "https", "port": config.advertise_port or 443, "protocol": "TCP"}
    addresses = [config.advertise_address] if config.advertise_address else []
    here = [{"addresses": [{"ip": one}], "ports": [port]} for one in addresses]
    subsets: Object = {"subsets": here}
    slices = {
        "addressType": "IPv4",
        "endpoints": [{"addresses": [one], "conditions": {"ready": True}} for one in addresses],
        "ports": [port],
    }
    mirrored = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    await _ensure(registry, ENDPOINTS, "default", _NAME, subsets, mirrored, replace=True)
    of_service = {"kubernetes.io/service-name": _NAME}
    await _ensure(registry, ENDPOINT_SLICE, "default", _NAME, slices, of_service, replace=True)


async def _ensure(
    registry: Registry,
    resource: Resource,
    namespace: str,
    name: str,
    content: Object,
    labels: dict[str, str] | None = None,
    *,
    replace: bool = False,
) -> None:
    route = Route("create", resource, resource.group, resource.version, namespace, name)
    obj = {"metadata": {"name": name, "labels": labels or {}}} | content
    writer = Writer("kube-apiserver", UPDATE, resource.api_version)
    try:
        await registry.create(route, obj, SELF, writer=writer)
    except errors.ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        if replace:
            await registry.update(route, lambda old: old | content, SELF, merge=main, writer=writer)
