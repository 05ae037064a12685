"""Endpoints, EndpointSlice."""

from shepherd.api.errors import FieldError, invalid_value, required
from shepherd.api.kinds.cells import AGE, NONE
from shepherd.api.kinds.checks import (
    PROTOCOLS,
    Errors,
    immutable,
    ip_address,
    needed,
    one_of,
    port_number,
    text,
    unique,
)
from shepherd.api.kinds.shape import fill
from shepherd.api.names import dns1123_label
from shepherd.api.resource import Column, Object, Resource

_SHOWN = 3
"""How many addresses or ports a cell names before it only counts."""
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS = 1000
_MAX_ADDRESSES = 100


def _default(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            fill(port, {"protocol": "TCP"})


def _default_slice(endpoint_slice: Object) -> None:
    endpoint_slice.setdefault("endpoints", [])
    for port in endpoint_slice.get("ports") or ():
        fill(port, {"name": "", "protocol": "TCP"})


def _validate(endpoints: Object) -> list[FieldError]:
    return list(_validate_subsets(endpoints.get("subsets") or []))


def _validate_subsets(subsets: list[Object]) -> Errors:
    """Source: kubernetes pkg/apis/core/validation, ValidateEndpoints."""
    for index, subset in enumerate(subsets):
        at = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(at, "must specify `addresses` or `notReadyAddresses`")
        for kind in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(subset.get(kind) or ()):
                yield from ip_address(f"{at}.{kind}[{position}].ip", address.get("ip") or "")
        ports = subset.get("ports") or []
        for position, port in enumerate(ports):
            port_at = f"{at}.ports[{position}]"
            if len(ports) > 1:
                yield from needed(f"{port_at}.name", port.get("name"))
            yield from text(f"{port_at}.name", port.get("name") or "", dns1123_label)
            yield from port_number(f"{port_at}.port", port.get("port") or 0)
            yield from one_of(f"{port_at}.protocol", port.get("protocol"), PROTOCOLS)


def _validate_slice(endpoint_slice: Object) -> list[FieldError]:
    return list(_validate_slice_fields(endpoint_slice))


def _validate_slice_fields(endpoint_slice: Object) -> Errors:
    """Source: kubernetes pkg/apis/discovery/validation."""
    kind = endpoint_slice.get("addressType") or ""
    yield from needed("addressType", kind)
    yield from one_of("addressType", kind, _ADDRESS_TYPES)
    endpoints = endpoint_slice.get("endpoints") or []
    if len(endpoints) > _MAX_ENDPOINTS:
        detail = f"must have at most {_MAX_ENDPOINTS} items"
        yield FieldError("FieldValueTooMany", "endpoints", f"Too many: {len(endpoints)}: {detail}")
    for index, endpoint in enumerate(endpoints):
        at, addresses = f"endpoints[{index}].addresses", endpoint.get("addresses") or ()
        if not 0 < len(addresses) <= _MAX_ADDRESSES:
            detail = f"must contain between 1 and {_MAX_ADDRESSES} addresses"
            yield invalid_value(at, list(addresses), detail) if addresses else required(at, detail)
        if kind in ("IPv4", "IPv6"):
            for position, address in enumerate(addresses):
                yield from ip_address(f"{at}[{position}]", address)
    names: set[str] = set()
    for index, port in enumerate(endpoint_slice.get("ports") or ()):
        at = f"ports[{index}]"
        yield from unique(f"{at}.name", port.get("name") or "", names)
        yield from text(f"{at}.name", port.get("name") or "", dns1123_label)
        yield from port_number(f"{at}.port", port.get("port"))
        yield from one_of(f"{at}.protocol", port.get("protocol"), PROTOCOLS)


def _validate_slice_update(endpoint_slice: Object, old: Object) -> list[FieldError]:
    new, before = endpoint_slice.get("addressType"), old.get("addressType")
    return list(immutable("addressType", new, before))


def _some(texts: list[str], none: str) -> str:
    rest = len(texts) - _SHOWN
    shown = ",".join(texts[:_SHOWN]) or none
    return f"{shown} + {rest} more..." if rest > 0 else shown


def _host_port(address: str, port: int) -> str:
    """`10.42.0.7:80`, `[fd00::7]:80`."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _addresses(endpoints: Object, now: float) -> str:
    texts: list[str] = []
    for subset in endpoints.get("subsets") or ():
        ready = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = [port.get("port", 0) for port in subset.get("ports") or ()]
        texts += [_host_port(ip, port) for port in ports for ip in ready] if ports else ready
    return _some(texts, NONE)


def _slice_ports(endpoint_slice: Object, now: float) -> str:
    ports = endpoint_slice.get("ports") or ()
    return _some([str(port.get("port") or port.get("name") or "*") for port in ports], "<unset>")


def _slice_addresses(endpoint_slice: Object, now: float) -> str:
    endpoints = endpoint_slice.get("endpoints") or ()
    texts = [address for endpoint in endpoints for address in endpoint.get("addresses") or ()]
    return _some(texts, "<unset>")


def _address_type(endpoint_slice: Object, now: float) -> str:
    return str(endpoint_slice.get("addressType") or "")


ENDPOINTS = Resource(
    group="",
    version="v1",
    kind="Endpoints",
    plural="endpoints",
    short_names=("ep",),
    singular="endpoints",
    columns=(
        Column("Endpoints", _addresses, description="Where the service's pods answer."),
        AGE,
    ),
    default=_default,
    validate=_validate,
)

ENDPOINT_SLICE = Resource(
    group="discovery.k8s.io",
    version="v1",
    kind="EndpointSlice",
    plural="endpointslices",
    columns=(
        Column("AddressType", _address_type, description="IPv4, IPv6 or FQDN."),
        Column("Ports", _slice_ports, description="The ports of every endpoint."),
        Column("Endpoints", _slice_addresses, description="The addresses."),
        AGE,
    ),
    default=_default_slice,
    validate=_validate_slice,
    validate_update=_validate_slice_update,
)
