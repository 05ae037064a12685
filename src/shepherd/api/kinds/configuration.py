"""ConfigMap, Secret."""

from shepherd.api.resource import Resource

CONFIG_MAP = Resource(
    group="",
    version="v1",
    kind="ConfigMap",
    plural="configmaps",
    short_names=("cm",),
)

SECRET = Resource(
    group="",
    version="v1",
    kind="Secret",
    plural="secrets",
)
