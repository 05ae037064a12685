"""What the API server must know of its cluster."""

import ipaddress
import ssl
from dataclasses import dataclass
from typing import Protocol

from shepherd.api.resource import Object
from shepherd.server.version import VERSION


class FrontProxy(Protocol):
    """How the server proves itself to the API servers behind it."""

    def prove(self, context: ssl.SSLContext) -> None:
        """Show its certificate in connections of that context."""
        ...

    @property
    def authorities(self) -> dict[str, str]:
        """In PEM: `client-ca-file`, which signs users' certificates, and
        `requestheader-client-ca-file`, which signs the one shown."""
        ...


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Ranges and names of one cluster."""

    pod_cidr: str = "10.42.0.0/16"
    service_cidr: str = "10.43.0.0/16"
    cluster_domain: str = "cluster.local"
    node_ports: tuple[int, int] = (30000, 32767)
    """First and last."""
    advertise_address: str = ""
    """Where pods reach the API (IPv4, as they are): behind the `kubernetes` Service. Empty = no
    endpoint for it."""
    advertise_port: int = 0
    pod_tokens: bool = False
    """Pods get a token of their service account. It needs the API served with TLS, and controllers
    that make the accounts and publish its certificate."""

    @property
    def kubernetes_address(self) -> str:
        """The first address of the service range: that of the `kubernetes` Service."""
        return str(ipaddress.ip_network(self.service_cidr)[1])

    @property
    def cluster_dns(self) -> str:
        """The tenth address of the service range."""
        return str(ipaddress.ip_network(self.service_cidr)[10])

    def document(self) -> Object:
        """What agents ask for at /shepherd/v1/cluster."""
        return {
            "podCIDR": self.pod_cidr,
            "serviceCIDR": self.service_cidr,
            "clusterDNS": self.cluster_dns,
            "clusterDomain": self.cluster_domain,
            "version": VERSION["gitVersion"],
        }
