"""The command line of `shepherd`, as a checked `Config`.

Every mistake ends in one line on standard error that names the value and what would be accepted.
"""

import argparse
import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from shepherd import __version__
from shepherd.api import names

MODES = ("server", "agent", "standalone")
RUNTIMES = ("oci", "hollow")
DEFAULT_PORT = 9876
LONGEST_NODE_NAME = 52
"""A certificate's common name, `system:node:<name>`, has at most 64 characters (RFC 5280)."""
ADDRESS_FORMS = "host:port, [::1]:port or :port"


class UsageError(Exception):
    """A flag's value is wrong; the message is what the user reads."""


class StartError(Exception):
    """It cannot start; the message says what is in the way and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, or is reached. An empty host means every interface."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Reachable from this machine only."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def everywhere(self) -> bool:
        """At every address of the machine."""
        return self.host in ("", "0.0.0.0", "::")

    @property
    def local(self) -> "Address":
        """How a program on this machine reaches a server that listens here."""
        if self.host in ("", "0.0.0.0"):
            return Address("127.0.0.1", self.port)
        return Address("::1", self.port) if self.host == "::" else self


@dataclass(frozen=True, slots=True)
class Config:
    """What one process is to be."""

    mode: str
    addr: Address
    data_dir: Path
    node_name: str
    node_ip: str
    api_addr: Address | None
    token: str
    token_auth_file: Path | None
    runtime: str
    pod_cidr: str
    service_cidr: str
    registry_mirrors: dict[str, tuple[str, ...]]
    """Registry to the hosts that are asked before it."""
    insecure: bool
    stop_pods: bool
    max_pids: int | None
    log_level: str


def parse_address(flag: str, text: str) -> Address:
    """`host:port`, `[v6]:port` or `:port`. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    problem = UsageError(f"{flag} {text!r} is not an address: use {ADDRESS_FORMS}")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise problem
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise problem from None
    elif any(char in host for char in ":[]/ @"):
        raise problem
    return Address(host, int(port))


def _network(flag: str, text: str, longest: int) -> str:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        message = f"{flag} {text!r} is not a network such as 10.42.0.0/16: {error}"
        raise UsageError(message) from None
    if network.version != 4 or network.prefixlen > longest:
        raise UsageError(f"{flag} {text!r} must be an IPv4 network of /{longest} or larger")
    return str(network)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="shepherd",
        description="An orchestrator with the Kubernetes API.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--mode", default="server", help="server (the default), agent, or standalone (both)")
    add("--addr", help=f"where the API listens: {ADDRESS_FORMS} (default :{DEFAULT_PORT})")
    add("--data-dir", default="/var/lib/shepherd", help="all state (default /var/lib/shepherd)")
    add("--node-name", default="", help="the node's name (default: the host name)")
    add("--node-ip", default="", help="the node's address (default: that of the default route)")
    add("--api-addr", help=f"agent: the server's address, {ADDRESS_FORMS}")
    add("--token", default="", help="agent: the join token, from <server data-dir>/join-token")
    add("--token-file", help="agent: a file that holds the join token")
    add("--token-auth-file", help="server: a CSV file of token,user,uid[,groups] for clients")
    add("--runtime", default="oci", help="oci (real containers, the default) or hollow (simulated)")
    add("--pod-cidr", default="10.42.0.0/16", help="range of pod addresses (%(default)s)")
    add("--service-cidr", default="10.43.0.0/16", help="range of service addresses (%(default)s)")
    add(
        "--registry-mirror", action="append", default=[], metavar="REGISTRY=HOST[:PORT]",
        help="agent: ask this host first for the images of a registry (may be repeated)",
    )  # fmt: skip
    add("--insecure", action="store_true", help="plain HTTP without authentication, on loopback")
    add("--stop-pods", action="store_true", help="stop the pods when the agent stops")
    add("--max-pids", help="agent: processes and threads a container may have (default: no limit)")
    add("--log-level", default="info", help="debug, info, warning or error")
    add("--version", action="version", version=f"shepherd {__version__}")
    return parser


