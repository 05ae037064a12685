"""POST serviceaccounts/{name}/token: a token of a service account, bound to what it is for.

Source: kubernetes pkg/registry/core/serviceaccount/storage/token.go; "Bound Service Account
Tokens" (KEP-1205); the NodeRestriction admission plugin.
"""

from shepherd.api import errors
from shepherd.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT
from shepherd.api.meta import format_time
from shepherd.api.resource import Object
from shepherd.lib.http import Response
from shepherd.server.auth import NODE_USER_PREFIX, NODES_GROUP
from shepherd.server.codec import decode
from shepherd.server.handlers import Call, Handlers, json_answer
from shepherd.server.metadata import check_target
from shepherd.server.registry import conflict
from shepherd.server.routes import Route
from shepherd.server.tokens import AUDIENCES, Binding, Named

_GROUP = "authentication.k8s.io"
_DEFAULT_SECONDS = 3600
_SHORTEST_SECONDS = 600
_LONGEST_SECONDS = 1 << 32
_BOUND_TO = {"Pod": POD, "Secret": SECRET, "Node": NODE}


async def create_token(handlers: Handlers, call: Call) -> Response:
    """Answer a TokenRequest. Raises ApiError 404, 409, 422, and 403 for nodes beyond their pods."""
    request = call.body(_GROUP, "v1", "TokenRequest").object
    check_target(call.route, request)
    spec = request.get("spec") or {}
    seconds = spec.get("expirationSeconds") or _DEFAULT_SECONDS
    _check_seconds(call, seconds)
    account = decode((await handlers.registry.item(call.route)).value)
    bound, reference = await _bound(handlers, call, spec.get("boundObjectRef"))
    _restrict_nodes(call, bound)
    if reference == POD.kind and bound["spec"].get("serviceAccountName") != call.route.name:
        detail = f'cannot bind token for serviceaccount "{call.route.name}" to pod running with '
        raise errors.bad_request(f"{detail}different serviceaccount name.")
    named = {reference.lower(): _named(bound)} if bound else {}
    node = (bound.get("spec") or {}).get("nodeName") if bound and reference == "Pod" else ""
    if node and (there := await handlers.store.get(f"{NODE.storage}//{node}")):
        named["node"] = _named(decode(there.value))
    binding = Binding(call.route.namespace, _named(account), **named)
    audiences = spec.get("audiences") or list(AUDIENCES)
    token, expires = handlers.access.tokens.issue(binding, seconds=seconds, audiences=audiences)
    answered = {
        "kind": "TokenRequest",
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {
            "name": call.route.name,
            "namespace": call.route.namespace,
            "creationTimestamp": format_time(handlers.now()),
        },
        "spec": spec | {"audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": format_time(expires)},
    }
    return json_answer(answered, 201)


def _check_seconds(call: Call, seconds: int) -> None:
    problem = ""
    if seconds < _SHORTEST_SECONDS:
        problem = "may not specify a duration less than 10 minutes"
    elif seconds > _LONGEST_SECONDS:
        problem = "may not specify a duration larger than 2^32 seconds"
    if problem:
        error = errors.invalid_value("spec.expirationSeconds", seconds, problem)
        raise errors.invalid(_GROUP, "TokenRequest", call.route.name, [error])


async def _bound(handlers: Handlers, call: Call, reference: Object | None) -> tuple[Object, str]:
    """What the token is to die with, and its kind; it must be there, and be the one that is meant.

    Raises ApiError.
    """
    if not reference:
        return {}, ""
    kind, name = reference.get("kind") or "", reference.get("name") or ""
    resource = _BOUND_TO.get(kind)
    if resource is None or reference.get("apiVersion") not in (None, "", "v1"):
        version = reference.get("apiVersion") or ""
        detail = f"cannot bind token for serviceaccount to object with kind {kind!r} of {version}"
        raise errors.bad_request(f"{detail}; supported: v1 Pod, Node and Secret")
    namespace = call.route.namespace if resource.namespaced else ""
    route = Route("get", resource, "", "v1", namespace, name)
    found = decode((await handlers.registry.item(route)).value)
    uid = reference.get("uid") or ""
    if uid and uid != found["metadata"]["uid"]:
        detail = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            f"The object might have been deleted and then recreated"
        )
        raise conflict(route, detail)
    return found, kind


def _restrict_nodes(call: Call, bound: Object) -> None:
    """A node gets tokens only for the pods that run on it."""
    if NODES_GROUP not in call.user.groups:
        return
    account = (bound.get("spec") or {}).get("serviceAccountName")
    node = NODE_USER_PREFIX + str((bound.get("spec") or {}).get("nodeName"))
    if node != call.user.name or account != call.route.name:
        detail = "a node may only ask for tokens bound to pods that run on it as this account"
        raise errors.forbidden("", SERVICE_ACCOUNT.plural, call.route.name, detail)


def _named(obj: Object) -> Named:
    return Named(obj["metadata"]["name"], obj["metadata"]["uid"])
