"""Service."""

from shepherd.api.resource import Resource

SERVICE = Resource(
    group="",
    version="v1",
    kind="Service",
    plural="services",
    short_names=("svc",),
    categories=("all",),
    status=True,
    name_rule="dns1035label",
)
