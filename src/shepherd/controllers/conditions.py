"""Status conditions: lists of which each type occurs once.

Source: Kubernetes API conventions, "Typical status properties".
"""

from collections.abc import Iterable

from shepherd.api.meta import format_time
from shepherd.api.objects.meta import Condition
from shepherd.api.resource import Object


def find(conditions: Iterable[Condition], type: str) -> Condition | None:
    """The condition of a type."""
    return next((item for item in conditions if item.type == type), None)


def with_condition(
    conditions: list[Condition], type: str, status: bool | None, reason: str, message: str,
    now: float,
) -> list[Condition]:  # fmt: skip
    """The list with this condition in it; the same list if it says so already.

    `status` None is Unknown. The transition time moves only with the status.
    """
    text = "Unknown" if status is None else str(status)
    old = find(conditions, type)
    if old and (old.status, old.reason, old.message) == (text, reason, message):
        return conditions
    time = format_time(now)
    since = old.last_transition_time if old and old.status == text else time
    new = Condition(
        type=type,
        status=text,
        reason=reason,
        message=message,
        last_update_time=time,
        last_transition_time=since,
    )
    return [*(item for item in conditions if item.type != type), new]


def without(conditions: list[Condition], type: str) -> list[Condition]:
    """The list without the condition of a type."""
    return [item for item in conditions if item.type != type]


def as_json(condition: Condition) -> Object:
    """As most kinds write it (a Deployment adds lastUpdateTime)."""
    return {
        "type": condition.type,
        "status": condition.status,
        "lastTransitionTime": condition.last_transition_time,
        "reason": condition.reason,
        "message": condition.message,
    }
