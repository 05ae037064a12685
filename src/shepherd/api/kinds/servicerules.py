"""What a Service must be, what it keeps, and what of it may change.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidateService;
pkg/registry/core/service/storage (patchAllocatedValues) and strategy.go (dropTypeDependentFields).
"""

from shepherd.api.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from shepherd.api.kinds.checks import (
    NO_EFFECT,
    PROTOCOLS,
    Errors,
    absent,
    ip_address,
    labels,
    needed,
    one_of,
    port_number,
    port_or_name,
    text,
    unique,
)
from shepherd.api.names import dns1123_label, dns1123_subdomain, port_name
from shepherd.api.resource import Object

HEADLESS = "None"
"""The clusterIP of a Service that has no address of its own."""
WITH_NODE_PORTS = ("LoadBalancer", "NodePort")
WITH_CLUSTER_IP = ("ClusterIP", *WITH_NODE_PORTS)

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_MAX_AFFINITY_SECONDS = 86400


# -- what a new one or an update is made into ---------------------------------------------------


def prepare_service(service: Object, old: Object | None) -> None:
    """Keep what was allocated, drop what the type has no use for, say addresses in both forms."""
    spec = service.get("spec") or {}
    if old is not None:
        _keep_allocated(spec, old.get("spec") or {})
        _drop_of_old_type(spec, old.get("spec") or {})
    if spec.get("type") == "ExternalName":
        return
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif spec.get("clusterIPs") and not spec.get("clusterIP"):
        spec["clusterIP"] = spec["clusterIPs"][0]
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv6" if ":" in (spec.get("clusterIP") or "") else "IPv4"]
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "SingleStack"


def _keep_allocated(spec: Object, old: Object) -> None:
    """A client that replaces a Service without naming its addresses means to keep them."""
    kind, old_kind = spec.get("type"), old.get("type")
    if kind in WITH_CLUSTER_IP and old_kind in WITH_CLUSTER_IP:
        if not spec.get("clusterIP") and not spec.get("clusterIPs"):
            _copy(spec, old, "clusterIP", "clusterIPs")
        elif spec.get("clusterIP") == old.get("clusterIP") and not spec.get("clusterIPs"):
            _copy(spec, old, "clusterIPs")
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if not spec.get(field):
                _copy(spec, old, field)
    if kind in WITH_NODE_PORTS and old_kind in WITH_NODE_PORTS:
        known = {port.get("name") or "": port.get("nodePort") for port in old.get("ports") or ()}
        used = {port.get("nodePort") for port in spec.get("ports") or ()}
        for index, port in enumerate(spec.get("ports") or ()):
            node_port = known.get(port.get("name") or "")
            if node_port and not port.get("nodePort") and node_port not in used:
                spec["ports"][index] = port | {"nodePort": node_port}
                used.add(node_port)


def _copy(spec: Object, old: Object, *fields: str) -> None:
    for field in fields:
        if field in old:
            spec[field] = old[field]


def _drop_of_old_type(spec: Object, old: Object) -> None:
    """Fields of the old type that the client left as they were go with the type."""
    kind, old_kind = spec.get("type"), old.get("type")
    if old_kind in WITH_CLUSTER_IP and kind == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field) == old.get(field):
                spec.pop(field, None)
    if old_kind in WITH_NODE_PORTS and kind not in WITH_NODE_PORTS:
        known = {port.get("nodePort") for port in old.get("ports") or ()}
        spec["ports"] = [
            {field: value for field, value in port.items() if field != "nodePort"}
            if port.get("nodePort") in known
            else port
            for port in spec.get("ports") or ()
        ]
        if not spec.get("externalIPs"):
            spec.pop("externalTrafficPolicy", None)
    if old_kind == "LoadBalancer" and kind != "LoadBalancer":
        spec.pop("allocateLoadBalancerNodePorts", None)
    if old_kind == "ExternalName" and kind != "ExternalName":
        spec.pop("externalName", None)


# -- what it must be ----------------------------------------------------------------------------


def validate_service(service: Object) -> list[FieldError]:
    spec = service.get("spec") or {}
    return [*_validate_type(spec), *_validate_ports(spec), *_validate_rest(spec)]