def _data_dir(text: str) -> Path:
    if not text:
        raise UsageError("--data-dir '' is not a directory: give a path such as /var/lib/shepherd")
    return Path(text).absolute()


def _node_name(text: str) -> str:
    name = (text or socket.gethostname()).lower()
    if names.dns1123_subdomain(name) or len(name) > LONGEST_NODE_NAME:
        raise UsageError(
            f"--node-name {name!r} is not a node name: use at most {LONGEST_NODE_NAME} lower case"
            " letters, digits, '-' and '.', a letter or digit first and last"
        )
    return name


def _max_pids(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not int(text):
        raise UsageError(f"--max-pids {text!r} is not a number of processes: use 1 or more")
    return int(text)


def _ranges(pod_cidr: str, service_cidr: str) -> tuple[str, str]:
    pods = _network("--pod-cidr", pod_cidr, 24)
    services = _network("--service-cidr", service_cidr, 28)
    if ipaddress.ip_network(pods).overlaps(ipaddress.ip_network(services)):
        raise UsageError(f"--pod-cidr {pods!r} and --service-cidr {services!r} must not overlap")
    return pods, services


def _choice(flag: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise UsageError(f"{flag} {value!r} is unknown: use {', '.join(allowed)}")
    return value


def _listen_address(text: str | None, insecure: bool) -> Address:
    if text is None:
        return Address("127.0.0.1" if insecure else "", DEFAULT_PORT)
    address = parse_address("--addr", text)
    if insecure and not address.loopback:
        raise UsageError(
            f"--insecure serves without authentication, so --addr {text!r} must be a loopback"
            f" address such as 127.0.0.1:{DEFAULT_PORT}"
        )
    return address


def _token(token: str, token_file: str | None) -> str:
    if token_file is None:
        return token.strip()
    try:
        return Path(token_file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {token_file!r} cannot be read: {error}") from None


def _mirrors(values: list[str]) -> dict[str, tuple[str, ...]]:
    mirrors: dict[str, tuple[str, ...]] = {}
    for text in values:
        registry, _, host = text.partition("=")
        if not registry or not host or "/" in text:
            raise UsageError(
                f"--registry-mirror {text!r} must be REGISTRY=HOST[:PORT],"
                " such as docker.io=mirror.example.com:5000"
            )
        mirrors[registry] = (*mirrors.get(registry, ()), host)
    return mirrors


def _node_ip(text: str, insecure: bool) -> str:
    if text:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise UsageError(f"--node-ip {text!r} is not an IP address") from None
        if insecure and not address.is_loopback:
            raise UsageError(f"--insecure agents listen on loopback only: not --node-ip {text!r}")
    return text


def parse(arguments: list[str]) -> Config:
    """The command line as a Config. Raises UsageError."""
    args = _parser().parse_args(arguments)
    mode = _choice("--mode", args.mode, MODES)
    api_addr = None
    if args.api_addr is not None:
        api_addr = parse_address("--api-addr", args.api_addr).local
    elif mode == "agent":
        raise UsageError(f"--mode agent needs --api-addr, the server's address ({ADDRESS_FORMS})")
    pod_cidr, service_cidr = _ranges(args.pod_cidr, args.service_cidr)
    return Config(
        mode=mode,
        addr=_listen_address(args.addr, args.insecure),
        data_dir=_data_dir(args.data_dir),
        node_name=_node_name(args.node_name),
        node_ip=_node_ip(args.node_ip, args.insecure),
        api_addr=api_addr,
        token=_token(args.token, args.token_file),
        token_auth_file=Path(args.token_auth_file) if args.token_auth_file else None,
        runtime=_choice("--runtime", args.runtime, RUNTIMES),
        pod_cidr=pod_cidr,
        service_cidr=service_cidr,
        registry_mirrors=_mirrors(args.registry_mirror),
        insecure=args.insecure,
        stop_pods=args.stop_pods,
        max_pids=_max_pids(args.max_pids),
        log_level=_choice(
            "--log-level", args.log_level.lower(), ("debug", "info", "warning", "error")
        ),
    )
