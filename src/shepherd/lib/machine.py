"""What a process can learn of the machine it runs on, and what it can ask of it."""

import ipaddress
import socket

# Addresses for documentation (RFC 5737, RFC 3849): no machine has them, so a route to one is the
# default route.
_ELSEWHERE = ("192.0.2.1", "2001:db8::1")


def own_address(peer: str = "") -> str:
    """The address by which other machines reach this one.

    It is the one from which this machine reaches `peer` (a name or address), unless that is here
    itself; else that of the default route; else 127.0.0.1: a machine without a way out has no
    other address that is sure to be its own for long.
    """
    for target in (peer, *_ELSEWHERE):
        address = _source_address(target)
        if address and not ipaddress.ip_address(address).is_loopback:
            return address
    return "127.0.0.1"


def _source_address(target: str) -> str:
    """Asks the routing table only: a datagram socket that is connected sends nothing."""
    if not target:
        return ""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def listen(host: str, port: int) -> socket.socket:
    """A listening TCP socket; an empty host means every interface, of both IP versions.

    Raises OSError (`gaierror` for a name without an address).
    """
    if host:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024
        )
    return socket.create_server(("", port), backlog=1024)
