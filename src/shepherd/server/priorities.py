"""The Priority admission plugin: a pod's priority is that of its class, looked up once.

Source: kubernetes plugin/pkg/admission/priority.
"""

from shepherd.api import errors
from shepherd.api.kinds import POD
from shepherd.api.kinds.priorities import PRIORITY_CLASS, SYSTEM_CLASSES
from shepherd.api.meta import key_prefix, object_key
from shepherd.api.resource import Object
from shepherd.server.codec import decode
from shepherd.server.metadata import asked_name
from shepherd.store.base import Span, Store

_PREEMPT = "PreemptLowerPriority"


async def resolve(store: Store, pod: Object) -> None:
    """Give a new pod the priority and preemption policy of its class, or of the default one.

    Raises ApiError 403 if there is no such class, or the pod says otherwise.
    """
    spec, name = pod["spec"], asked_name(pod["metadata"])
    wanted = spec.get("priorityClassName") or ""
    if wanted in SYSTEM_CLASSES:
        found: Object | None = {"value": SYSTEM_CLASSES[wanted][0]}
    elif wanted:
        item = await store.get(object_key(PRIORITY_CLASS, "", wanted))
        found = decode(item.value) if item else None
    else:
        found = await _default(store) or {}
        if found:
            spec["priorityClassName"] = found["metadata"]["name"]
    if found is None:
        detail = f"no PriorityClass with name {wanted} was found"
        raise errors.forbidden("", POD.plural, name, detail)
    value, policy = found.get("value") or 0, found.get("preemptionPolicy") or _PREEMPT
    if spec.get("priority") not in (None, value):
        detail = (
            "the integer value of priority must not be provided in pod spec; priority admission "
            f"controller computed {value} from the given PriorityClass name"
        )
        raise errors.forbidden("", POD.plural, name, detail)
    if spec.get("preemptionPolicy") not in (None, "", policy):
        detail = (
            "the string value of PreemptionPolicy must not be provided in pod spec; priority "
            f"admission controller computed {policy} from the given PriorityClass name"
        )
        raise errors.forbidden("", POD.plural, name, detail)
    spec["priority"], spec["preemptionPolicy"] = value, policy


async def one_default(store: Store, operation: str, priority_class: Object) -> None:
    """At most one class is the default. Raises ApiError 403."""
    if operation == "delete" or not priority_class.get("globalDefault"):
        return
    name, present = priority_class["metadata"].get("name"), await _default(store)
    if present and present["metadata"]["name"] != name:
        other = present["metadata"]["name"]
        detail = f"PriorityClass {other} is already marked as default. Only one default can exist"
        raise errors.forbidden(PRIORITY_CLASS.group, PRIORITY_CLASS.plural, name or "", detail)


async def _default(store: Store) -> Object | None:
    """The class of pods that name none."""
    page = await store.list(Span.prefix(key_prefix(PRIORITY_CLASS)))
    classes = (decode(item.value) for item in page.items)
    return next((found for found in classes if found.get("globalDefault")), None)
