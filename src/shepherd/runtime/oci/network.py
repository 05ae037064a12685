"""A pod's network: pinned namespaces, a veth to the node's bridge, an address.

Namespaces are held by bind mounts of their /proc files, without a pause process: a thread that
lives for a millisecond makes them (unshare(2) acts on a thread).
"""

import contextlib
import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from shepherd.runtime.base import SheepError
from shepherd.runtime.oci import kernel, rtnetlink
from shepherd.runtime.oci.rtnetlink import Netlink

NAMESPACES = {
    "net": kernel.CLONE_NEWNET,
    "ipc": kernel.CLONE_NEWIPC,
    "uts": kernel.CLONE_NEWUTS,
}
MTU = 1500


def instance_name(data_dir: Path) -> str:
    """The name of what an agent owns in the kernel (bridge, cgroup, nft table), by its data
    directory: two agents on one machine do not meet. At most 12 characters (a link's limit is 15).
    """
    return f"shep{hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """The node's pod network. `pod_cidr` is usually not known before the node is registered."""

    bridge: str
    cluster_cidr: str = "10.42.0.0/16"
    """All pods of all nodes: what leaves it is masqueraded."""
    service_cidr: str = "10.43.0.0/16"
    pod_cidr: str = ""


@dataclass(frozen=True, slots=True)
class Subnet:
    """The node's part of the cluster's range. The first address is the bridge's."""

    network: IPv4Network

    @property
    def gateway(self) -> IPv4Interface:
        return IPv4Interface((self.network.network_address + 1, self.network.prefixlen))

    def choose(self, used: Iterable[str], after: str = "") -> str:
        """A free address, the next one after `after` and round: addresses come back late, when
        nobody holds a connection to their former owner. Raises SheepError when none is left."""
        first = int(self.network.network_address) + 2
        count = self.network.num_addresses - 3
        taken = {int(IPv4Address(one)) for one in used}
        start = int(IPv4Address(after)) + 1 - first if after else 0
        for offset in range(count):
            candidate = first + (start + offset) % count
            if candidate not in taken:
                return str(IPv4Address(candidate))
        message = f"no free address in {self.network}: {len(taken)} sandboxes hold all of them"
        raise SheepError("FailedCreatePodSandBox", message)


def link_name(bridge: str, sandbox_id: str) -> str:
    """The node's end of a sandbox's veth; two agents on one machine may have pods of one UID."""
    return f"veth{hashlib.sha256(f'{bridge} {sandbox_id}'.encode()).hexdigest()[:10]}"


def prepare_bridge(config: NetworkConfig, subnet: Subnet) -> None:
    """Make the bridge with its address, and forward. What is there already stays."""
    write_setting("/proc/sys/net/ipv4/ip_forward", "1")
    # Without it the packets between two pods of one bridge pass no nft hook, and come back from a
    # service's backend with the wrong sender.
    write_setting("/proc/sys/net/bridge/bridge-nf-call-iptables", "1", optional=True)
    with Netlink() as netlink:
        netlink.run(rtnetlink.bridge(config.bridge), ignore=rtnetlink.EXISTS)
        index = socket.if_nametoindex(config.bridge)
        requests = [rtnetlink.address(index, subnet.gateway)]
        if config.service_cidr:
            # A node without default route needs some route before nft rewrites the destination.
            requests.append(rtnetlink.route(IPv4Network(config.service_cidr), index=index))
        netlink.run(*requests)
    # Lets 127.0.0.1:<node port> be rewritten to a pod.
    write_setting(f"/proc/sys/net/ipv4/conf/{config.bridge}/route_localnet", "1")


def remove_bridge(name: str) -> None:
    """Take the bridge away, with its address and routes. Absent is fine."""
    with Netlink() as netlink:
        netlink.run(rtnetlink.link_delete(name), ignore=rtnetlink.MISSING)


@dataclass(frozen=True, slots=True)
class Attachment:
    """Where a sandbox is plugged in."""

    bridge: str
    link: str
    address: IPv4Interface
    gateway: IPv4Address


def pin(
    folder: Path, kinds: Iterable[str], hostname: str, sysctls: Iterable[tuple[str, str]],
    attachment: Attachment | None,
) -> None:  # fmt: skip
    """Make namespaces of `kinds` and hold each at `folder/<kind>`; plug the network in.

    Raises OSError; what was pinned by then is for `unpin`.
    """

    def work() -> None:
        flags = 0
        for kind in kinds:
            (folder / kind).touch()
            flags |= NAMESPACES[kind]
        with Netlink() as host:
            master = socket.if_nametoindex(attachment.bridge) if attachment else 0
            kernel.unshare(flags)
            if "uts" in kinds:
                socket.sethostname(hostname)
            if attachment:
                _plug(host, master, attachment)
        for name, value in sysctls:
            write_setting(f"/proc/sys/{name.replace('.', '/')}", value)
        for kind in kinds:
            kernel.mount(f"/proc/thread-self/ns/{kind}", folder / kind, None, kernel.MS_BIND)

    in_thread(work)


def unpin(folder: Path) -> None:
    """Let the namespaces go; the kernel frees them, and the veth with them, in its own time."""
    for kind in NAMESPACES:
        kernel.unmount(folder / kind)


def is_pinned(path: Path) -> bool:
    """Whether a namespace is held here (its file is on nsfs, not on the disk)."""
    try:
        return os.stat(path).st_dev != os.stat(path.parent).st_dev
    except OSError:
        return False


def _plug(host: Netlink, master: int, attachment: Attachment) -> None:
    """In the new network namespace: make the veth, address and route."""
    # The hardware address follows from the address: a successor needs no new ARP entries.
    mac = bytes([0x0A, 0x58]) + attachment.address.ip.packed
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        host.run(*rtnetlink.veth(attachment.link, master=master, peer="eth0",
                                 namespace=namespace, mac=mac, mtu=MTU))  # fmt: skip
    finally:
        os.close(namespace)
    with Netlink() as pod:
        index = socket.if_nametoindex("eth0")
        pod.run(
            rtnetlink.link_up("lo"),
            rtnetlink.address(index, attachment.address),
            rtnetlink.link_up("eth0"),
            rtnetlink.route(IPv4Network("0.0.0.0/0"), index=index, gateway=attachment.gateway),
        )


def in_thread(work: Callable[[], None]) -> None:
    """Run in a thread that ends with it; its error is ours."""
    errors: list[OSError] = []

    def guarded() -> None:
        try:
            work()
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=guarded, name="sheep-namespaces")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def write_setting(path: str, value: str, *, optional: bool = False) -> None:
    """Set a kernel setting, if it is not set so already."""
    with contextlib.suppress(FileNotFoundError) if optional else contextlib.nullcontext():
        setting = Path(path)
        if setting.read_text().strip() != value:
            setting.write_text(value)


def with_pod_cidr(config: NetworkConfig, pod_cidr: str) -> tuple[NetworkConfig, Subnet]:
    """The configuration once the node's range is known. Raises SheepError when it is no range."""
    try:
        network = IPv4Network(pod_cidr)
    except ValueError as error:
        raise SheepError("NetworkNotReady", f"pod CIDR {pod_cidr!r}: {error}") from error
    return replace(config, pod_cidr=pod_cidr), Subnet(network)
