"""The node's own rules for its pods: masquerade what leaves the cluster, and serve host ports.

One table per instance, made anew from the sandboxes at start; then one transaction per sandbox with
host ports, none for the others.
"""

from collections.abc import Iterable

from shepherd.runtime.base import HostPort
from shepherd.runtime.oci.network import NetworkConfig

ANY = "0.0.0.0"


def table_name(instance: str) -> str:
    return f"{instance}-pods"


def base(instance: str, config: NetworkConfig) -> str:
    """A script that (re)makes the table, without any host port."""
    name = table_name(instance)
    lookups = (
        "dnat ip to ip daddr . meta l4proto . th dport map @local\n"
        "    fib daddr type local dnat ip to meta l4proto . th dport map @any"
    )
    return f"""
table ip {name}
delete table ip {name}
table ip {name} {{
  map any {{ type inet_proto . inet_service : ipv4_addr . inet_service; }}
  map local {{ type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }}
  set hairpin {{ type ipv4_addr . ipv4_addr; }}
  chain prerouting {{
    type nat hook prerouting priority dstnat;
    meta l4proto {{ tcp, udp, sctp }} jump ports
  }}
  chain output {{
    type nat hook output priority -100;
    meta l4proto {{ tcp, udp, sctp }} jump ports
  }}
  chain ports {{
    {lookups}
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    ip saddr . ip daddr @hairpin masquerade
    ip saddr 127.0.0.0/8 oifname "{config.bridge}" masquerade
    ip saddr {config.pod_cidr} ip daddr != {config.cluster_cidr} oifname != "{config.bridge}" \
masquerade
  }}
}}
"""


def removal(instance: str) -> str:
    """A script that takes the table away."""
    name = table_name(instance)
    return f"table ip {name}\ndelete table ip {name}\n"


def change(verb: str, instance: str, address: str, ports: Iterable[HostPort]) -> str:
    """A script that adds or deletes (`verb`) the host ports of the pod at `address`."""
    name = table_name(instance)
    lines = [f"{verb} element ip {name} hairpin {{ {address} . {address} }}"]
    for port in ports:
        key = f"{port.protocol.lower()} . {port.host_port}"
        table = "any"
        if port.host_ip not in ("", ANY):
            key, table = f"{port.host_ip} . {key}", "local"
        value = f"{address} . {port.container_port}"
        lines.append(f"{verb} element ip {name} {table} {{ {key} : {value} }}")
    return "\n".join(lines)
