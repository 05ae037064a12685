"""Nobody gives away what they have not themselves, unless the verb for that is given to them:
`escalate` on roles, `bind` on the role that is bound.

Source: kubernetes pkg/registry/rbac (escalation_check.go, */policybased), "Privilege escalation
prevention and bootstrapping".
"""

from shepherd.api import errors
from shepherd.api.kinds.rbac import CLUSTER_ROLE, ROLE
from shepherd.api.meta import object_key
from shepherd.api.objects import decode
from shepherd.api.objects.rbac import PolicyRule, Role, RoleBinding
from shepherd.api.rbac import EVERYTHING, describe, missing, quoted, quoted_all
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import User
from shepherd.server.auth import ADMIN_GROUP
from shepherd.server.authorization.actions import Action, Authorizer, Known
from shepherd.server.routes import Route
from shepherd.store.base import Store

_ROLES = (ROLE, CLUSTER_ROLE)
_FOR_COLLECTION = ("ownerReferences", "finalizers")
"""Metadata that the garbage collector must be able to change."""


class Escalation:
    """Judges writes of roles and bindings."""

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    async def admit(self, route: Route, obj: Object, old: Object | None, user: User) -> None:
        """Raises ApiError 403, and 404 when the role that is bound does not exist."""
        if route.resource.group != ROLE.group or ADMIN_GROUP in user.groups:
            return
        if old is not None and _essence(obj) == _essence(old):
            return
        if route.resource in _ROLES:
            await self._admit_role(route, obj, old, user)
        else:
            await self._admit_binding(route, obj, user)

    async def _admit_role(self, route: Route, obj: Object, old: Object | None, user: User) -> None:
        resource, namespace = route.resource, route.namespace
        if await self._may(user, "escalate", resource, namespace, route.name):
            return
        held = await self._authorizer.rules(user, namespace)
        aggregates = any("aggregationRule" in one for one in (obj, old or {}))
        if aggregates and missing(held.rules, EVERYTHING):
            detail = "must have cluster-admin privileges to use an aggregationRule"
            name = obj["metadata"].get("name", "")
            raise errors.forbidden(resource.group, resource.plural, name, detail)
        _refuse_more(route, obj, user, held, decode(obj, Role).rules)

    async def _admit_binding(self, route: Route, obj: Object, user: User) -> None:
        reference = decode(obj, RoleBinding).role_ref
        role = next((one for one in _ROLES if one.kind == reference.kind), None)
        if role is None:
            return  # it is not valid, which the registry finds
        if await self._may(user, "bind", role, route.namespace, reference.name):
            return
        key = object_key(role, route.namespace if role.namespaced else "", reference.name)
        item = await self._store.get(key)
        if item is None:
            raise errors.not_found(role.group, role.plural, reference.name)
        held = await self._authorizer.rules(user, route.namespace)
        _refuse_more(route, obj, user, held, decode(item.value, Role).rules)

    async def _may(
        self, user: User, verb: str, resource: Resource, namespace: str, name: str
    ) -> bool:
        group, plural = resource.group, resource.plural
        action = Action(user, verb, group, plural, namespace=namespace, name=name)
        return (await self._authorizer.decide(action)).allowed


def _refuse_more(
    route: Route, obj: Object, user: User, held: Known, rules: list[PolicyRule]
) -> None:
    """Raises ApiError 403 if the rules allow more than the user has."""
    lacking = missing(held.rules, rules)
    if not lacking:
        return
    who = f"user {quoted(user.name)} (groups=[{quoted_all(user.groups)}])"
    what = "is attempting to grant RBAC permissions not currently held:"
    detail = "\n".join([f"{who} {what}", *describe(lacking)])
    if held.problem:
        detail += f"; resolution errors: [{held.problem}]"
    name = obj["metadata"].get("name", "")
    raise errors.forbidden(route.group, route.resource.plural, name, detail)


def _essence(obj: Object) -> Object:
    """All but what the garbage collector may change."""
    metadata = {
        field: value
        for field, value in obj["metadata"].items()
        if field not in (*_FOR_COLLECTION, "managedFields")
    }
    return obj | {"metadata": metadata}
