"""ConfigMap, Secret."""

from shepherd.api.kinds.cells import AGE
from shepherd.api.kinds.shape import fill
from shepherd.api.resource import Column, Object, Resource


def _default_secret(secret: Object) -> None:
    fill(secret, {"type": "Opaque"})


def _data_count(obj: Object, now: float) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def _secret_type(secret: Object, now: float) -> str:
    return str(secret.get("type") or "")


_DATA = Column("Data", _data_count, description="How many keys there are.")

CONFIG_MAP = Resource(
    group="",
    version="v1",
    kind="ConfigMap",
    plural="configmaps",
    short_names=("cm",),
    columns=(_DATA, AGE),
)

SECRET = Resource(
    group="",
    version="v1",
    kind="Secret",
    plural="secrets",
    columns=(Column("Type", _secret_type, description="What the data is for."), _DATA, AGE),
    default=_default_secret,
    fields=lambda secret: {"type": _secret_type(secret, 0)},
)
