"""What the references of a pod's spec resolve to."""

from shepherd.api.references import Reference


class UnresolvedError(Exception):
    """A pod refers to something that is not there; the message is for the pod's user."""


Values = dict[str, bytes]
Lookup = dict[Reference, Values | None]
"""What references resolve to now; None: there is no such object."""
