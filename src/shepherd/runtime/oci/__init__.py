"""Sheep: real containers with crun or runc, conmon, overlayfs, veth and nftables.

Read `runtime` first (what the agent calls), then `sandboxes`, `containers`, `spec` (pure: from a
ContainerConfig to an OCI spec), `images` and `nftables`. `kernel`, `rtnetlink` and `workers` are
the ground they stand on. Why it is built so: docs/adr/0010-oci-runtime.md.
"""

from shepherd.runtime.oci.network import NetworkConfig, instance_name
from shepherd.runtime.oci.nftables import NftDataplane
from shepherd.runtime.oci.registries import Registries
from shepherd.runtime.oci.runtime import OciRuntime

__all__ = ["NetworkConfig", "NftDataplane", "OciRuntime", "Registries", "instance_name"]
