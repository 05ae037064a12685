"""Filling in what an object leaves open. As in Go, null and the empty string count as absent.

Hooks work in place on an update that may share parts with the stored object: filling in is safe,
for what is stored was filled in before; whatever changes a part must give the object a new one.
"""

from collections.abc import Mapping

from shepherd.api.resource import Object

Defaults = Mapping[str, str | int | bool]


def child(obj: Object, key: str) -> Object:
    """The object at `key`, made if it is not there."""
    value = obj.get(key)
    if not isinstance(value, dict):
        value = obj[key] = {}
    return value


def fill(obj: Object, defaults: Defaults) -> None:
    """Set each of `defaults` that `obj` leaves open."""
    for key, value in defaults.items():
        if obj.get(key) in (None, ""):
            obj[key] = value
