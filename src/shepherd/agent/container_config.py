"""From a pod's spec to what the runtime is asked for. Pure.

Source: kubernetes pkg/kubelet/kuberuntime (sandbox and container configs, security context),
pkg/kubelet/qos (OOM score), pkg/apis/core/v1/helper/qos.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from shepherd.agent.env import expand
from shepherd.agent.pod_state import BoundPod
from shepherd.api.objects import Container
from shepherd.api.objects.pod import SeccompProfile, SecurityContext
from shepherd.api.quantity import millis, whole
from shepherd.runtime.base import (
    ContainerConfig,
    HostPort,
    ImageInfo,
    Mount,
    Resources,
    SandboxConfig,
)

_HASH_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which container is to be made: one attempt in one sandbox."""

    kind: str
    number: int
    sandbox_id: str
    log_path: str
    pid_of: str = ""
    """Id of the container whose processes it sees."""


def spec_hash(container: Container) -> str:
    """Identifies what makes a running container outdated: its image, and nothing that a newer
    agent might understand besides (kubernetes/kubernetes issues 63814, 129385)."""
    text = f"{container.name}\n{container.image}".encode()
    return f"{_HASH_VERSION}:{hashlib.sha256(text).hexdigest()[:16]}"


def spec_changed(container: Container, hashed: str) -> bool:
    """Whether the user asks for something else now than `hashed` was made from.

    Another version of the hash says nothing, so it is not a reason to restart.
    """
    version, _, _ = hashed.partition(":")
    return version == _HASH_VERSION and hashed != spec_hash(container)


def kind_of(container: Container, *, init: bool) -> str:
    if not init:
        return "main"
    return "sidecar" if container.restart_policy == "Always" else "init"


def hostname(pod: BoundPod, node_name: str) -> str:
    if pod.spec.host_network:
        return node_name
    return (pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")


def sandbox_config(
    pod: BoundPod, attempt: int, *, node_name: str, log_directory: str
) -> SandboxConfig:
    """The sandbox for an attempt of the pod."""
    spec, meta = pod.spec, pod.metadata
    ports = () if spec.host_network else _host_ports(pod)
    return SandboxConfig(
        id=f"{meta.uid}-{attempt}",
        pod_uid=meta.uid,
        pod_name=meta.name,
        pod_namespace=meta.namespace,
        hostname=hostname(pod, node_name),
        attempt=attempt,
        host_network=spec.host_network,
        host_pid=spec.host_pid,
        host_ipc=spec.host_ipc,
        share_pid=spec.share_process_namespace,
        host_ports=ports,
        sysctls=tuple((s.name, s.value) for s in spec.security_context.sysctls),
        log_directory=log_directory,
        annotations=meta.annotations,
        **asdict(pod_resources(pod)),
    )


def resources_of(container: Container) -> Resources:
    """What the spec gives a container of cpu and memory."""
    limits, requests = container.resources.limits, container.resources.requests
    return Resources(
        cpu_millis=_amount(limits, "cpu") or None,
        memory_bytes=_amount(limits, "memory") or None,
        cpu_request_millis=_amount(requests, "cpu"),
        memory_request_bytes=_amount(requests, "memory"),
    )


def pod_resources(pod: BoundPod) -> Resources:
    """What the containers may use together: limited where each of them is."""
    each = [resources_of(container) for container in pod.spec.containers]
    cpu, memory = [one.cpu_millis for one in each], [one.memory_bytes for one in each]
    alone = not pod.spec.init_containers
    return Resources(
        cpu_millis=sum(filter(None, cpu)) if all(cpu) and alone else None,
        memory_bytes=sum(filter(None, memory)) if all(memory) and alone else None,
        cpu_request_millis=sum(one.cpu_request_millis for one in each),
        memory_request_bytes=sum(one.memory_request_bytes for one in each),
    )


def _host_ports(pod: BoundPod) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(port.host_port, port.container_port, port.protocol or "TCP", port.host_ip)
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for port in container.ports
        if port.host_port
    )


def _amount(resources: Mapping[str, str | int | float], name: str) -> int:
    """cpu in thousandths of a core, others in their unit; 0 = none."""
    value = resources.get(name, 0)
    return millis(value) if name == "cpu" else whole(value)


def container_config(
    pod: BoundPod,
    container: Container,
    attempt: Attempt,
    *,
    image: ImageInfo,
    env: Mapping[str, str],
    mounts: list[Mount],
    node_memory_bytes: int,
    max_pids: int | None = None,
) -> ContainerConfig:
    """One attempt of a container, everything resolved."""
    lifecycle = container.lifecycle
    config = ContainerConfig(
        id=f"{pod.metadata.uid}-{container.name}-{attempt.number}",
        sandbox_id=attempt.sandbox_id,
        name=container.name,
        attempt=attempt.number,
        image=image.id,
        image_ref=container.image,
        command=tuple(expand(word, env) for word in container.command),
        args=tuple(expand(word, env) for word in container.args),
        env=tuple(env.items()),
        working_dir=container.working_dir,
        mounts=tuple(mounts),
        log_path=attempt.log_path,
        pid_of=attempt.pid_of,
        kind=attempt.kind,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        pids=max_pids,
        oom_score_adj=oom_score_adj(pod, container, node_memory_bytes),
        spec_hash=spec_hash(container),
        stop_signal=(lifecycle.stop_signal if lifecycle else "") or image.stop_signal,
        **asdict(resources_of(container)),
    )
    return _secured(config, pod, container.security_context or SecurityContext())


