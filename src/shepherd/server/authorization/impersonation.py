"""Acting as somebody else: `kubectl --as`.

Each thing that is taken on (name, groups, uid, each value of extra) must be allowed by the verb
`impersonate`. Source: apiserver endpoints/filters/impersonation (its modes beside `impersonate`,
which KEP-5284 adds, are not there); "User impersonation".
"""

from collections.abc import Iterator
from urllib.parse import unquote

from shepherd.api import errors
from shepherd.lib.http import User
from shepherd.server.auth import ANONYMOUS, AUTHENTICATED_GROUP
from shepherd.server.authorization.actions import Action, Authorizer, refusal

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"
_ACCOUNT = "system:serviceaccount:"
_UNAUTHENTICATED_GROUP = ANONYMOUS.groups[0]


async def impersonated(user: User, headers: dict[str, str], authorizer: Authorizer) -> User:
    """Whom the request is to count as from; the headers that say so are gone then.

    Raises ApiError 400, 403.
    """
    wanted = read(headers)
    if wanted is None:
        return user
    for name in [name for name in headers if name.startswith(_PREFIX)]:
        del headers[name]
    for action in _actions(user, wanted):
        verdict = await authorizer.decide(action)
        if not verdict.allowed:
            raise refusal(action, verdict.reason)
    return whole(wanted)


def read(headers: dict[str, str]) -> User | None:
    """Whom the headers name; None: nobody. Raises ApiError 400."""
    asked = {name: value for name, value in headers.items() if name.startswith(_PREFIX)}
    if not asked:
        return None
    groups = _each(asked.get("impersonate-group", ""))
    extra = {
        unquote(name.removeprefix(_EXTRA)): _each(value)
        for name, value in asked.items()
        if name.startswith(_EXTRA)
    }
    name, uid = asked.get("impersonate-user", ""), asked.get("impersonate-uid", "")
    if not name:
        named = ", ".join(sorted(asked))
        raise errors.bad_request(f"requested {named} without impersonating a user name")
    return User(name, groups, uid, extra)


def _each(value: str) -> tuple[str, ...]:
    """Headers that repeat are one, joined (`lib.httpd`)."""
    return tuple(value.split(", ")) if value else ()


def _actions(user: User, wanted: User) -> Iterator[Action]:
    """What `user` must be allowed, to count as `wanted`."""
    namespace, name = _account(wanted)
    if name:
        yield Action(user, "impersonate", "", "serviceaccounts", namespace=namespace, name=name)
    else:
        yield Action(user, "impersonate", "", "users", name=wanted.name)
    if wanted.uid:
        yield Action(user, "impersonate", _GROUP, "uids", name=wanted.uid)
    for group in wanted.groups:
        yield Action(user, "impersonate", "", "groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield Action(user, "impersonate", _GROUP, "userextras", key, name=value)


def _account(user: User) -> tuple[str, str]:
    """Namespace and name of a service account; empty if it is none."""
    namespace, _, name = user.name.removeprefix(_ACCOUNT).partition(":")
    return (namespace, name) if user.name.startswith(_ACCOUNT) else ("", "")


def whole(wanted: User) -> User:
    """With the groups that nobody need ask for."""
    groups = wanted.groups
    namespace, name = _account(wanted)
    if name and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    if wanted.name == ANONYMOUS.name:
        own = _UNAUTHENTICATED_GROUP
    else:
        own = "" if _UNAUTHENTICATED_GROUP in groups else AUTHENTICATED_GROUP
    if own and own not in groups:
        groups = (*groups, own)
    return User(wanted.name, groups, wanted.uid, wanted.extra)
