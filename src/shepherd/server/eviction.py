"""POST pods/{name}/eviction: a delete that asks the pod's disruption budget first.

Source: kubernetes pkg/registry/core/pod/storage/eviction.go; "API-initiated Eviction" in the
Kubernetes documentation.
"""

from shepherd.api import errors
from shepherd.api.conditions import condition_is_true
from shepherd.api.kinds.disruption import POD_DISRUPTION_BUDGET
from shepherd.api.meta import format_time, key_prefix
from shepherd.api.resource import Object
from shepherd.api.selectors import selector_of
from shepherd.lib.http import Response
from shepherd.server import registry
from shepherd.server.codec import decode
from shepherd.server.deletion import DeleteOptions
from shepherd.server.handlers import Call, Handlers, json_answer
from shepherd.server.metadata import check_target
from shepherd.server.routes import Route
from shepherd.store.base import Span

_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_SECONDS = 10
"""After which a budget that has just changed should have been judged."""
_MAX_DISRUPTED = 2000
"""Evicted pods that a budget's controller has yet to see go."""
_FREE_PHASES = ("Pending", "Succeeded", "Failed")
"""Pods in these serve nobody, so their end disrupts nothing."""


async def evict(handlers: Handlers, call: Call) -> Response:
    """Delete the pod if its budget lets it go. Raises ApiError 429 if not yet."""
    eviction = call.body("policy", "v1", "Eviction").object
    check_target(call.route, eviction)
    options = DeleteOptions.read(eviction.get("deleteOptions") or {}, call.query)
    pod = decode((await handlers.registry.item(call.route)).value)
    if not _free(pod):
        budgets = await _budgets(handlers, pod)
        if len(budgets) > 1:
            raise errors.internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support."
            )
        if budgets and not _unhealthy_may_go(pod, budgets[0]):
            await _take(handlers, call, budgets[0], dry_run=options.dry_run)
    if not options.dry_run:
        await _tell(handlers, call)
    await handlers.registry.delete(call.route, options, call.user)
    answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return json_answer(answer | {"code": 201}, 201)


def _free(pod: Object) -> bool:
    """Whether no budget has a say."""
    status = pod.get("status") or {}
    return status.get("phase") in _FREE_PHASES or bool(pod["metadata"].get("deletionTimestamp"))


async def _budgets(handlers: Handlers, pod: Object) -> list[Object]:
    """The budgets that count the pod."""
    metadata = pod["metadata"]
    page = await handlers.store.list(
        Span.prefix(key_prefix(POD_DISRUPTION_BUDGET, metadata["namespace"]))
    )
    found = [decode(item.value) for item in page.items]
    labels = metadata.get("labels") or {}
    return [b for b in found if selector_of((b.get("spec") or {}).get("selector")).matches(labels)]


def _unhealthy_may_go(pod: Object, budget: Object) -> bool:
    """A pod that is not ready serves nobody either; the budget says when that lets it go."""
    if condition_is_true(pod, "Ready"):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    return healthy >= desired > 0


async def _take(handlers: Handlers, call: Call, budget: Object, *, dry_run: bool) -> None:
    """Use up one of the disruptions that the budget allows. Raises ApiError 429."""
    name, now = budget["metadata"]["name"], format_time(handlers.now())
    kind = POD_DISRUPTION_BUDGET
    route = Route("update", kind, kind.group, kind.version, call.route.namespace, name, "status")

    def make(present: Object) -> Object:
        status = present.get("status") or {}
        _check(name, present, status)
        disrupted = (status.get("disruptedPods") or {}) | {call.route.name: now}
        left = status["disruptionsAllowed"] - 1
        return present | {
            "status": status | {"disruptionsAllowed": left, "disruptedPods": disrupted}
        }

    await handlers.registry.update(route, make, call.user, merge=registry.status, dry_run=dry_run)


def _check(name: str, budget: Object, status: Object) -> None:
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        cause = f"The disruption budget {name} is still being processed by the server."
        raise _refusal(cause, _RETRY_SECONDS)
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED:
        detail = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise errors.forbidden("policy", "poddisruptionbudgets", name, detail)
    if (status.get("disruptionsAllowed") or 0) <= 0:
        desired, healthy = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
        raise _refusal(
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )


def _refusal(cause: str, retry_after_seconds: int = 0) -> errors.ApiError:
    """429 that names the budget, in the message too: that is what kubectl shows.

    Without a time to retry after, client-go leaves it to its caller when to try again.
    """
    error = errors.too_many_requests(f"{_REFUSED} {cause}", retry_after_seconds)
    error.details["causes"] = [{"reason": "DisruptionBudget", "message": cause}]
    return error


async def _tell(handlers: Handlers, call: Call) -> None:
    """Write into the pod's status why it ends."""
    now = format_time(handlers.now())
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": now,
    }

    def make(pod: Object) -> Object:
        status = pod.get("status") or {}
        conditions = [c for c in status.get("conditions") or () if c["type"] != target["type"]]
        return pod | {"status": status | {"conditions": [*conditions, target]}}

    await handlers.registry.update(call.route, make, call.user, merge=registry.status)
