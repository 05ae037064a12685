"""Node."""

from shepherd.api.resource import Resource

NODE = Resource(
    group="",
    version="v1",
    kind="Node",
    plural="nodes",
    namespaced=False,
    short_names=("no",),
    status=True,
)
