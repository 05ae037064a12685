"""The runtime and the dataplane of a node with real containers."""

from pathlib import Path

from shepherd.lib.clock import Clock
from shepherd.runtime.base import Dataplane, Runtime
from shepherd.runtime.oci import NetworkConfig, NftDataplane, OciRuntime, instance_name


def real_containers(
    data_dir: Path, *, pod_cidr: str, service_cidr: str, clock: Clock
) -> tuple[Runtime, Dataplane]:
    """For the agent of that data directory, whose path tells it from others on the machine."""
    instance = instance_name(data_dir)
    network = NetworkConfig(instance, cluster_cidr=pod_cidr, service_cidr=service_cidr)
    root = data_dir / "agent" / "sheep"
    return (
        OciRuntime(root, network=network, clock=clock, instance=instance),
        NftDataplane(instance, service_cidr=service_cidr),
    )
