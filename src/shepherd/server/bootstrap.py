"""What every cluster has from its first start: namespaces, the `kubernetes` Service, and more."""

from shepherd.api import errors
from shepherd.api.kinds import CONFIG_MAP, ENDPOINT_SLICE, ENDPOINTS, NAMESPACE, RESOURCES, SERVICE
from shepherd.api.kinds.cluster import API_SERVICE
from shepherd.api.kinds.networking import SERVICE_CIDR
from shepherd.api.kinds.priorities import PRIORITY_CLASS, SYSTEM_CLASSES
from shepherd.api.kinds.rbac import ROLE
from shepherd.api.managedfields import UPDATE, Writer
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import User
from shepherd.lib.tasks import all_of
from shepherd.server.auth import ADMIN_GROUP
from shepherd.server.config import FrontProxy, ServerConfig
from shepherd.server.registry import Registry, main
from shepherd.server.routes import Route

SELF = User("system:apiserver", (ADMIN_GROUP,))
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_NAME = "kubernetes"
_CORE_PRIORITY, _GROUP_PRIORITY, _VERSION_PRIORITY = 18000, 17000, 15
_MANAGED = {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
_LOCAL = {
    "type": "Available",
    "status": "True",
    "reason": "Local",
    "message": "Local APIServices are always available",
}
_LABELS = {"component": "apiserver", "provider": "kubernetes"}


OWN = frozenset(
    served
    for resource in RESOURCES
    for served in ((resource.group, resource.version), *resource.aliases)
)
"""The groups and versions that this server itself answers for."""
AUTHENTICATION = "extension-apiserver-authentication"
"""The ConfigMap that tells API servers behind this one how to know it, and users."""
_HEADERS = {
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-username-headers": '["X-Remote-User"]',
}


async def make(
    registry: Registry, config: ServerConfig, front_proxy: FrontProxy | None = None
) -> None:
    """Make what is missing, and point the `kubernetes` Service at where the API is now."""
    for name in NAMESPACES:
        await _ensure(registry, NAMESPACE, "", name, {})
    for name, (value, description) in SYSTEM_CLASSES.items():
        content = {"value": value, "description": description}
        await _ensure(registry, PRIORITY_CLASS, "", name, content)
    await all_of(_declare(registry, *served) for served in sorted(OWN))
    if front_proxy:
        reading = {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [AUTHENTICATION],
            "verbs": ["get", "list", "watch"],
        }
        reader = f"{AUTHENTICATION}-reader"
        await _ensure(registry, ROLE, "kube-system", reader, {"rules": [reading]})
        trusted = {"data": front_proxy.authorities | _HEADERS}
        await _ensure(registry, CONFIG_MAP, "kube-system", AUTHENTICATION, trusted, replace=True)
    ranges = {"spec": {"cidrs": [config.service_cidr]}}
    await _ensure(registry, SERVICE_CIDR, "", _NAME, ranges)
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


async def _declare(registry: Registry, group: str, version: str) -> None:
    """The APIService of a group and version that this server itself answers for."""
    content = {
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": _GROUP_PRIORITY if group else _CORE_PRIORITY,
            "versionPriority": _VERSION_PRIORITY,
        },
        "status": {"conditions": [_LOCAL]},
    }
    await _ensure(registry, API_SERVICE, "", f"{version}.{group}", content, _MANAGED)


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
