"""Event, of core/v1 and events.k8s.io/v1: the same stored objects."""

from shepherd.api.resource import Resource

EVENT = Resource(
    group="",
    version="v1",
    kind="Event",
    plural="events",
    short_names=("ev",),
    aliases=(("events.k8s.io", "v1"),),
)
