"""Which nodes a pod may be on: the rules that scheduler and controllers share.

Source: component-helpers `scheduling/corev1` (ToleratesTaint) and `nodeaffinity`.
"""

from collections.abc import Callable, Iterable, Sequence

from shepherd.api.objects.node import NodeSelector, Taint
from shepherd.api.objects.pod import Affinity, Toleration
from shepherd.api.selectors import Labels, labels_selector, node_selector

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
HARD = (NO_SCHEDULE, NO_EXECUTE)
"""Effects of taints that keep a pod off a node."""


def required_affinity(
    labels: dict[str, str], affinity: Affinity | None
) -> Callable[[Labels, str], bool] | None:
    """What a pod's nodeSelector (`labels`) and required node affinity demand of a node, as a
    function of its labels and name; None if they demand nothing."""
    required = _required(affinity)
    if not labels and required is None:
        return None
    labels_match = labels_selector(labels).matches
    terms_match = node_selector(required)
    return lambda found, name: labels_match(found) and terms_match(found, name)


def named_nodes(affinity: Affinity | None) -> set[str] | None:
    """The nodes that the required node affinity names, if each of its terms does; no other can be
    fit, so no other need be looked at. None if it could be any."""
    required, found = _required(affinity), set[str]()
    if required is None:
        return None
    for term in required.node_selector_terms:
        named = [
            set(field.values)
            for field in term.match_fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not named:
            return None
        found |= set.intersection(*named)
    return found


def _required(affinity: Affinity | None) -> NodeSelector | None:
    nodes = affinity.node_affinity if affinity else None
    return nodes.required_during_scheduling_ignored_during_execution if nodes else None


def untolerated(
    tolerations: Sequence[Toleration], taints: Iterable[Taint], effects: Sequence[str] = HARD
) -> Taint | None:
    """The first taint with one of `effects` that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(item, taint) for item in tolerations):
            return taint
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration covers the taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Lt" | "Gt":
            return _compares(toleration, taint)
    return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """`Gt`, `Lt`: the taint's value as a number, against the toleration's."""
    try:
        bound, value = int(toleration.value), int(taint.value)
    except ValueError:
        return False
    return value > bound if toleration.operator == "Gt" else value < bound
