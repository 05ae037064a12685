"""What the cells of `kubectl get` say.

Source: kubernetes pkg/printers; apimachinery util/duration.
"""

from collections.abc import Mapping
from typing import Any

from shepherd.api.meta import parse_time
from shepherd.api.resource import Column, Object

NONE = "<none>"
UNKNOWN = "<unknown>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


def human_duration(seconds: float) -> str:
    """A duration as short as it stays useful: `90s`, `4m10s`, `3h5m`, `2d`, `3y40d`.

    Two seconds of negative time pass for clocks that differ; more is `<invalid>`.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    # Up to each limit: the unit, and whether the next smaller one is told too.
    if whole < 10 * _MINUTE:
        return _two_units(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two_units(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two_units(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two_units(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two_units(seconds: int, big: int, big_unit: str, small: int, small_unit: str) -> str:
    rest = seconds % big // small
    return f"{seconds // big}{big_unit}" + (f"{rest}{small_unit}" if rest else "")


def since(stamp: str | None, now: float) -> str:
    """How long ago an RFC 3339 time was; `<unknown>` without one."""
    if not stamp:
        return UNKNOWN
    try:
        return human_duration(now - parse_time(stamp))
    except ValueError:
        return UNKNOWN


def age(obj: Object, now: float) -> str:
    return since((obj.get("metadata") or {}).get("creationTimestamp"), now)


def value_at(obj: Object, path: str) -> Any:
    """What stands at a dotted path; None if nothing does."""
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def column(
    name: str, path: str, description: str, *, missing: Any = NONE, wide: bool = False
) -> Column:
    """A column that shows the text at a dotted path, or a list's texts with commas between."""

    def cell(obj: Object, now: float) -> Any:
        value = value_at(obj, path)
        if isinstance(value, list):
            value = ",".join(str(item) for item in value)
        elif isinstance(value, bool):
            value = str(value).lower()
        return missing if value in (None, "") else value

    return Column(name, cell, wide=wide, description=description)


def number(name: str, path: str, description: str) -> Column:
    """A column that shows the number at a dotted path, 0 if there is none."""

    def cell(obj: Object, now: float) -> int:
        return value_at(obj, path) or 0

    return Column(name, cell, type="integer", description=description)


def count(name: str, path: str, description: str) -> Column:
    """A column that shows how many items the list at a dotted path has."""

    def cell(obj: Object, now: float) -> int:
        return len(value_at(obj, path) or ())

    return Column(name, cell, type="integer", description=description)


NAME = Column(
    "Name",
    lambda obj, now: (obj.get("metadata") or {}).get("name") or "",
    format="name",
    description="The object's name.",
)
"""For kinds that show no age: a declared name is the sign that the columns are complete."""


def name_or_default(annotation: str) -> Column:
    """The name, marked if an annotation makes the object the one that counts when none is named."""

    def cell(obj: Object, now: float) -> str:
        metadata = obj.get("metadata") or {}
        default = (metadata.get("annotations") or {}).get(annotation) == "true"
        return f"{metadata.get('name')} (default)" if default else metadata.get("name") or ""

    return Column("Name", cell, format="name", description="The object's name.")


AGE = Column("Age", age, description="Time since the object was created.")
CREATED_AT = Column(
    "Created At",
    lambda obj, now: (obj.get("metadata") or {}).get("creationTimestamp") or UNKNOWN,
    description="When the object was created.",
)


def labels_text(labels: Mapping[str, Any] | None) -> str:
    """`app=web,tier=front`, sorted by key."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Object | None) -> str:
    """A LabelSelector in the form that `-l` takes."""
    if not selector:
        return NONE
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for item in selector.get("matchExpressions") or ():
        key, values = item.get("key", ""), ",".join(sorted(item.get("values") or ()))
        match item.get("operator"):
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case "DoesNotExist":
                parts.append(f"!{key}")
    return ",".join(sorted(parts)) or NONE


def _template_containers(obj: Object) -> list[Object]:
    template = (obj.get("spec") or {}).get("template") or {}
    return (template.get("spec") or {}).get("containers") or []


def _containers(obj: Object, now: float) -> str:
    return ",".join(container.get("name", "") for container in _template_containers(obj))


def _images(obj: Object, now: float) -> str:
    return ",".join(container.get("image", "") for container in _template_containers(obj))


def _selector(obj: Object, now: float) -> str:
    return selector_text((obj.get("spec") or {}).get("selector"))


TEMPLATE_COLUMNS = (
    Column("Containers", _containers, wide=True, description="Names of the template's containers."),
    Column("Images", _images, wide=True, description="Images of the template's containers."),
    Column("Selector", _selector, wide=True, description="Which pods belong to the object."),
)
"""The wide columns that every kind with a pod template ends with."""
