"""Event, of core/v1 and events.k8s.io/v1: the same stored objects."""

from shepherd.api.errors import FieldError, invalid_value, required
from shepherd.api.kinds.cells import since
from shepherd.api.kinds.checks import Errors
from shepherd.api.resource import Column, Object, Resource

_CLUSTER_NAMESPACES = ("", "default", "kube-system")
"""Where the events of objects without a namespace are kept."""
_MAX_LENGTHS = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}


def _default(event: Object) -> None:
    """What Go never omits."""
    event.setdefault("source", {})
    for field in ("reportingComponent", "reportingInstance"):
        event.setdefault(field, "")


def _validate(event: Object) -> list[FieldError]:
    return list(_validate_event(event))


def _validate_event(event: Object) -> Errors:
    """Source: kubernetes pkg/apis/core/validation/events.go."""
    namespace = (event.get("metadata") or {}).get("namespace") or ""
    involved = _involved(event).get("namespace") or ""
    if involved != namespace and (involved or namespace not in _CLUSTER_NAMESPACES):
        detail = "does not match event.namespace"
        yield invalid_value("involvedObject.namespace", involved, detail)
    if not event.get("eventTime"):
        return
    for field in ("reportingComponent", "reportingInstance", "action", "reason"):
        if not event.get(field):
            yield required(field)
    for field, limit in _MAX_LENGTHS.items():
        if len(event.get(field) or "") > limit:
            yield invalid_value(field, "", f"can have at most {limit} characters")


def _involved(event: Object) -> Object:
    return event.get("involvedObject") or {}


def _first_stamp(event: Object) -> str:
    return event.get("firstTimestamp") or event.get("eventTime") or ""


def _last_seen(event: Object, now: float) -> str:
    series = event.get("series") or {}
    stamp = series.get("lastObservedTime") or event.get("lastTimestamp") or _first_stamp(event)
    return since(stamp, now)


def _count(event: Object, now: float) -> int:
    return (event.get("series") or {}).get("count") or event.get("count") or 1


def _object(event: Object, now: float) -> str:
    involved = _involved(event)
    kind, name = str(involved.get("kind") or "").lower(), involved.get("name")
    return f"{kind}/{name}" if name else kind


def _component(event: Object) -> str:
    source = event.get("source") or {}
    return source.get("component") or event.get("reportingComponent") or ""


def _source(event: Object, now: float) -> str:
    host = (event.get("source") or {}).get("host") or event.get("reportingInstance")
    return f"{_component(event)}, {host}" if host else _component(event)


_INVOLVED_FIELDS = (
    "kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath",
)  # fmt: skip


def _fields(event: Object) -> dict[str, str]:
    involved = _involved(event)
    return {f"involvedObject.{name}": involved.get(name) or "" for name in _INVOLVED_FIELDS} | {
        "reason": event.get("reason") or "",
        "reportingComponent": event.get("reportingComponent") or "",
        "source": _component(event),
        "type": event.get("type") or "",
    }


EVENT = Resource(
    group="",
    version="v1",
    kind="Event",
    plural="events",
    short_names=("ev",),
    aliases=(("events.k8s.io", "v1"),),
    columns=(
        Column("Last Seen", _last_seen, description="When it happened last."),
        Column("Type", lambda event, now: event.get("type") or "",
               description="Normal or Warning."),
        Column("Reason", lambda event, now: event.get("reason") or "",
               description="Why, in one word for machines."),
        Column("Object", _object, description="What it happened to."),
        Column("Subobject", lambda event, now: _involved(event).get("fieldPath") or "",
               wide=True, description="The part of the object."),
        Column("Source", _source, wide=True, description="Who reports it."),
        Column("Message", lambda event, now: (event.get("message") or "").strip(),
               description="What happened, for people."),
        Column("First Seen", lambda event, now: since(_first_stamp(event), now),
               wide=True, description="When it happened first."),
        Column("Count", _count, wide=True, description="How often."),
        Column("Name", lambda event, now: (event.get("metadata") or {}).get("name") or "",
               wide=True, format="name", description="The event's own name."),
    ),
    default=_default,
    validate=_validate,
    fields=_fields,
)  # fmt: skip
