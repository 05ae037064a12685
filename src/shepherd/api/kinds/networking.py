"""Ingress, IngressClass, NetworkPolicy, IPAddress, ServiceCIDR.

Source: kubernetes pkg/apis/networking/validation, pkg/printers/internalversion.
"""

from ipaddress import ip_address, ip_network

from shepherd.api.errors import FieldError, forbidden_field, invalid_value, required
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, NONE, column, name_or_default, selector_text, value_at
from shepherd.api.kinds.checks import (
    PROTOCOLS,
    Errors,
    absent,
    immutable,
    label_selector,
    one_of,
    port_or_name,
    text,
)
from shepherd.api.kinds.shape import child, fill
from shepherd.api.names import dns1035_label, dns1123_subdomain, port_name
from shepherd.api.resource import Column, Object, Resource

_GROUP = "networking.k8s.io"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_BAD_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")


def _default_ingress(ingress: Object) -> None:
    child(ingress, "spec")
    child(child(ingress, "status"), "loadBalancer")


def _validate_ingress(ingress: Object) -> Errors:
    spec = ingress.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield invalid_value("spec", spec, "either `defaultBackend` or `rules` must be specified")
    if backend := spec.get("defaultBackend"):
        yield from _validate_backend(backend, "spec.defaultBackend")
    yield from text("spec.ingressClassName", spec.get("ingressClassName") or "", dns1123_subdomain)
    for index, rule in enumerate(spec.get("rules") or ()):
        at, host = f"spec.rules[{index}]", rule.get("host") or ""
        try:
            ip_address(host)
            yield invalid_value(f"{at}.host", host, "must be a DNS name, not an IP address")
        except ValueError:
            yield from text(f"{at}.host", host.removeprefix("*."), dns1123_subdomain)
        for position, path in enumerate(value_at(rule, "http.paths") or ()):
            yield from _validate_path(path, f"{at}.http.paths[{position}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for position, host in enumerate(tls.get("hosts") or ()):
            at = f"spec.tls[{index}].hosts[{position}]"
            yield from text(at, host.removeprefix("*."), dns1123_subdomain)


def _validate_path(item: Object, path: str) -> Errors:
    kind, place = item.get("pathType") or "", item.get("path") or ""
    yield from one_of(f"{path}.pathType", kind, _PATH_TYPES)
    if kind in ("Exact", "Prefix"):
        if not place.startswith("/"):
            yield invalid_value(f"{path}.path", place, "must be an absolute path")
        for part in _BAD_PATHS:
            if part in place:
                yield invalid_value(f"{path}.path", place, f"must not contain '{part}'")
        for end in _BAD_ENDS:
            if place.endswith(end):
                yield invalid_value(f"{path}.path", place, f"cannot end with '{end}'")
    elif place and not place.startswith("/"):
        yield invalid_value(f"{path}.path", place, "must be an absolute path")
    if item.get("backend"):
        yield from _validate_backend(item["backend"], f"{path}.backend")


def _validate_backend(backend: Object, path: str) -> Errors:
    service, resource = backend.get("service"), backend.get("resource")
    if service and resource:
        detail = "cannot set both resource and service backends"
        yield invalid_value(path, backend, detail)
        return
    if not service and not resource:
        yield required(path, "resource or service backend is required")
        return
    if service:
        yield from text(f"{path}.service.name", service.get("name") or "", dns1035_label)
        port = service.get("port") or {}
        if not port.get("name") and not port.get("number"):
            yield required(f"{path}.service.port", "port name or number is required")
        elif port.get("name") and port.get("number"):
            detail = "cannot set both port name & port number"
            yield invalid_value(f"{path}.service.port", port, detail)
        else:
            at = f"{path}.service.port.{'name' if port.get('name') else 'number'}"
            yield from port_or_name(at, port.get("name") or port.get("number"), port_name)


def _hosts(ingress: Object, now: float) -> str:
    hosts = [rule["host"] for rule in value_at(ingress, "spec.rules") or () if rule.get("host")]
    return ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if hosts[3:] else "") or "*"


def _address(ingress: Object, now: float) -> str:
    found = value_at(ingress, "status.loadBalancer.ingress") or ()
    return ",".join(item.get("ip") or item.get("hostname") or "" for item in found)


INGRESS = Resource(
    group=_GROUP,
    version="v1",
    kind="Ingress",
    plural="ingresses",
    short_names=("ing",),
    status=True,
    generation=True,
    idle=True,
    columns=(
        column("Class", "spec.ingressClassName", "Who serves it."),
        Column("Hosts", _hosts, description="Whose requests it takes."),
        Column("Address", _address, description="Where it is reached."),
        Column(
            "Ports",
            lambda obj, now: "80, 443" if value_at(obj, "spec.tls") else "80",
            description="Where it listens.",
        ),
        AGE,
    ),
    default=_default_ingress,
    validate=validates("networking.v1.Ingress", _validate_ingress),
)


def _parameters(ingress_class: Object, now: float) -> str:
    found = value_at(ingress_class, "spec.parameters")
    if not found:
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
    return f"{found.get('kind')}{group}/{found.get('name')}"


def _default_class(ingress_class: Object) -> None:
    if parameters := child(ingress_class, "spec").get("parameters"):
        fill(parameters, {"scope": "Cluster"})


def _validate_class(ingress_class: Object) -> Errors:
    parameters = value_at(ingress_class, "spec.parameters") or {}
    at = "spec.parameters"
    yield from one_of(f"{at}.scope", parameters.get("scope"), ("Cluster", "Namespace"))
    if parameters.get("scope") == "Namespace" and not parameters.get("namespace"):
        yield required(f"{at}.namespace", "`parameters.scope` is set to 'Namespace'")
    if parameters.get("scope") == "Cluster":
        detail = "`parameters.scope` is set to 'Cluster'"
        yield from absent(f"{at}.namespace", parameters.get("namespace"), detail)


