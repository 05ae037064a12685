"""`base.Dataplane` by nftables: any number of services in one lookup.

A packet's (address, protocol, port) finds in a verdict map how many backends its service has, and
jumps to the chain that draws one of so many: there is one such chain per *number* of backends, not
per service. The number drawn completes the key into a map of all backends. So every backend gets
exactly its share, and a change touches only the elements of the services that changed.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from shepherd.runtime.base import ServiceRule
from shepherd.runtime.oci.network import write_setting
from shepherd.runtime.oci.nft import Nft, NftError

_READY_COUNTS = 32
"""Chains are made for so many counts of backends at a time."""
MASQUERADE_MARK = 0x4000
"""kube-proxy's: packets for node ports come back through this node."""

_log = logging.getLogger("shepherd.dataplane")

_TABLE = """
table ip {name}
delete table ip {name}
table ip {name} {{
  map services {{ type ipv4_addr . inet_proto . inet_service : verdict; }}
  map node_ports {{ type inet_proto . inet_service : verdict; }}
  map slots {{
    typeof ip daddr . meta l4proto . th dport . numgen random mod 16 : ip daddr . th dport;
  }}
  map node_slots {{
    typeof meta l4proto . th dport . numgen random mod 16 : ip daddr . th dport;
  }}
  set refused {{ type ipv4_addr . inet_proto . inet_service; }}
  set refused_ports {{ type inet_proto . inet_service; }}
  set hairpin {{ type ipv4_addr . ipv4_addr; }}
  chain prerouting {{
    type nat hook prerouting priority dstnat;
    meta l4proto {{ tcp, udp, sctp }} jump lookup
  }}
  chain output {{
    type nat hook output priority -100;
    meta l4proto {{ tcp, udp, sctp }} jump lookup
  }}
  chain lookup {{
    ip daddr . meta l4proto . th dport vmap @services
    fib daddr type local meta l4proto . th dport vmap @node_ports
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    ct status dnat ip saddr . ip daddr @hairpin masquerade
    meta mark & {mark:#x} == {mark:#x} masquerade
  }}
  chain arriving {{ type filter hook prerouting priority -90; jump refuse; }}
  chain leaving {{ type filter hook output priority -90; jump refuse; }}
  chain refuse {{
    ip daddr . meta l4proto . th dport @refused goto nobody
    fib daddr type local meta l4proto . th dport @refused_ports goto nobody
    {unknown}
  }}
  chain nobody {{
    meta l4proto tcp reject with tcp reset
    reject
  }}
}}
"""


@dataclass(slots=True)
class Elements:
    """What the maps and sets hold: name to key to value (empty in sets)."""

    content: dict[str, dict[str, str]] = field(default_factory=dict)

    def put(self, name: str, key: str, value: str = "") -> None:
        self.content.setdefault(name, {})[key] = value

    def script(self, verb: str, table: str) -> str:
        """Add or delete (`verb`) all of it."""
        lines = []
        for name, elements in self.content.items():
            listed = ", ".join(
                f"{key} : {value}" if value else key for key, value in elements.items()
            )
            lines.append(f"{verb} element ip {table} {name} {{ {listed} }}")
        return "\n".join(lines)


def elements(rules: Iterable[ServiceRule]) -> Elements:
    """The elements that serve these rules."""
    found = Elements()
    for rule in rules:
        protocol = rule.protocol.lower()
        keys = [f"{address} . {protocol} . {rule.port}" for address in rule.addresses]
        node_keys = [f"{protocol} . {rule.node_port}"] if rule.node_port else []
        kind = chain(rule)
        for key in keys:
            found.put(*(("services", key, f"goto {kind}") if rule.backends else ("refused", key)))
        for key in node_keys:
            if rule.backends:
                found.put("node_ports", key, f"goto node-{kind}")
            else:
                found.put("refused_ports", key)
        for number, backend in enumerate(rule.backends):
            value = f"{backend.address} . {backend.port}"
            for key in keys:
                found.put("slots", f"{key} . {number}", value)
            for key in node_keys:
                found.put("node_slots", f"{key} . {number}", value)
    return found


def hairpins(addresses: Iterable[str]) -> Elements:
    """Lets pods at these addresses reach themselves through a service."""
    found = Elements()
    for address in addresses:
        found.put("hairpin", f"{address} . {address}")
    return found


def chain(rule: ServiceRule) -> str:
    """The chain that draws a rule's backend: by chance, or by the client's address."""
    return f"{'sticky' if rule.affinity_seconds else 'pick'}-{len(rule.backends)}"


