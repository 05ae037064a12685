"""ServiceAccount."""

from shepherd.api.kinds.cells import AGE
from shepherd.api.resource import Column, Object, Resource


def _secrets(account: Object, now: float) -> int:
    return len(account.get("secrets") or ())


SERVICE_ACCOUNT = Resource(
    group="",
    version="v1",
    kind="ServiceAccount",
    plural="serviceaccounts",
    shown_deleted=True,
    short_names=("sa",),
    columns=(Column("Secrets", _secrets, description="How many secrets it names."), AGE),
)