def _validate_type(spec: Object) -> Errors:
    kind, address = spec.get("type"), spec.get("clusterIP") or ""
    yield from one_of("spec.type", kind, _TYPES)
    if kind == "ExternalName":
        for field in ("clusterIP", "clusterIPs"):
            detail = "may not be set for ExternalName services"
            yield from absent(f"spec.{field}", spec.get(field), detail)
        name = (spec.get("externalName") or "").removesuffix(".")
        yield from needed("spec.externalName", name, dns1123_subdomain)
        return
    if kind in WITH_NODE_PORTS and address == HEADLESS:
        detail = f"may not be set to 'None' for {kind} services"
        yield invalid_value("spec.clusterIPs[0]", address, detail)
    addresses = spec.get("clusterIPs") or ()
    if addresses and addresses[0] != address:
        detail = "first value must match `clusterIP`"
        yield invalid_value("spec.clusterIPs", list(addresses), detail)
    for index, value in enumerate(addresses):
        if value != HEADLESS:
            yield from ip_address(f"spec.clusterIPs[{index}]", value)


def _validate_ports(spec: Object) -> Errors:
    ports = spec.get("ports") or ()
    kind, headless = spec.get("type"), spec.get("clusterIP") == HEADLESS
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    names: set[str] = set()
    seen: set[tuple[str, int]] = set()
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at = f"spec.ports[{index}]"
        yield from _validate_port(port, at, named=len(ports) > 1)
        yield from unique(f"{at}.name", port.get("name") or "", names)
        protocol = port.get("protocol") or ""
        if (protocol, port.get("port") or 0) in seen:
            yield duplicate(at, {"port": port.get("port") or 0, "protocol": protocol})
        seen.add((protocol, port.get("port") or 0))
        if not (node_port := port.get("nodePort")):
            continue
        if kind not in WITH_NODE_PORTS:
            yield forbidden_field(f"{at}.nodePort", f"may not be used when `type` is '{kind}'")
        if (protocol, node_port) in node_ports:
            yield duplicate(f"{at}.nodePort", node_port)
        node_ports.add((protocol, node_port))


def _validate_port(port: Object, path: str, *, named: bool) -> Errors:
    name = port.get("name") or ""
    if named and not name:
        yield required(f"{path}.name")
    yield from text(f"{path}.name", name, dns1123_label)
    yield from port_number(f"{path}.port", port.get("port") or 0)
    yield from needed(f"{path}.protocol", port.get("protocol"))
    yield from one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    yield from port_or_name(f"{path}.targetPort", port.get("targetPort"), port_name)
    yield from port_number(f"{path}.nodePort", port.get("nodePort") or None)


def _validate_rest(spec: Object) -> Errors:
    yield from labels("spec.selector", spec.get("selector"))
    affinity = spec.get("sessionAffinity")
    yield from one_of("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    timeout = config.get("timeoutSeconds")
    if isinstance(timeout, int) and not 0 < timeout <= _MAX_AFFINITY_SECONDS:
        detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
        yield invalid_value("spec.sessionAffinityConfig.clientIP.timeoutSeconds", timeout, detail)
    for field in ("externalTrafficPolicy", "internalTrafficPolicy"):
        yield from one_of(f"spec.{field}", spec.get(field), ("Cluster", "Local"))
    policies = ("PreferDualStack", "RequireDualStack", "SingleStack")
    yield from one_of("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), policies)
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        yield from one_of(f"spec.ipFamilies[{index}]", family, ("IPv4", "IPv6"))
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from ip_address(f"spec.externalIPs[{index}]", address)


def validate_service_update(service: Object, old: Object) -> list[FieldError]:
    """A Service keeps its address for as long as its type has one."""
    spec, before = service.get("spec") or {}, old.get("spec") or {}
    if before.get("type") not in WITH_CLUSTER_IP or spec.get("type") not in WITH_CLUSTER_IP:
        return []
    addresses, known = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if known and addresses[:1] != known[:1]:
        return [invalid_value("spec.clusterIPs[0]", addresses, "may not change once set")]
    return []


# -- what may surprise --------------------------------------------------------------------------


_IDLE_FIELDS = (
    "loadBalancerClass", "loadBalancerIP", "loadBalancerSourceRanges", "trafficDistribution",
)  # fmt: skip


def service_warnings(service: Object) -> list[str]:
    spec = service.get("spec") or {}
    found = [f"spec.{field}: {NO_EFFECT}" for field in _IDLE_FIELDS if spec.get(field)]
    if spec.get("type") == "LoadBalancer":
        found.append("spec.type: no load balancer is allocated; the service answers on node ports")
    return found
