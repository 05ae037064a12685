"""Nobody lets a policy read for them what they may not read: its parameters end up in messages.

Source: kubernetes pkg/registry/admissionregistration/validatingadmissionpolicy,
validatingadmissionpolicybinding and their mutating kin (authz.go).
"""

from shepherd.api import errors
from shepherd.api.kinds.admissions import (
    MUTATING_ADMISSION_POLICY,
    MUTATING_ADMISSION_POLICY_BINDING,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
)
from shepherd.api.meta import object_key
from shepherd.api.rbac import ALL
from shepherd.api.resource import Object
from shepherd.lib.http import User
from shepherd.server.auth import ADMIN_GROUP
from shepherd.server.authorization.actions import Action, Authorizer
from shepherd.server.codec import decode
from shepherd.server.routes import Route
from shepherd.server.served import Served
from shepherd.store.base import Store

_POLICIES = (VALIDATING_ADMISSION_POLICY, MUTATING_ADMISSION_POLICY)
_POLICY_OF = {
    VALIDATING_ADMISSION_POLICY_BINDING: VALIDATING_ADMISSION_POLICY,
    MUTATING_ADMISSION_POLICY_BINDING: MUTATING_ADMISSION_POLICY,
}


class ParameterReading:
    """Judges writes of admission policies and their bindings."""

    def __init__(self, store: Store, authorizer: Authorizer, served: Served) -> None:
        self._store = store
        self._authorizer = authorizer
        self._served = served

    async def admit(self, route: Route, obj: Object, old: Object | None, user: User) -> None:
        """Raises ApiError 403."""
        if ADMIN_GROUP in user.groups:
            return
        spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
        if route.resource in _POLICIES:
            kind = spec.get("paramKind")
            if kind and kind != before.get("paramKind"):
                detail = (
                    f'user {user.name} must have "get" permission on all objects of the referenced '
                    f"paramKind (kind={kind.get('kind')}, apiVersion={kind.get('apiVersion')})"
                )
                await self._require(route, obj, self._reads(user, kind, ALL, ALL), detail)
        elif route.resource in _POLICY_OF and (reference := spec.get("paramRef")):
            names = ("paramRef", "policyName")
            if any(spec.get(name) != before.get(name) for name in names):
                await self._admit_binding(route, obj, reference, user)

    async def _admit_binding(
        self, route: Route, obj: Object, reference: Object, user: User
    ) -> None:
        policy_name = obj["spec"].get("policyName") or ""
        item = await self._store.get(object_key(_POLICY_OF[route.resource], "", policy_name))
        policy = decode(item.value)["spec"] if item else {}
        kind, name = policy.get("paramKind"), reference.get("name") or ""
        action = self._reads(user, kind, reference.get("namespace") or "", name)
        detail = (
            f'user {user.name} does not have "{action.verb}" permission on the object referenced '
            "by paramRef"
        )
        await self._require(route, obj, action, detail)

    def _reads(self, user: User, kind: Object | None, namespace: str, name: str) -> Action:
        """What it takes to read such objects; of a kind that is not known yet: anything."""
        wanted = kind or {}
        group, _, version = (wanted.get("apiVersion") or "").rpartition("/")
        known = (one for one in self._served.of(group, version) if one.kind == wanted.get("kind"))
        resource = next(known, None)
        group, plural = (resource.group, resource.plural) if resource else (ALL, ALL)
        verb = "get" if name else "list"
        return Action(user, verb, group, plural, namespace=namespace, name=name)

    async def _require(self, route: Route, obj: Object, action: Action, detail: str) -> None:
        if not (await self._authorizer.decide(action)).allowed:
            name = obj["metadata"].get("name", "")
            raise errors.forbidden(route.group, route.resource.plural, name, detail)
