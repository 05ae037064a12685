"""Lease."""

from shepherd.api.errors import FieldError
from shepherd.api.kinds.cells import AGE
from shepherd.api.kinds.checks import at_least
from shepherd.api.resource import Column, Object, Resource


def _validate(lease: Object) -> list[FieldError]:
    spec = lease.get("spec") or {}
    return [
        *at_least("spec.leaseDurationSeconds", spec.get("leaseDurationSeconds"), 1),
        *at_least("spec.leaseTransitions", spec.get("leaseTransitions")),
    ]


def _holder(lease: Object, now: float) -> str:
    return (lease.get("spec") or {}).get("holderIdentity") or ""


LEASE = Resource(
    group="coordination.k8s.io",
    version="v1",
    kind="Lease",
    plural="leases",
    unconditional_update=False,
    columns=(Column("Holder", _holder, description="Who holds the lease."), AGE),
    validate=_validate,
)
