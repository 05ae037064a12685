"""Rules that look beyond the object itself: the explicit table of admission plugins.

`admit` runs before validation and may rewrite the object; `reserve` runs after it, when only the
commit can still fail, and takes what must be given back then (addresses, ports). The plugins are
named as upstream names them. Source: kubernetes plugin/pkg/admission.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from shepherd.api import errors
from shepherd.api.kinds import NAMESPACE, POD, SERVICE
from shepherd.api.kinds.certificates import CERTIFICATE_SIGNING_REQUEST
from shepherd.api.kinds.priorities import PRIORITY_CLASS
from shepherd.api.meta import object_key
from shepherd.api.objects import Namespace, decode
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import User
from shepherd.server import priorities
from shepherd.server.accounts import PodAccounts
from shepherd.server.metadata import asked_name
from shepherd.server.noderestriction import node_restriction
from shepherd.server.routes import Route
from shepherd.server.services import ServiceAllocator
from shepherd.store.base import ConflictError, Store

IMMORTAL = ("default", "kube-system", "kube-public")
"""Namespaces that cannot be deleted."""
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS = 300


@dataclass(slots=True)
class Attributes:
    """One write that asks to be admitted."""

    operation: Literal["create", "update", "delete", "connect"]
    """What becomes of it: an update that removes the last finalizer is a delete, and a delete that
    must wait is an update."""
    route: Route
    obj: Object
    old: Object | None
    user: User
    revision: int = 0
    """Of the write, once it is stored."""
    read: int = 0
    """The revision of `old`."""
    manager: str = ""
    """Who the writer says it is, for managedFields."""
    dry_run: bool = False
    kind: Object | None = None
    """Group, version and kind of `obj`, where they are not those of the route's resource."""
    warnings: list[str] = field(default_factory=list)
    """What to tell the user, whatever becomes of the write."""
    _ends: list[Callable[[bool], None]] = field(default_factory=list)

    def on_end(self, end: Callable[[bool], None]) -> None:
        """Call `end` with whether the write was stored, once that is known."""
        self._ends.append(end)

    def settle(self, stored: bool) -> None:
        ends, self._ends = self._ends, []
        for end in ends:
            end(stored)


Plugin = Callable[[Object], None]
"""Rewrites an object in place. Raises ApiError."""
Follow = Callable[[Attributes], None]
"""Is told of a write that is about to be stored, and asks to be told how that ends."""


class Guard(Protocol):
    """Keeps users from getting by a write what they have not."""

    async def admit(self, route: Route, obj: Object, old: Object | None, user: User) -> None:
        """Judge a create (`old` is None) or an update. Raises ApiError 403."""
        ...


class Admission:
    """Runs the plugins that a write's kind and operation ask for."""

    def __init__(
        self,
        store: Store,
        services: ServiceAllocator,
        followers: Mapping[Resource, Follow],
        accounts: PodAccounts,
        guards: Sequence[Guard] = (),
    ) -> None:
        self._store = store
        self._guards = guards
        self._accounts = accounts
        self._services = services
        self._followers = followers
        self._admitting: dict[tuple[str, Resource], tuple[Plugin, ...]] = {
            ("create", NAMESPACE): (namespace_finalizer,),
            ("create", POD): (service_account, default_toleration_seconds),
        }

    async def admit(self, asked: Attributes) -> None:
        """May rewrite `asked.obj`. Raises ApiError."""
        route = asked.route
        if asked.operation != "delete":
            node_restriction(route.resource, asked.obj, asked.old, asked.user)
            for guard in self._guards:
                await guard.admit(route, asked.obj, asked.old, asked.user)
        if asked.operation == "create" and route.resource.namespaced:
            await self._namespace_lifecycle(route, asked_name(asked.obj["metadata"]))
        elif asked.operation == "delete":
            _keep_immortal(route)
        for plugin in self._admitting.get((asked.operation, route.resource), ()):
            plugin(asked.obj)
        if route.resource is POD and asked.operation == "create":
            await self._accounts.admit(asked.obj, route.namespace)
            await priorities.resolve(self._store, asked.obj)
        elif route.resource is CERTIFICATE_SIGNING_REQUEST and asked.operation == "create":
            claim(asked.obj, asked.user)
        elif route.resource is PRIORITY_CLASS:
            await priorities.one_default(self._store, asked.operation, asked.obj)

    async def reserve(self, asked: Attributes) -> None:
        """Take what the object needs; `asked.settle` keeps or returns it.

        Raises ApiError, and ConflictError if what is to be created is there already.
        """
        resource, metadata = asked.route.resource, asked.obj["metadata"]
        follow = self._followers.get(resource)
        if follow is None and resource is not SERVICE:
            return
        if asked.operation == "create":
            # Who creates what is there learns that, not that its port is taken (by itself).
            key = object_key(resource, metadata.get("namespace", ""), metadata["name"])
            if there := await self._store.get(key):
                raise ConflictError(key, 0, there.revision)
        if follow:
            follow(asked)
        elif asked.operation == "delete":
            asked.on_end(self._services.release(asked.old or asked.obj).end)
        else:
            asked.on_end(self._services.reserve(asked.obj, asked.old).end)

    async def _namespace_lifecycle(self, route: Route, name: str) -> None:
        """Objects are created only in a namespace that exists and is not on its way out."""
        item = await self._store.get(object_key(NAMESPACE, "", route.namespace))
        if item is None:
            raise errors.not_found("", NAMESPACE.plural, route.namespace)
        if decode(item.value, Namespace).metadata.deletion_timestamp:
            error = errors.forbidden(
                route.group,
                route.resource.plural,
                name,
                f"unable to create new content in namespace {route.namespace} "
                "because it is being terminated",
            )
            error.details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {route.namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise error


def _keep_immortal(route: Route) -> None:
    if route.resource is NAMESPACE and route.name in IMMORTAL:
        detail = "this namespace may not be deleted"
        raise errors.forbidden("", NAMESPACE.plural, route.name, detail)


def claim(request: Object, user: User) -> None:
    """A new certificate signing request says who makes it, whatever it said itself."""
    who = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    spec = {key: value for key, value in (request.get("spec") or {}).items() if key not in who}
    request["spec"] = spec | {field: value for field, value in who.items() if value}


def namespace_finalizer(namespace: Object) -> None:
    """A namespace stays until its controller has emptied it."""
    namespace["spec"]["finalizers"] = ["kubernetes"]


def service_account(pod: Object) -> None:
    """ServiceAccount: a pod runs as some account (what that gives it: `accounts`)."""
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name


def default_toleration_seconds(pod: Object) -> None:
    """DefaultTolerationSeconds: a pod stays five minutes on a node that went away."""
    tolerations = list(pod["spec"].get("tolerations") or ())
    for taint in _TAINTS:
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            tolerations.append(
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATION_SECONDS,
                }
            )
    pod["spec"]["tolerations"] = tolerations


def _tolerates(toleration: Object, taint: str) -> bool:
    return toleration.get("key") in (taint, None, "") and toleration.get("effect") in (
        "NoExecute",
        None,
        "",
    )
