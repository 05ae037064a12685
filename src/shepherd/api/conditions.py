"""Status conditions, of which an object has at most one of each type."""

from shepherd.api.resource import Object


def condition_is_true(obj: Object, type: str) -> bool:
    """Whether the object's condition of that type is True."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == type and c.get("status") == "True" for c in conditions)
