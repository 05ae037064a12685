"""Whether this node takes a pod that was bound to it. Pure.

The scheduler decided on what it knew; the node has the last word (and pods with a nodeName never
saw a scheduler). Source: kubernetes pkg/kubelet/lifecycle predicate admission.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from shepherd.agent.container_config import qos_class
from shepherd.agent.pod_state import BoundPod, Verdict
from shepherd.api.objects import Container, Taint
from shepherd.api.placement import tolerates
from shepherd.api.quantity import millis

Amounts = Mapping[str, str | int | float]


_MEMORY = "MemoryPressure"
_MEMORY_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
_CRITICAL_PRIORITY = 2_000_000_000
"""From here on a pod is the system's own (scheduling.SystemCriticalPriority)."""


def admit(
    pod: BoundPod,
    others: Iterable[BoundPod],
    allocatable: Amounts,
    labels: Mapping[str, str],
    pressures: Collection[str] = (),
) -> Verdict | None:
    """Why the pod cannot run beside `others` (all that are active here); None: it can.

    `pressures` are the conditions that say what the node runs out of.
    """
    others = list(others)
    verdict = _pressure(pod, pressures) or _selector(pod, labels) or _sysctls(pod)
    return verdict or _resources(pod, others, allocatable) or _ports(pod, others)


def _pressure(pod: BoundPod, pressures: Collection[str]) -> Verdict | None:
    """Source: kubernetes pkg/kubelet/eviction, managerImpl.Admit."""
    if not pressures or pod.spec.priority >= _CRITICAL_PRIORITY:
        return None
    if set(pressures) == {_MEMORY} and (
        qos_class(pod) != "BestEffort"
        or any(tolerates(item, _MEMORY_TAINT) for item in pod.spec.tolerations)
    ):
        return None
    return _rejected("Evicted", f"The node had condition: [{' '.join(sorted(pressures))}]. ")


def _rejected(reason: str, text: str) -> Verdict:
    return Verdict(reason, f"Pod was rejected: {text}")


def _selector(pod: BoundPod, labels: Mapping[str, str]) -> Verdict | None:
    if all(labels.get(key) == value for key, value in pod.spec.node_selector.items()):
        return None
    return _rejected("NodeAffinity", "Predicate NodeAffinity failed")


_SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced": "ipc",
    **dict.fromkeys(
        (
            "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
            "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range",
            "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem",
            "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
        ),
        "net",
    ),
}  # fmt: skip
"""Kernel settings that a pod may change, and the namespace that keeps each to the pod (kubernetes
pkg/kubelet/sysctl/safe_sysctls.go). All others may be the whole machine's."""


def _sysctls(pod: BoundPod) -> Verdict | None:
    shared = {"ipc": pod.spec.host_ipc, "net": pod.spec.host_network}
    for sysctl in pod.spec.security_context.sysctls:
        name = sysctl.name.replace("/", ".")
        namespace = _SAFE_SYSCTLS.get(name)
        if namespace is None:
            return _rejected("SysctlForbidden", f'forbidden sysctl: "{name}" not allowlisted')
        if shared[namespace]:
            text = f'forbidden sysctl: "{name}" not allowed with host {namespace} enabled'
            return _rejected("SysctlForbidden", text)
    return None


def _resources(pod: BoundPod, others: list[BoundPod], allocatable: Amounts) -> Verdict | None:
    if "pods" in allocatable and len(others) + 1 > int(allocatable["pods"]):
        full = Shortage("pods", 1, len(others), int(allocatable["pods"]))
        return _rejected("OutOfpods", str(full))
    wanted = requests(pod)
    short = shortage(wanted, wanted, others, allocatable)
    return _rejected(f"OutOf{short.name}", str(short)) if short else None


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which the node has not enough."""

    name: str
    requested: int
    used: int
    capacity: int

    def __str__(self) -> str:
        return (
            f"Node didn't have enough resource: {self.name}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )


def shortage(
    names: Iterable[str],
    wanted: Mapping[str, int],
    others: Iterable[BoundPod],
    allocatable: Amounts,
) -> Shortage | None:
    """The first of the resources `names` of which `wanted` is not left beside `others`."""
    held = [requests(other) for other in others]
    for name in sorted(names):
        capacity = _amount(name, allocatable.get(name, 0))
        used = sum(one.get(name, 0) for one in held)
        if wanted[name] and wanted[name] + used > capacity:
            return Shortage(name, wanted[name], used, capacity)
    return None


def requests(pod: BoundPod) -> dict[str, int]:
    """What the pod asks for: cpu in thousandths of a core, the rest in whole units.

    The larger of its main containers with all sidecars, and of any init container with the
    sidecars before it (kubernetes pkg/api/v1/resource PodRequests).
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        own = _requests(container)
        if container.restart_policy == "Always":
            running = _sum(running, own)
            peak = _max(peak, running)
        else:
            peak = _max(peak, _sum(running, own))
    for container in pod.spec.containers:
        running = _sum(running, _requests(container))
    overhead = {name: _amount(name, value) for name, value in pod.spec.overhead.items()}
    return _sum(_max(peak, running), overhead)


def _requests(container: Container) -> dict[str, int]:
    """A limit without a request is its request."""
    stated = {**container.resources.limits, **container.resources.requests}
    return {name: _amount(name, value) for name, value in stated.items()}


def _amount(name: str, value: str | int | float) -> int:
    amount = millis(value)
    return amount if name == "cpu" else -(-amount // 1000)


def _sum(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in {*a, *b}}


def _max(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: max(a.get(name, 0), b.get(name, 0)) for name in {*a, *b}}


def _ports(pod: BoundPod, others: list[BoundPod]) -> Verdict | None:
    wanted = host_ports(pod)
    for other in others:
        for protocol, address, port in host_ports(other):
            for mine in wanted:
                if (protocol, port) == (mine[0], mine[2]) and (
                    address == mine[1] or "0.0.0.0" in (address, mine[1])
                ):
                    return _rejected(
                        "NodePorts",
                        f"host port {port}/{protocol} is held by pod "
                        f"{other.metadata.namespace}/{other.metadata.name}",
                    )
    return None


def host_ports(pod: BoundPod) -> set[tuple[str, str, int]]:
    """(protocol, address, port) of the node that the pod takes."""
    return {
        (port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for port in container.ports
        if port.host_port
    }
