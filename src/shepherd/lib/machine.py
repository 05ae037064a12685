"""What a process can learn of the machine it runs on, and what it can ask of it."""

import socket


def outward_address() -> str:
    """The address from which this machine reaches other networks; 127.0.0.1 if it reaches none.

    Asks the routing table only: a datagram socket that is connected sends nothing.
    """
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((far, 9))
            except OSError:
                continue
            address: str = probe.getsockname()[0]
            return address
    return "127.0.0.1"


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
