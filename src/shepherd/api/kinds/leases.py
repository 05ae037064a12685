"""Lease."""

from shepherd.api.resource import Resource

LEASE = Resource(
    group="coordination.k8s.io",
    version="v1",
    kind="Lease",
    plural="leases",
)
