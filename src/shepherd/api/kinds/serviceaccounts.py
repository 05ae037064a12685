"""ServiceAccount."""

from shepherd.api.resource import Resource

SERVICE_ACCOUNT = Resource(
    group="",
    version="v1",
    kind="ServiceAccount",
    plural="serviceaccounts",
    short_names=("sa",),
)
