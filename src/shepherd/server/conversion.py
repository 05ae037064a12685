"""Events in the form of events.k8s.io/v1: other names for the fields of the stored core/v1 Event.

Source: kubernetes pkg/apis/events/v1/conversion.go.
"""

import re

from shepherd.api.resource import Object

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
SERVED_VERSION = "events.k8s.io/v1"


def to_stored(event: Object) -> Object:
    """An events.k8s.io/v1 Event as core/v1."""
    stored = {_RENAMED.get(key, key): value for key, value in event.items()}
    return stored | {"apiVersion": "v1"}


def to_served(event: Object) -> Object:
    """A core/v1 Event as events.k8s.io/v1."""
    served = {_SERVED.get(key, key): value for key, value in event.items()}
    return served | {"apiVersion": SERVED_VERSION}


def stored_fields(selector: str) -> str:
    """A field selector of events.k8s.io/v1 in the names of core/v1."""
    return _SELECTABLE.sub(lambda match: match[1] + _RENAMED[match[2]], selector)
