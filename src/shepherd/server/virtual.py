"""Kinds that are served without being stored: the explicit table of who answers for them.

Reviews are in `reviews`; a Binding is the old way to `pods/{name}/binding`; ComponentStatus tells
what is up, as a server that answers at all can tell it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from shepherd.api import errors
from shepherd.api.kinds import POD
from shepherd.api.kinds.cluster import COMPONENT_STATUS
from shepherd.api.kinds.reviews import BINDING
from shepherd.api.resource import Object
from shepherd.lib.http import Response
from shepherd.server.codec import encode
from shepherd.server.handlers import Call, Handlers, answer
from shepherd.server.reviews import REVIEWS
from shepherd.server.routes import Route
from shepherd.server.subresources import bind
from shepherd.store.base import Item

Serve = Callable[[Handlers, Call], Awaitable[Response]]

_COMPONENTS = ("controller-manager", "etcd-0", "scheduler")


def _component(name: str) -> Item:
    """The store has another name, but this is the one that clients look for."""
    status: Object = {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    }
    return Item(f"{COMPONENT_STATUS.storage}//{name}", encode(status), 0)


async def _component_status(handlers: Handlers, call: Call) -> Response:
    form = handlers.form(call)
    if call.route.verb == "list":
        return answer(await form.many([_component(name) for name in _COMPONENTS], {}))
    if call.route.name not in _COMPONENTS:
        raise errors.not_found("", COMPONENT_STATUS.plural, call.route.name)
    return answer(form.one(_component(call.route.name).value, 0))


async def _bind(handlers: Handlers, call: Call) -> Response:
    binding = call.body(*call.kind).object
    name = (binding.get("metadata") or {}).get("name") or ""
    if not name:
        raise errors.invalid("", "Binding", "", [errors.required("metadata.name")])
    route = Route("create", POD, "", "v1", call.route.namespace, name, "binding")
    return await bind(handlers, replace(call, route=route))


VIRTUAL: dict[tuple[str, str], Serve] = {
    ("create", BINDING.storage): _bind,
    ("get", COMPONENT_STATUS.storage): _component_status,
    ("list", COMPONENT_STATUS.storage): _component_status,
} | {("create", storage): serve for storage, serve in REVIEWS.items()}
"""By verb and `Resource.storage`."""
