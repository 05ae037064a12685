"""IP addresses and networks in CEL: maps with one key that says which they are.

Source: apiserver pkg/cel/library ip.go, cidr.go.
"""

import ipaddress
from typing import Any

_ADDRESS, _NETWORK = "@ip", "@cidr"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _plain(address: Address) -> bool:
    """Neither of a zone nor an IPv4 address in the dress of IPv6."""
    return address.version == 4 or (not address.ipv4_mapped and not address.scope_id)


def is_ip(text: str) -> bool:
    try:
        return _plain(ipaddress.ip_address(text))
    except ValueError:
        return False


def ip(text: str) -> Any:
    """Raises ValueError."""
    if not is_ip(text):
        raise ValueError(f"IP Address {text!r} parse error during conversion from string")
    return {_ADDRESS: str(ipaddress.ip_address(text))}


def is_canonical(text: str) -> bool:
    """Raises ValueError."""
    return address(ip(text)).compressed == text


def address(value: Any) -> Address:
    return ipaddress.ip_address(value[_ADDRESS])


def is_link_local_multicast(value: Any) -> bool:
    found = address(value)
    if found.version == 4:
        return found in ipaddress.IPv4Network("224.0.0.0/24")
    return found.packed[0] == 0xFF and found.packed[1] & 0x0F == 2


def is_link_local_unicast(value: Any) -> bool:
    found = address(value)
    return found.is_link_local and not found.is_multicast


def is_global_unicast(value: Any) -> bool:
    found = address(value)
    return not (
        found.is_unspecified
        or found.is_loopback
        or found.is_multicast
        or found.is_link_local
        or str(found) == "255.255.255.255"
    )


# -- networks ----------------------------------------------------------------------------------


def is_cidr(text: str) -> bool:
    host, slash, length = text.partition("/")
    try:
        return bool(slash) and length.isdecimal() and is_ip(host) and bool(_interface(text))
    except ValueError:
        return False


def cidr(text: str) -> Any:
    """Raises ValueError."""
    if not is_cidr(text):
        raise ValueError(f"network address parse error during conversion from string: {text!r}")
    return {_NETWORK: str(_interface(text))}


def _interface(value: Any) -> Interface:
    return ipaddress.ip_interface(value[_NETWORK] if isinstance(value, dict) else value)


def base(network: Any) -> Any:
    return {_ADDRESS: str(_interface(network).ip)}


def masked(network: Any) -> Any:
    return {_NETWORK: str(_interface(network).network)}


def prefix_length(network: Any) -> int:
    return _interface(network).network.prefixlen


def contains_ip(network: Any, other: Any) -> bool:
    """Raises ValueError."""
    return address(ip(other) if isinstance(other, str) else other) in _interface(network).network


def contains_cidr(network: Any, other: Any) -> bool:
    """Raises ValueError."""
    inner = _interface(cidr(other) if isinstance(other, str) else other).network
    outer = _interface(network).network
    return inner.subnet_of(outer) if inner.version == outer.version else False  # type: ignore[arg-type]
