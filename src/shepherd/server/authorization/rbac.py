"""RBAC: roles say what may be done, bindings who may.

Source: kubernetes plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation (rule.go).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from shepherd.api.kinds.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from shepherd.api.meta import split_key
from shepherd.api.objects import decode
from shepherd.api.objects.rbac import PolicyRule, Role, RoleBinding, Subject
from shepherd.api.rbac import allows, allows_path
from shepherd.lib.http import User
from shepherd.server.authorization.actions import Action, Known, Verdict
from shepherd.server.authorization.tracker import Tracker

_ROLES = (ROLE.storage, CLUSTER_ROLE.storage)
_BINDINGS = (ROLE_BINDING.storage, CLUSTER_ROLE_BINDING.storage)

_Who = tuple[str, str]
"""User or Group, and the name."""
_Place = tuple[str, str]
"""Namespace and name; of cluster roles the namespace is empty."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A role, given to one subject of a binding."""

    role: _Place
    text: str
    """Which binding of which role to whom, as upstream writes it."""


class Policy:
    """All roles and bindings, by whom they concern. An `Index`."""

    storages = _ROLES + _BINDINGS

    def __init__(self) -> None:
        self._rules: dict[_Place, list[PolicyRule]] = {}
        self._grants: dict[tuple[str, _Who], dict[str, Grant]] = {}
        """By the namespace in which it counts (empty: everywhere) and subject; then by binding."""
        self._subjects: dict[str, list[tuple[str, _Who]]] = {}
        """What a binding has in `_grants`."""

    def put(self, key: str, value: bytes | None) -> None:
        storage, namespace, name = split_key(key)
        if storage in _BINDINGS:
            self._put_binding(key, namespace, value)
        elif value is None:
            self._rules.pop((namespace, name), None)
        else:
            self._rules[namespace, name] = decode(value, Role).rules

    def clear(self) -> None:
        for index in (self._rules, self._grants, self._subjects):
            index.clear()

    def _put_binding(self, key: str, namespace: str, value: bytes | None) -> None:
        for where in self._subjects.pop(key, ()):
            del self._grants[where][key]
            if not self._grants[where]:
                del self._grants[where]
        if value is None:
            return
        binding = decode(value, RoleBinding)
        for subject in binding.subjects:
            where = (namespace, _who(subject, namespace))
            granted = self._grants.setdefault(where, {})
            if key not in granted:
                granted[key] = _grant(binding, subject, namespace)
                self._subjects.setdefault(key, []).append(where)

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """What a user is given, everywhere and in the namespace."""
        for place in ("", namespace) if namespace else ("",):
            for who in (("User", user.name), *(("Group", group) for group in user.groups)):
                yield from self._grants.get((place, who), _NONE).values()

    def rules(self, grant: Grant) -> list[PolicyRule] | None:
        """The rules of its role; None: there is no such role."""
        return self._rules.get(grant.role)


_NONE: dict[str, Grant] = {}


def _who(subject: Subject, namespace: str) -> _Who:
    if subject.kind == "ServiceAccount":
        home = subject.namespace or namespace
        return "User", f"system:serviceaccount:{home}:{subject.name}"
    return subject.kind, subject.name


def _grant(binding: RoleBinding, subject: Subject, namespace: str) -> Grant:
    role, name = binding.role_ref, binding.metadata.name
    who = subject.name
    if subject.kind == "ServiceAccount":
        who += f"/{subject.namespace or namespace}"
    what = f'RoleBinding "{name}/{namespace}"' if namespace else f'ClusterRoleBinding "{name}"'
    return Grant(
        (namespace if role.kind == "Role" else "", role.name),
        f'{what} of {role.kind} "{role.name}" to {subject.kind} "{who}"',
    )


def decide(policy: Policy, action: Action) -> Verdict:
    """Allowed if any rule of any role that the user is given allows it."""
    lacking: dict[str, None] = {}
    for grant in policy.grants(action.user, action.namespace):
        rules = policy.rules(grant)
        if rules is None:
            lacking[_no_role(grant)] = None
        elif any(permits(rule, action) for rule in rules):
            return Verdict(True, f"RBAC: allowed by {grant.text}")
    return Verdict(False, f"RBAC: {_together(list(lacking))}" if lacking else "")


def permits(rule: PolicyRule, action: Action) -> bool:
    """Whether a rule allows it."""
    if action.path:
        return allows_path(rule, action.verb, action.path)
    return allows(rule, action.verb, action.group, action.target, action.name)


def known(policy: Policy, user: User, namespace: str) -> Known:
    """All that the user is given in the namespace."""
    rules: list[PolicyRule] = []
    lacking: dict[str, None] = {}
    for grant in policy.grants(user, namespace):
        found = policy.rules(grant)
        if found is None:
            lacking[_no_role(grant)] = None
        else:
            rules += found
    return Known(rules, _together(list(lacking)))


def _no_role(grant: Grant) -> str:
    namespace, name = grant.role
    kind = "role" if namespace else "clusterrole"
    return f'{kind}.rbac.authorization.k8s.io "{name}" not found'


def _together(problems: list[str]) -> str:
    return f"[{', '.join(problems)}]" if len(problems) > 1 else "".join(problems)


class RbacAuthorizer:
    """An `Authorizer` by the roles and bindings that are stored."""

    def __init__(self, policy: Policy, tracker: Tracker) -> None:
        self._policy = policy
        self._tracker = tracker

    async def decide(self, action: Action) -> Verdict:
        await self._tracker.catch_up()
        return decide(self._policy, action)

    async def rules(self, user: User, namespace: str) -> Known:
        await self._tracker.catch_up()
        return known(self._policy, user, namespace)