def ready_chains(rules: Iterable[ServiceRule]) -> set[str]:
    """The chains that a table has from its start: for these rules and for others like them.

    nftables 1.0.6 refuses a new rule that looks up `slots` once the map has been read back from the
    kernel ("conflicting protocols specified"), so a count without its chain needs a whole reload.
    """
    most = max((len(rule.backends) for rule in rules), default=0)
    most = -(-max(most, 1) // _READY_COUNTS) * _READY_COUNTS
    return {f"{kind}-{count}" for kind in ("pick", "sticky") for count in range(1, most + 1)}


def chains(table: str, names: Iterable[str]) -> str:
    """A script that makes drawing chains, for services and for node ports."""
    lines = []
    for name in names:
        kind, _, count = name.partition("-")
        draw = f"{'jhash ip saddr' if kind == 'sticky' else 'numgen random'} mod {count}"
        lines += [
            f"add chain ip {table} {name}",
            f"add rule ip {table} {name} "
            f"dnat ip to ip daddr . meta l4proto . th dport . {draw} map @slots",
            f"add chain ip {table} node-{name}",
            f"add rule ip {table} node-{name} meta mark set meta mark | {MASQUERADE_MARK:#x}",
            f"add rule ip {table} node-{name} "
            f"dnat ip to meta l4proto . th dport . {draw} map @node_slots",
        ]
    return "\n".join(lines)


def without_conflicts(rules: Iterable[ServiceRule]) -> list[ServiceRule]:
    """Where two rules claim the same address and port, or node port, the first has it."""
    claimed: set[tuple[str, str, int]] = set()
    kept = []
    for rule in rules:
        addresses = tuple(
            one for one in rule.addresses if (one, rule.protocol, rule.port) not in claimed
        )
        taken = ("", rule.protocol, rule.node_port) in claimed
        if taken or len(addresses) != len(rule.addresses):
            _log.warning("%s: another service has its address or node port", rule.name)
            rule = replace(rule, addresses=addresses, node_port=0 if taken else rule.node_port)
        claimed |= {(one, rule.protocol, rule.port) for one in addresses}
        if rule.node_port:
            claimed.add(("", rule.protocol, rule.node_port))
        kept.append(rule)
    return kept


class NftDataplane:
    """`instance` names the table; with a `service_cidr` all of it that no service has is refused at
    once, instead of timing out."""

    def __init__(self, instance: str, *, service_cidr: str = "") -> None:
        self._table = f"{instance}-services"
        self._service_cidr = service_cidr
        self._nft = Nft()
        self._lock = asyncio.Lock()
        self._rules: dict[str, ServiceRule] = {}
        self._chains: set[str] = set()
        self._addresses: set[str] = set()
        self._whole = True
        """The table must be made anew: at first, and when a change to it failed."""

    async def start(self) -> None:
        """Get ready. The rules of a former agent go on serving until the first `apply`."""
        await asyncio.to_thread(
            write_setting, "/proc/sys/net/bridge/bridge-nf-call-iptables", "1", optional=True
        )

    async def apply(self, rules: list[ServiceRule]) -> None:
        """Raises NftError when the kernel refuses; the former rules stay then."""
        async with self._lock:
            served = {rule.name: rule for rule in without_conflicts(rules)}
            await asyncio.to_thread(self._apply, served)

    async def close(self, *, remove: bool) -> None:
        async with self._lock:
            if remove:
                script = f"table ip {self._table}\ndelete table ip {self._table}\n"
                await asyncio.to_thread(self._nft.run, script)
            self._nft.close()

    def _apply(self, rules: dict[str, ServiceRule]) -> None:
        needed = {chain(rule) for rule in rules.values() if rule.backends}
        if not self._whole and needed <= self._chains:
            try:
                self._change(rules)
                return
            except NftError as error:
                _log.warning("the table is made anew, a change to it failed: %s", error)
        self._whole = True
        self._reload(rules)
        self._whole = False

    def _change(self, rules: dict[str, ServiceRule]) -> None:
        """Change what differs, in one transaction."""
        gone = [old for name, old in self._rules.items() if rules.get(name) != old]
        new = [rule for name, rule in rules.items() if self._rules.get(name) != rule]
        addresses = _backends(rules.values())
        script = [
            elements(gone).script("delete", self._table),
            hairpins(self._addresses - addresses).script("delete", self._table),
            elements(new).script("add", self._table),
            hairpins(addresses - self._addresses).script("add", self._table),
        ]
        self._commit(script, rules, self._chains, addresses)

    def _reload(self, rules: dict[str, ServiceRule]) -> None:
        """Make the whole table anew, in one transaction."""
        unknown = ""
        if self._service_cidr:
            unknown = f"ip daddr {self._service_cidr} ct status & dnat == 0 goto nobody"
        ready = ready_chains(rules.values())
        addresses = _backends(rules.values())
        script = [
            _TABLE.format(name=self._table, mark=MASQUERADE_MARK, unknown=unknown),
            chains(self._table, sorted(ready)),
            elements(rules.values()).script("add", self._table),
            hairpins(addresses).script("add", self._table),
        ]
        self._commit(script, rules, ready, addresses)

    def _commit(
        self,
        script: list[str],
        rules: dict[str, ServiceRule],
        known_chains: set[str],
        addresses: set[str],
    ) -> None:
        text = "\n".join(part for part in script if part)
        if text:
            self._nft.run(text + "\n")
        self._rules, self._chains, self._addresses = rules, known_chains, addresses


def _backends(rules: Iterable[ServiceRule]) -> set[str]:
    return {backend.address for rule in rules for backend in rule.backends}
