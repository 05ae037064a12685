"""What a user wants to do, and whether they may.

Source: apiserver authorization/authorizer interfaces.go, endpoints/request RequestInfoFactory,
endpoints/handlers/responsewriters errors.go.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from shepherd.api import errors
from shepherd.api.kinds import NAMESPACE, POD
from shepherd.api.objects.rbac import PolicyRule
from shepherd.api.selectors import FieldSelector, parse_field_selector
from shepherd.lib.http import Request, User
from shepherd.server.routes import Route

_SELECTING = ("list", "watch", "deletecollection")
_STREAMS = ("exec", "attach", "portforward")
_NO_FIELDS = FieldSelector(())


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a user wants to do: to a resource, or to the document at a path."""

    user: User
    verb: str
    """Of resources the API's: get, list, watch, create, update, patch, delete, deletecollection,
    and others that rules may name; of documents the method in lower case."""
    group: str = ""
    resource: str = ""
    """In the plural; of an object, of a kind, or of the kind in a namespace."""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """Of a document. Empty: it is about a resource."""
    fields: FieldSelector = field(default=_NO_FIELDS)
    """The objects that a list, watch or deletecollection selects."""

    @property
    def target(self) -> str:
        """`pods`, `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Verdict(NamedTuple):
    """Whether it is allowed, and why (or why not), if there is more to say."""

    allowed: bool
    reason: str = ""


class Known(NamedTuple):
    """All that a user may do in a namespace, as far as it can be told."""

    rules: list[PolicyRule]
    problem: str = ""
    """Why this is not all."""


class Authorizer(Protocol):
    """Decides what users may do."""

    async def decide(self, action: Action) -> Verdict: ...

    async def rules(self, user: User, namespace: str) -> Known: ...


def actions(user: User, request: Request, route: Route | None) -> Iterator[Action]:
    """What a request asks for; all of it must be allowed. Without a route: a document."""
    if route is None:
        yield Action(user, request.method.lower(), path=request.path)
        return
    namespace, name, fields = route.namespace, route.name, _NO_FIELDS
    if route.resource is NAMESPACE:
        namespace = name  # so that who has a role in a namespace may look at it
    elif not name and route.verb in _SELECTING:
        fields = _fields(request)
        name = fields.exact("metadata.name") or ""
    plural = route.resource.plural
    action = Action(
        user, route.verb, route.group, plural, route.sub, namespace, name, fields=fields
    )
    yield action
    if route.sub in _STREAMS and route.resource is POD and route.verb == "get":
        # A WebSocket is opened by GET; it is not for those who may only read.
        yield replace(action, verb="create")


def _fields(request: Request) -> FieldSelector:
    """A selector that cannot be read selects nothing in particular; the handler refuses it."""
    try:
        return parse_field_selector(request.param("fieldSelector"))
    except errors.ApiError:
        return _NO_FIELDS


def refusal(action: Action, reason: str) -> errors.ApiError:
    """The answer to who may not. In upstream's words: clients and people search for them."""
    detail = f'User "{action.user.name}" cannot {action.verb} '
    if action.path:
        detail += f'path "{action.path}"'
    else:
        detail += f'resource "{action.target}" in API group "{action.group}" '
        detail += f'in the namespace "{action.namespace}"' if action.namespace else _EVERYWHERE
    if reason:
        detail += f": {reason}"
    if action.path:
        return errors.ApiError(403, "Forbidden", f"forbidden: {detail}")
    return errors.forbidden(action.group, action.resource, action.name, detail)


_EVERYWHERE = "at the cluster scope"
