"""The runtime and the dataplane of a node with real containers."""

from pathlib import Path

from shepherd.lib.clock import Clock
from shepherd.runtime.base import Dataplane, Runtime
from shepherd.runtime.oci import NetworkConfig, NftDataplane, OciRuntime, Registries, instance_name


def real_containers(
    data_dir: Path, *, pod_cidr: str, service_cidr: str, clock: Clock,
    mirrors: dict[str, tuple[str, ...]] | None = None,
) -> tuple[Runtime, Dataplane]:  # fmt: skip
    """For the agent of that data directory, whose path tells it from others on the machine.

    `mirrors` is a registry to the hosts that are asked before it.
    """
    instance = instance_name(data_dir)
    network = NetworkConfig(instance, cluster_cidr=pod_cidr, service_cidr=service_cidr)
    root = data_dir / "agent" / "sheep"
    registries = Registries(mirrors=mirrors or {})
    return (
        OciRuntime(root, network=network, clock=clock, instance=instance, registries=registries),
        NftDataplane(instance, service_cidr=service_cidr),
    )
