"""Objects that are served in more than the form in which they are stored: the explicit table.

Source: kubernetes pkg/apis/events/v1/conversion.go.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from shepherd.api.resource import Object
from shepherd.server import autoscalers


@dataclass(frozen=True, slots=True)
class Conversion:
    """Between the form of one group and version and the stored one."""

    to_stored: Callable[[Object], Object]
    to_served: Callable[[Object], Object]
    stored_fields: Callable[[str], str] = lambda selector: selector
    """A field selector in the names of the stored form."""


# Name in events.k8s.io/v1 -> name in core/v1.
_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_SERVED = {stored: served for served, stored in _RENAMED.items()}
_SELECTABLE = re.compile(r"(^|,)(regarding|reportingController)(?=[.=!])")


def _stored_event(event: Object) -> Object:
    stored = {_RENAMED.get(key, key): value for key, value in event.items()}
    return stored | {"apiVersion": "v1"}


def _served_event(event: Object) -> Object:
    served = {_SERVED.get(key, key): value for key, value in event.items()}
    return served | {"apiVersion": "events.k8s.io/v1"}


def _stored_event_fields(selector: str) -> str:
    return _SELECTABLE.sub(lambda match: match[1] + _RENAMED[match[2]], selector)


CONVERSIONS = {
    "events.k8s.io/v1": Conversion(_stored_event, _served_event, _stored_event_fields),
    "autoscaling/v1": Conversion(autoscalers.to_stored, autoscalers.to_served),
}
"""By the apiVersion that is served."""