def _secured(config: ContainerConfig, pod: BoundPod, own: SecurityContext) -> ContainerConfig:
    """With the container's security context over the pod's."""
    shared = pod.spec.security_context
    groups = list(shared.supplemental_groups)
    if shared.fs_group is not None:
        groups.append(shared.fs_group)
    non_root = own.run_as_non_root if own.run_as_non_root is not None else shared.run_as_non_root
    return replace(
        config,
        run_as_user=own.run_as_user if own.run_as_user is not None else shared.run_as_user,
        run_as_group=own.run_as_group if own.run_as_group is not None else shared.run_as_group,
        run_as_non_root=bool(non_root),
        supplemental_groups=tuple(groups),
        privileged=own.privileged,
        read_only_rootfs=own.read_only_root_filesystem,
        no_new_privileges=own.allow_privilege_escalation is False,
        capabilities_add=tuple(own.capabilities.add) if own.capabilities else (),
        capabilities_drop=tuple(own.capabilities.drop) if own.capabilities else (),
        seccomp=_seccomp(own.seccomp_profile or shared.seccomp_profile),
    )


def _seccomp(profile: SeccompProfile | None) -> str:
    if profile is None:
        return ""
    return profile.localhost_profile if profile.type == "Localhost" else profile.type


def qos_class(pod: BoundPod) -> str:
    """Guaranteed, Burstable or BestEffort."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    pairs = [
        (_amount(c.resources.requests, name), _amount(c.resources.limits, name))
        for c in containers
        for name in ("cpu", "memory")
    ]
    if not any(request or limit for request, limit in pairs):
        return "BestEffort"
    guaranteed = all(limit and request in (0, limit) for request, limit in pairs)
    return "Guaranteed" if guaranteed else "Burstable"


def oom_score_adj(pod: BoundPod, container: Container, node_memory_bytes: int) -> int:
    """How readily the kernel ends the container: the less of its request it may use, the later."""
    quality = qos_class(pod)
    if quality == "Guaranteed":
        return -997
    if quality == "BestEffort" or not node_memory_bytes:
        return 1000
    request = _amount(container.resources.requests, "memory")
    return min(999, max(3, 1000 - 1000 * request // node_memory_bytes))


def hosts_file(pod: BoundPod, name: str, address: str, domain: str) -> str:
    """/etc/hosts of a pod with a network of its own."""
    names = [name]
    if pod.spec.subdomain:
        names.insert(0, f"{name}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{domain}")
    lines = [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        "fe00::0\tip6-localnet",
        "fe00::0\tip6-mcastprefix",
        "fe00::1\tip6-allnodes",
        "fe00::2\tip6-allrouters",
        f"{address}\t{chr(9).join(names)}",
    ]
    if pod.spec.host_aliases:
        lines += ["", "# Entries added by HostAliases."]
        lines += [f"{alias.ip}\t{chr(9).join(alias.hostnames)}" for alias in pod.spec.host_aliases]
    return "\n".join(lines) + "\n"


def resolv_conf(pod: BoundPod, *, cluster_dns: str, domain: str, host: str) -> str:
    """/etc/resolv.conf of a pod; `host` is the node's own.

    Without a DNS service (`cluster_dns` empty) ClusterFirst is as Default: the node's.
    """
    spec = pod.spec
    servers, searches, options = _parse_resolv_conf(host)
    policy = spec.dns_policy
    if policy == "None":
        servers, searches, options = [], [], []
    elif cluster_dns and (
        policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.host_network)
    ):
        namespace = pod.metadata.namespace
        servers = [cluster_dns]
        searches = [f"{namespace}.svc.{domain}", f"svc.{domain}", domain, *searches]
        options = [*options, "ndots:5"]
    if config := spec.dns_config:
        servers = [*servers, *config.nameservers]
        searches = [*searches, *config.searches]
        changed = {option.name: option.value for option in config.options}
        options = [o for o in options if o.partition(":")[0] not in changed]
        options += [f"{name}:{value}" if value else name for name, value in changed.items()]
    lines = [f"nameserver {server}" for server in dict.fromkeys(servers)]
    if searches:
        lines.append(f"search {' '.join(dict.fromkeys(searches))}")
    if options:
        lines.append(f"options {' '.join(dict.fromkeys(options))}")
    return "\n".join(lines) + "\n"


def _parse_resolv_conf(text: str) -> tuple[list[str], list[str], list[str]]:
    servers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == "nameserver":
            servers += words[1:2]
        elif words[0] in ("search", "domain"):
            searches = words[1:]
        elif words[0] == "options":
            options += words[1:]
    return servers, searches, options
