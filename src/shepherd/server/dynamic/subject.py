"""A write as webhooks and policies see it: in the version that they know, with its namespace."""

from shepherd.api.cel.authorization import Question
from shepherd.api.cel.authorization import authorizer as authorizer_value
from shepherd.api.kinds import NAMESPACE
from shepherd.api.meta import object_key
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import User
from shepherd.server.admission import Attributes
from shepherd.server.authorization.actions import Action, Authorizer
from shepherd.server.codec import decode, with_revision
from shepherd.server.versions import Versions
from shepherd.store.base import Store

_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "delete": "DeleteOptions"}


class Subject:
    """One write under judgement, whose object may be rewritten."""

    def __init__(
        self, asked: Attributes, store: Store, versions: Versions, authorizer: Authorizer | None
    ) -> None:
        self.asked = asked
        self._store = store
        self._versions = versions
        self._authorizer = authorizer
        self._views: dict[str, tuple[Object | None, Object | None]] = {}
        self._namespace: Object | None = None

    @property
    def operation(self) -> str:
        """CREATE, UPDATE, DELETE or CONNECT."""
        return self.asked.operation.upper()

    @property
    def resource(self) -> Resource:
        return self.asked.route.resource

    @property
    def name(self) -> str:
        return self.asked.route.name or str((self.asked.obj.get("metadata") or {}).get("name", ""))

    async def view(self, resource: Resource) -> tuple[Object | None, Object | None]:
        """The new object (none for a delete) and the old one (none for a create) as `resource`."""
        found = self._views.get(resource.api_version)
        if found is None:
            asked, old = self.asked, self.asked.old
            new = None if asked.operation == "delete" else await self._as(resource, asked.obj)
            found = new, None if old is None else await self._as(resource, old)
            self._views[resource.api_version] = found
        return found

    async def rewrite(self, resource: Resource, obj: Object) -> None:
        """The object becomes `obj`, which is of `resource`."""
        if resource is not self.resource:
            obj = await self._versions.to(self.resource, obj)
        self.asked.obj = obj
        self._views.clear()

    async def _as(self, resource: Resource, obj: Object) -> Object:
        if self.asked.read:
            obj = with_revision(obj, self.asked.read)
        return obj if resource is self.resource else await self._versions.to(resource, obj)

    async def namespace(self) -> Object | None:
        """The namespace that the object is in; a namespace is in itself. None for others."""
        route = self.asked.route
        if route.resource is NAMESPACE and not route.sub:
            return self.asked.obj
        if route.namespace and self._namespace is None:
            item = await self._store.get(object_key(NAMESPACE, "", route.namespace))
            self._namespace = decode(item.value) if item else {"metadata": {}}
        return self._namespace

    async def values(self, resource: Resource) -> Object:
        """The variables that every expression about the write as `resource` may use."""
        new, old = await self.view(resource)
        request, sub = self.request(resource), self.asked.route.sub
        asked_for = {"group": resource.group, "resource": resource.plural, "subresource": sub}
        where = {"namespace": self.asked.route.namespace, "name": self.name}
        return {
            "object": new,
            "oldObject": old,
            "request": request,
            "authorizer": authorizer_value(asked_for | where),
        }

    async def decide(self, question: Question) -> tuple[bool, str]:
        """Whether who writes, or a service account, may do something; and why (or why not)."""
        if self._authorizer is None:
            return True, ""
        user = self.asked.user
        if question.account:
            namespace, _, name = question.account.partition("/")
            groups = ("", f":{namespace}")
            user = User(
                f"system:serviceaccount:{namespace}:{name}",
                (*(f"system:serviceaccounts{group}" for group in groups), "system:authenticated"),
            )
        action = Action(
            user,
            question.verb,
            question.group,
            question.resource,
            question.subresource,
            question.namespace,
            question.name,
            question.path,
        )
        verdict = await self._authorizer.decide(action)
        return verdict.allowed, verdict.reason

    def request(self, resource: Resource, uid: str = "") -> Object:
        """The request of an AdmissionReview of the write as `resource`, but for its objects."""
        asked, route, user = self.asked, self.asked.route, self.asked.user
        mine = {"group": route.group, "version": route.version}
        as_seen = {"group": resource.group, "version": resource.version}
        request: Object = {
            "uid": uid,
            "kind": asked.kind or as_seen | {"kind": resource.kind},
            "resource": as_seen | {"resource": resource.plural},
            "requestKind": asked.kind or mine | {"kind": route.resource.kind},
            "requestResource": mine | {"resource": route.resource.plural},
            "name": self.name,
            "operation": self.operation,
            "userInfo": {
                "username": user.name,
                "uid": user.uid,
                "groups": list(user.groups),
                "extra": {key: list(values) for key, values in user.extra.items()},
            },
            "dryRun": asked.dry_run,
        }
        if kind := _OPTIONS.get(asked.operation):
            request["options"] = _options(asked, kind)
        if namespace := route.namespace or (self.name if route.resource is NAMESPACE else ""):
            request["namespace"] = namespace
        if route.sub:
            request["subResource"] = request["requestSubResource"] = route.sub
        return request


def _options(asked: Attributes, kind: str) -> Object:
    options: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if asked.manager and asked.operation != "delete":
        options["fieldManager"] = asked.manager
    if asked.dry_run:
        options["dryRun"] = ["All"]
    return options
