"""Acting as somebody else: `kubectl --as`.

There are modes of it. Of all but the last, a user needs two rights: to be whom they want to be
(verb `impersonate:<mode>`), and to do the very thing that is asked in that mode (verb
`impersonate-on:<mode>:<verb>`). The last is the old one, `impersonate`: for whatever is asked.
Source: apiserver endpoints/filters/impersonation; "User impersonation", KEP-5284.
"""

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import unquote

from shepherd.api import errors
from shepherd.lib.http import Request, User
from shepherd.server.auth import (
    ADMIN_GROUP,
    ANONYMOUS,
    AUTHENTICATED_GROUP,
    NODE_USER_PREFIX,
    NODES_GROUP,
)
from shepherd.server.authorization.actions import Action, Authorizer, actions, refusal
from shepherd.server.routes import Route

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"
_ACCOUNT = "system:serviceaccount:"
_ACCOUNTS_GROUP = "system:serviceaccounts"
_UNAUTHENTICATED_GROUP = ANONYMOUS.groups[0]
_NODE_OF_POD = "authentication.kubernetes.io/node-name"


async def impersonated(
    user: User, request: Request, route: Route | None, authorizer: Authorizer
) -> User:
    """Whom the request is to count as from; the headers that say so are gone then.

    Raises ApiError 400, 403.
    """
    wanted = read(request.headers)
    if wanted is None:
        return user
    for name in [name for name in request.headers if name.startswith(_PREFIX)]:
        del request.headers[name]
    doing = [*actions(user, request, route)]
    first: errors.ApiError | None = None
    for mode in (*_modes(user, wanted), ""):
        problem = await _problem(authorizer, _needed(mode, doing, wanted))
        if problem is None:
            return whole(wanted, mode)
        first = first or problem
    assert first
    raise first


async def _problem(authorizer: Authorizer, needed: Iterator[Action]) -> errors.ApiError | None:
    """What of the needed rights is lacking first."""
    for action in needed:
        verdict = await authorizer.decide(action)
        if not verdict.allowed:
            return refusal(action, verdict.reason)
    return None


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


def _modes(user: User, wanted: User) -> Iterator[str]:
    """The newer modes that are meant for such users."""
    only_name = not (wanted.groups or wanted.uid or wanted.extra)
    node = _node(wanted)
    if node:
        if only_name and _account(user)[1] and user.extra.get(_NODE_OF_POD) == (node,):
            yield "associated-node"
        if only_name:
            yield "arbitrary-node"
    elif _account(wanted)[1]:
        if only_name:
            yield "serviceaccount"
    elif ADMIN_GROUP not in wanted.groups and all("/" in key for key in wanted.extra):
        yield "user-info"


def _needed(mode: str, doing: list[Action], wanted: User) -> Iterator[Action]:
    """What a user must be allowed to be `wanted` while `doing` all that; no mode: the old one."""
    user, verb, group = doing[0].user, "impersonate", ""
    if mode:
        verb, group = f"impersonate:{mode}", _GROUP
        for one in doing:
            yield replace(one, verb=f"impersonate-on:{mode}:{one.verb}")
    namespace, account = _account(wanted)
    if mode.endswith("-node"):
        node = "*" if mode == "associated-node" else _node(wanted)
        yield Action(user, verb, group, "nodes", name=node)
    elif account:
        yield Action(user, verb, group, "serviceaccounts", namespace=namespace, name=account)
    else:
        yield Action(user, verb, group, "users", name=wanted.name)
    if wanted.uid:
        yield Action(user, verb, _GROUP, "uids", name=wanted.uid)
    for name in wanted.groups:
        yield Action(user, verb, group, "groups", name=name)
    for key, values in wanted.extra.items():
        for value in values:
            yield Action(user, verb, _GROUP, "userextras", key, name=value)


def _node(user: User) -> str:
    """The node whose agent it is; empty if it is none."""
    name = user.name
    return name.removeprefix(NODE_USER_PREFIX) if name.startswith(NODE_USER_PREFIX) else ""


def _account(user: User) -> tuple[str, str]:
    """Namespace and name of a service account; empty if it is none."""
    namespace, _, name = user.name.removeprefix(_ACCOUNT).partition(":")
    return (namespace, name) if user.name.startswith(_ACCOUNT) else ("", "")


def whole(wanted: User, mode: str = "") -> User:
    """With the groups that nobody need ask for."""
    groups = wanted.groups
    namespace, account = _account(wanted)
    if mode.endswith("-node"):
        groups = (NODES_GROUP,)
    elif account and not groups:
        groups = (_ACCOUNTS_GROUP, f"{_ACCOUNTS_GROUP}:{namespace}")
    if wanted.name == ANONYMOUS.name:
        own = _UNAUTHENTICATED_GROUP
    else:
        own = "" if _UNAUTHENTICATED_GROUP in groups else AUTHENTICATED_GROUP
    if own and own not in groups:
        groups = (*groups, own)
    return User(wanted.name, groups, wanted.uid, wanted.extra)