def _validate_class_update(ingress_class: Object, old: Object) -> list[FieldError]:
    new, before = (value_at(obj, "spec.controller") for obj in (ingress_class, old))
    return list(immutable("spec.controller", new, before))


INGRESS_CLASS = Resource(
    group=_GROUP,
    version="v1",
    kind="IngressClass",
    plural="ingressclasses",
    namespaced=False,
    generation=True,
    idle=True,
    columns=(
        name_or_default(_DEFAULT_CLASS),
        column("Controller", "spec.controller", "Who serves its ingresses."),
        Column("Parameters", _parameters, description="What says more."),
        AGE,
    ),
    default=_default_class,
    validate=validates("networking.v1.IngressClass", _validate_class),
    validate_update=_validate_class_update,
)


def _default_policy(policy: Object) -> None:
    spec = child(policy, "spec")
    child(spec, "podSelector")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            fill(port, {"protocol": "TCP"})


def _validate_policy(policy: Object) -> Errors:
    spec = policy.get("spec") or {}
    yield from label_selector("spec.podSelector", spec.get("podSelector"))
    for index, kind in enumerate(spec.get("policyTypes") or ()):
        yield from one_of(f"spec.policyTypes[{index}]", kind, ("Egress", "Ingress"))
    for way, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(way) or ()):
            at = f"spec.{way}[{index}]"
            for position, port in enumerate(rule.get("ports") or ()):
                yield from _validate_port(port, f"{at}.ports[{position}]")
            for position, peer in enumerate(rule.get(peers) or ()):
                yield from _validate_peer(peer, f"{at}.{peers}[{position}]")


def _validate_port(port: Object, path: str) -> Errors:
    yield from one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    first, last = port.get("port"), port.get("endPort")
    if first is not None:
        yield from port_or_name(f"{path}.port", first, port_name)
    if last is not None and not isinstance(first, int):
        yield required(f"{path}.port", "must be specified when endPort is")
    elif isinstance(first, int) and last is not None and last < first:
        detail = "must be greater than or equal to `port`"
        yield invalid_value(f"{path}.endPort", last, detail)


def _validate_peer(peer: Object, path: str) -> Errors:
    pods, namespaces, block = (
        peer.get(field) for field in ("podSelector", "namespaceSelector", "ipBlock")
    )
    if pods is None and namespaces is None and block is None:
        yield required(path, "must specify a peer")
    if block is not None and (pods is not None or namespaces is not None):
        yield forbidden_field(path, "may not specify both ipBlock and another peer")
    yield from label_selector(f"{path}.podSelector", pods)
    yield from label_selector(f"{path}.namespaceSelector", namespaces)
    if cidr := (block or {}).get("cidr"):
        yield from _cidr(f"{path}.ipBlock.cidr", cidr)


def _cidr(path: str, value: str) -> Errors:
    try:
        ip_network(value, strict=False)
    except ValueError:
        detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        yield invalid_value(path, value, detail)


NETWORK_POLICY = Resource(
    group=_GROUP,
    version="v1",
    kind="NetworkPolicy",
    plural="networkpolicies",
    short_names=("netpol",),
    generation=True,
    idle=True,
    columns=(
        Column(
            "Pod-Selector",
            lambda policy, now: selector_text(value_at(policy, "spec.podSelector")),
            description="Whose traffic it is about.",
        ),
        AGE,
    ),
    default=_default_policy,
    validate=validates("networking.v1.NetworkPolicy", _validate_policy),
)


def _validate_address(address: Object) -> Errors:
    name = value_at(address, "metadata.name") or ""
    try:
        ip_address(name)
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid_value("metadata.name", name, detail)


def _parent(address: Object, now: float) -> str:
    parent = value_at(address, "spec.parentRef") or {}
    steps = ("group", "resource", "namespace", "name")
    return "/".join(parent[step] for step in steps if parent.get(step))


def _same_parent(address: Object, old: Object) -> list[FieldError]:
    new, before = (value_at(obj, "spec.parentRef") for obj in (address, old))
    return list(immutable("spec.parentRef", new, before))


IP_ADDRESS = Resource(
    group=_GROUP,
    version="v1",
    kind="IPAddress",
    plural="ipaddresses",
    namespaced=False,
    short_names=("ip",),
    name_rule="path",
    idle=True,
    columns=(Column("ParentRef", _parent, description="Whose address it is."), AGE),
    validate=validates("networking.v1.IPAddress", _validate_address),
    validate_update=_same_parent,
)


def _validate_ranges(obj: Object) -> Errors:
    ranges = value_at(obj, "spec.cidrs") or []
    if not ranges:
        yield required("spec.cidrs", "at least one CIDR required")
    for index, value in enumerate(ranges):
        yield from _cidr(f"spec.cidrs[{index}]", value)


def _same_ranges(obj: Object, old: Object) -> list[FieldError]:
    return list(immutable("spec.cidrs", value_at(obj, "spec.cidrs"), value_at(old, "spec.cidrs")))


SERVICE_CIDR = Resource(
    group=_GROUP,
    version="v1",
    kind="ServiceCIDR",
    plural="servicecidrs",
    namespaced=False,
    status=True,
    idle=True,
    columns=(column("CIDRs", "spec.cidrs", "From which services get addresses."), AGE),
    validate=validates("networking.v1.ServiceCIDR", _validate_ranges),
    validate_update=_same_ranges,
)
