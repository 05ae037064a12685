"""Links, addresses and routes by rtnetlink(7), a batch of requests in one system call.

A whole pod's network is two batches and 0.8 ms; `ip` would be ten processes. Only what Sheep needs;
pyroute2 is the oracle in the tests.
"""

import errno
import os
import socket
import struct
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

# <linux/rtnetlink.h>, <linux/netlink.h>, <linux/if_link.h>
_NEWLINK, _DELLINK, _NEWADDR, _NEWROUTE = 16, 17, 20, 24
_REQUEST, _ACK, _REPLACE, _EXCL, _CREATE = 1, 4, 0x100, 0x200, 0x400
_NLMSG_ERROR = 2
_NESTED = 0x8000
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = (
    1, 3, 4, 10, 18, 28,
)  # fmt: skip
_INFO_KIND, _INFO_DATA, _INFO_SLAVE_KIND, _INFO_SLAVE_DATA = 1, 2, 4, 5
_VETH_INFO_PEER = 1
_BRPORT_HAIRPIN = 4
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST = 1, 2, 4
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_IFF_UP = 1
_TABLE_MAIN, _PROTO_STATIC, _SCOPE_GLOBAL, _SCOPE_LINK, _UNICAST = 254, 4, 0, 253, 1


def _attribute(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + bytes(-length % 4)


def _nest(kind: int, *attributes: bytes) -> bytes:
    return _attribute(kind | _NESTED, b"".join(attributes))


def _name(name: str) -> bytes:
    return _attribute(_IFLA_IFNAME, name.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _link(*, up: bool | None = None) -> bytes:
    flags, change = (0, 0) if up is None else (_IFF_UP if up else 0, _IFF_UP)
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, flags, change)


def _request(kind: int, flags: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack("=IHHII", 16 + len(body), kind, flags | _REQUEST | _ACK, 0, 0) + body


def bridge(name: str) -> bytes:
    """Make a bridge, up; EEXIST when it is there."""
    info = _nest(_IFLA_LINKINFO, _attribute(_INFO_KIND, b"bridge"))
    return _request(_NEWLINK, _CREATE | _EXCL, _link(up=True), _name(name), info)


def veth(name: str, *, master: int, peer: str, namespace: int, mac: bytes, mtu: int) -> list[bytes]:
    """Make a pair: `name` here, up, a port of the bridge `master`; `peer` in the namespace whose
    descriptor is given. The port may send back to where a frame came from (hairpin): a pod that
    reaches itself by its service's address needs it."""
    other = _attribute(
        _VETH_INFO_PEER,
        _link() + _name(peer) + _number(_IFLA_NET_NS_FD, namespace)
        + _attribute(_IFLA_ADDRESS, mac) + _number(_IFLA_MTU, mtu),
    )  # fmt: skip
    info = _nest(_IFLA_LINKINFO, _attribute(_INFO_KIND, b"veth"), _nest(_INFO_DATA, other))
    port = _nest(
        _IFLA_LINKINFO,
        _attribute(_INFO_SLAVE_KIND, b"bridge"),
        _nest(_INFO_SLAVE_DATA, _attribute(_BRPORT_HAIRPIN, b"\1")),
    )
    head = _link(up=True) + _name(name)
    return [
        _request(_NEWLINK, _CREATE | _EXCL, head, _number(_IFLA_MTU, mtu),
                 _number(_IFLA_MASTER, master), info),
        _request(_NEWLINK, 0, _link() + _name(name), port),
    ]  # fmt: skip


def link_up(name: str) -> bytes:
    return _request(_NEWLINK, 0, _link(up=True), _name(name))


def link_delete(name: str) -> bytes:
    """Delete a link; ENODEV when there is none. Slow for a veth (the kernel waits): let it go with
    its namespace instead."""
    return _request(_DELLINK, 0, _link(), _name(name))


def address(index: int, interface: IPv4Interface) -> bytes:
    """Give a link an address, or leave it as it is."""
    head = struct.pack("=BBBBI", socket.AF_INET, interface.network.prefixlen, 0, 0, index)
    packed = interface.ip.packed
    return _request(
        _NEWADDR, _CREATE | _REPLACE, head, _attribute(_IFA_LOCAL, packed),
        _attribute(_IFA_ADDRESS, packed),
        _attribute(_IFA_BROADCAST, interface.network.broadcast_address.packed),
    )  # fmt: skip


def route(network: IPv4Network, *, index: int, gateway: IPv4Address | None = None) -> bytes:
    """Send what is for `network` to a gateway, or straight out of a link; replaces a former one."""
    scope = _SCOPE_LINK if gateway is None else _SCOPE_GLOBAL
    head = struct.pack(
        "=BBBBBBBBI", socket.AF_INET, network.prefixlen, 0, 0, _TABLE_MAIN, _PROTO_STATIC, scope,
        _UNICAST, 0,
    )  # fmt: skip
    parts = [_number(_RTA_OIF, index)]
    if network.prefixlen:
        parts.append(_attribute(_RTA_DST, network.network_address.packed))
    if gateway is not None:
        parts.append(_attribute(_RTA_GATEWAY, gateway.packed))
    return _request(_NEWROUTE, _CREATE | _REPLACE, head, *parts)


class Netlink:
    """An rtnetlink socket of the namespace that the calling thread was in when it was made."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))

    def __enter__(self) -> "Netlink":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def run(self, *requests: bytes, ignore: tuple[int, ...] = ()) -> None:
        """Send all at once and wait for every answer. Raises the first error as OSError, except
        the numbers in `ignore`. Requests after a failed one are carried out all the same."""
        self._socket.send(b"".join(requests))
        failed = 0
        waiting = len(requests)
        while waiting:
            for number in _answers(self._socket.recv(1 << 16)):
                waiting -= 1
                if number and number not in ignore:
                    failed = failed or number
        if failed:
            raise OSError(failed, os.strerror(failed), "rtnetlink")


def _answers(data: bytes) -> list[int]:
    """The error numbers (0 is success) of the acknowledgements in one datagram."""
    numbers = []
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        if kind == _NLMSG_ERROR:
            numbers.append(-struct.unpack_from("=i", data, 16)[0])
        data = data[(length + 3) & ~3 :]
    return numbers


EXISTS = (errno.EEXIST,)
MISSING = (errno.ENODEV,)
