"""Endpoints, EndpointSlice."""

from shepherd.api.kinds.cells import AGE, NONE
from shepherd.api.kinds.shape import fill
from shepherd.api.resource import Column, Object, Resource

_SHOWN = 3
"""How many addresses or ports a cell names before it only counts."""


def _default(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            fill(port, {"protocol": "TCP"})


def _default_slice(endpoint_slice: Object) -> None:
    endpoint_slice.setdefault("endpoints", [])
    for port in endpoint_slice.get("ports") or ():
        fill(port, {"name": "", "protocol": "TCP"})


def _some(texts: list[str], none: str) -> str:
    rest = len(texts) - _SHOWN
    shown = ",".join(texts[:_SHOWN]) or none
    return f"{shown} + {rest} more..." if rest > 0 else shown


def host_port(address: str, port: int) -> str:
    """`10.42.0.7:80`, `[fd00::7]:80`."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _addresses(endpoints: Object, now: float) -> str:
    texts: list[str] = []
    for subset in endpoints.get("subsets") or ():
        ready = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = [port.get("port", 0) for port in subset.get("ports") or ()]
        texts += [host_port(ip, port) for port in ports for ip in ready] if ports else ready
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
)
