"""Pod."""

from shepherd.api.resource import Resource

POD = Resource(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    short_names=("po",),
    categories=("all",),
    status=True,
    graceful=True,
    generation=True,
)
