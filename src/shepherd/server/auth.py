"""Who is asking.

Source: Kubernetes documentation, "Authenticating".
"""

import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from shepherd.api import errors
from shepherd.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT
from shepherd.api.meta import object_key
from shepherd.api.resource import Resource
from shepherd.lib.http import Request, User, is_for_loopback
from shepherd.server.tokens import AUDIENCES, Claims, Named, ServiceAccountTokens, TokenError
from shepherd.store.base import Store

ADMIN_GROUP = "system:masters"
NODES_GROUP = "system:nodes"
NODE_USER_PREFIX = "system:node:"
AUTHENTICATED_GROUP = "system:authenticated"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
OPEN_PATHS = ("healthz", "livez", "readyz", "version")
"""First segments of the paths that anyone may read."""


class Authenticator(Protocol):
    """Finds out who sent a request."""

    async def authenticate(self, request: Request) -> User:
        """The user. Raises ApiError 401 if the request proves nobody, or its proof is bad; 403."""
        ...

    async def identify(self, token: str, audiences: Sequence[str]) -> User:
        """Whose bearer token it is, for one of `audiences` (none: the API). Raises ApiError 401."""
        ...


_EVERYONE = User("system:admin", (ADMIN_GROUP, AUTHENTICATED_GROUP))


class InsecureAuthenticator:
    """Everyone on this machine is an administrator (`--insecure`), but who a transport speaks for
    stays so.

    With `credentials`, who shows any is whom they prove.
    """

    def __init__(self, credentials: Authenticator | None = None) -> None:
        self._credentials = credentials

    async def authenticate(self, request: Request) -> User:
        if self._credentials and "authorization" in request.headers:
            return await self._credentials.authenticate(request)
        if request.peer:
            return _authenticated(request.peer)
        if not is_for_loopback(request):
            raise errors.not_loopback()
        return _EVERYONE

    async def identify(self, token: str, audiences: Sequence[str]) -> User:
        if self._credentials:
            return await self._credentials.identify(token, audiences)
        return _EVERYONE


class CredentialAuthenticator:
    """By client certificate (or the transport's word), else by bearer token.

    `static` maps secrets to users; `accounts` verifies service account tokens, whose account and
    what else they are bound to is looked up in `store`: a token dies with that.
    """

    def __init__(
        self,
        store: Store,
        *,
        accounts: ServiceAccountTokens,
        static: Mapping[str, User] | None = None,
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._static = {token.encode(): user for token, user in (static or {}).items()}

    async def authenticate(self, request: Request) -> User:
        if request.peer:
            return _authenticated(request.peer)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            # A bad token is refused even where none is needed, as upstream does.
            return await self.identify(token.strip(), ())
        if request.path[1:].partition("/")[0] in OPEN_PATHS:
            return ANONYMOUS
        raise errors.unauthorized()

    async def identify(self, token: str, audiences: Sequence[str]) -> User:
        shown = token.encode(errors="replace")
        for secret, user in self._static.items():
            if hmac.compare_digest(secret, shown):
                return _authenticated(user)
        try:
            claims = self._accounts.verify(token, audiences or AUDIENCES)
        except TokenError:
            raise errors.unauthorized() from None
        if not await self._alive(claims):
            raise errors.unauthorized()
        return _authenticated(claims.user())

    async def _alive(self, claims: Claims) -> bool:
        """Whether all that the token is bound to is still there, in the same incarnation."""
        bound, namespace = claims.bound, claims.bound.namespace
        return (
            await self._is_there(SERVICE_ACCOUNT, namespace, bound.serviceaccount)
            and await self._is_there(POD, namespace, bound.pod)
            and await self._is_there(SECRET, namespace, bound.secret)
            and await self._is_there(NODE, "", bound.node)
        )

    async def _is_there(self, resource: Resource, namespace: str, named: Named | None) -> bool:
        if named is None:
            return True
        item = await self._store.get(object_key(resource, namespace, named.name))
        return item is not None and _decode(item.value).metadata.uid == named.uid


class _Metadata(msgspec.Struct):
    uid: str


class _Identified(msgspec.Struct):
    metadata: _Metadata


def _decode(value: bytes) -> _Identified:
    return msgspec.json.decode(value, type=_Identified)


def _authenticated(user: User) -> User:
    if AUTHENTICATED_GROUP in user.groups:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED_GROUP), user.uid, user.extra)


def read_token_file(path: Path) -> dict[str, User]:
    """The users of a static token file: lines of `token,user,uid[,"group1,group2"]` (CSV).

    Raises ValueError naming the line. Source: kube-apiserver --token-auth-file.
    """
    import csv

    users: dict[str, User] = {}
    with path.open(newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if not row:
                continue
            if len(row) < 3 or not row[0] or not row[1]:
                raise ValueError(f"{path} line {number}: expected token,user,uid[,groups]")
            groups = row[3].split(",") if len(row) > 3 and row[3] else []
            users[row[0]] = User(row[1], tuple(groups), row[2])
    return users
