"""Lease."""

from shepherd.api.kinds.cells import AGE
from shepherd.api.resource import Column, Object, Resource


def _holder(lease: Object, now: float) -> str:
    return (lease.get("spec") or {}).get("holderIdentity") or ""


LEASE = Resource(
    group="coordination.k8s.io",
    version="v1",
    kind="Lease",
    plural="leases",
    columns=(Column("Holder", _holder, description="Who holds the lease."), AGE),
)
