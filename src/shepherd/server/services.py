"""Addresses and node ports of Services: given out at create, kept over updates, freed at delete.

The books are in memory, made from the store at start; a reservation is taken before the commit and
returned if that fails. Source: kubernetes pkg/registry/core/service (storage, ipallocator,
portallocator); KEP-3070 (the band that dynamic allocation leaves to explicit choices).
"""

import ipaddress
from collections.abc import Iterable
from random import Random

from shepherd.api import errors
from shepherd.api.kinds import SERVICE
from shepherd.api.kinds.servicerules import HEADLESS, WITH_CLUSTER_IP, WITH_NODE_PORTS
from shepherd.api.meta import key_prefix
from shepherd.api.resource import Object
from shepherd.server.codec import decode
from shepherd.store.base import Span, Store

_ADDRESS = "address"

Claim = tuple[str, int]
"""What can be held: (_ADDRESS, an IP address as a number) or (protocol, a node port)."""


def claims_of(service: Object) -> set[Claim]:
    """What a stored service holds."""
    spec = service.get("spec") or {}
    claims: set[Claim] = set()
    address = spec.get("clusterIP")
    if address and address != HEADLESS and spec.get("type") in WITH_CLUSTER_IP:
        claims.add((_ADDRESS, int(ipaddress.ip_address(address))))
    if spec.get("type") in WITH_NODE_PORTS:
        for port in spec.get("ports") or ():
            if port.get("nodePort"):
                claims.add((port.get("protocol") or "TCP", port["nodePort"]))
    return claims


class ServiceAllocator:
    """What all services hold. Numbers are taken by `reserve` and settled by `end`."""

    def __init__(self, cidr: str, node_ports: tuple[int, int], random: Random) -> None:
        self._network = ipaddress.ip_network(cidr)
        self._node_ports = range(node_ports[0], node_ports[1] + 1)
        self._random = random
        self._held: set[Claim] = set()

    async def load(self, store: Store) -> None:
        """Enter what the stored services hold."""
        page = await store.list(Span.prefix(key_prefix(SERVICE)))
        for item in page.items:
            self._held |= claims_of(decode(item.value))

    def reserve(self, service: Object, old: Object | None) -> "Reservation":
        """Give the service what it needs and does not hold. Raises ApiError 422."""
        held = claims_of(old) if old else set()
        reservation = Reservation(self._held, held, held)
        try:
            self._give_address(service, reservation)
            self._give_node_ports(service, reservation)
        except errors.ApiError:
            reservation.end(stored=False)
            raise
        reservation.after = claims_of(service)
        return reservation

    def release(self, old: Object) -> "Reservation":
        """The service goes: once that is stored, others may have what it held."""
        return Reservation(self._held, claims_of(old), set())

    def _give_address(self, service: Object, reservation: "Reservation") -> None:
        spec = service["spec"]
        if spec.get("type") not in WITH_CLUSTER_IP:
            return
        chosen = spec.get("clusterIP") or ""
        if chosen == HEADLESS:
            spec["clusterIPs"] = [HEADLESS]
            return
        claim = (_ADDRESS, self._explicit(service, chosen) if chosen else self._free_address())
        if not reservation.take(claim):
            raise _no_address(service, chosen, "provided IP is already allocated")
        spec["clusterIP"] = str(ipaddress.ip_address(claim[1]))
        spec["clusterIPs"] = [spec["clusterIP"]]

    def _explicit(self, service: Object, text: str) -> int:
        address = ipaddress.ip_address(text)
        ends = (self._network.network_address, self._network.broadcast_address)
        if address not in self._network or address in ends:
            detail = (
                f"the provided IP ({text}) is not in the valid range. "
                f"The range of valid IPs is {self._network}"
            )
            raise _no_address(service, text, detail)
        return int(address)

    def _free_address(self) -> int:
        """A random free address, of the upper band while that has any."""
        size = self._network.num_addresses
        numbers = range(int(self._network.network_address), int(self._network.broadcast_address))
        band = min(max(16, size // 16), 256, size)
        number = self._pick((_ADDRESS,), numbers[band:]) or self._pick((_ADDRESS,), numbers[1:band])
        if not number:
            raise errors.internal("failed to allocate a serviceIP: range is full")
        return number

    def _give_node_ports(self, service: Object, reservation: "Reservation") -> None:
        spec = service["spec"]
        if spec.get("type") not in WITH_NODE_PORTS:
            return
        dynamic = spec.get("allocateLoadBalancerNodePorts") is not False
        ports = spec.get("ports") or []
        for index, port in enumerate(ports):
            number = port.get("nodePort")
            if not number and not dynamic:
                continue
            claim = (port["protocol"], number or self._free_node_port(ports))
            if claim not in reservation.before and claim[1] not in self._node_ports:
                first, last = self._node_ports[0], self._node_ports[-1]
                raise _no_port(
                    service,
                    index,
                    f"provided port is not in the valid range. The range of valid ports is "
                    f"{first}-{last}",
                )
            if not reservation.take(claim):
                raise _no_port(service, index, "provided port is already allocated")
            port["nodePort"] = claim[1]

    def _free_node_port(self, ports: list[Object]) -> int:
        number = self._pick({port["protocol"] for port in ports}, self._node_ports)
        if not number:
            raise errors.internal("failed to allocate a nodePort: range is full")
        return number

    def _pick(self, kinds: Iterable[str], numbers: range) -> int:
        """A number that is free for all `kinds`, from a random start on; 0 if there is none."""
        if not numbers:
            return 0
        start = self._random.randrange(len(numbers))
        for step in range(len(numbers)):
            number = numbers[(start + step) % len(numbers)]
            if not any((kind, number) in self._held for kind in kinds):
                return number
        return 0


class Reservation:
    """What one write takes and gives up, in doubt until `end`."""

    def __init__(self, held: set[Claim], before: set[Claim], after: set[Claim]) -> None:
        self._held = held
        self.before = before
        self.after = after
        self._taken: set[Claim] = set()

    def take(self, claim: Claim) -> bool:
        """Whether the claim is the service's now; False if another holds it."""
        if claim in self.before or claim in self._taken:
            return True
        if claim in self._held:
            return False
        self._held.add(claim)
        self._taken.add(claim)
        return True

    def end(self, stored: bool) -> None:
        """Give back what the write did not need after all, or what the service gave up."""
        self._held -= (self.before - self.after) if stored else self._taken


def _no_address(service: Object, address: str, detail: str) -> errors.ApiError:
    text = f"failed to allocate IP {address}: {detail}"
    return _invalid(service, errors.invalid_value("spec.clusterIPs", [address], text))


def _no_port(service: Object, index: int, detail: str) -> errors.ApiError:
    number = service["spec"]["ports"][index]["nodePort"]
    path = f"spec.ports[{index}].nodePort"
    return _invalid(service, errors.invalid_value(path, number, detail))


def _invalid(service: Object, error: errors.FieldError) -> errors.ApiError:
    return errors.invalid("", SERVICE.kind, service["metadata"]["name"], [error])
