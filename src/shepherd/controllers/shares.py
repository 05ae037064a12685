"""Numbers of pods that a spec gives as such or as a percentage. Source: apimachinery intstr."""

import math


def share(value: int | str, total: int, *, up: bool) -> int:
    """A number, or a percentage of `total`, rounded up or down."""
    if isinstance(value, int):
        return value
    exact = int(value.rstrip("%")) * total / 100
    return math.ceil(exact) if up else math.floor(exact)
