"""Who is asking, and whether they may.

Source: Kubernetes documentation, "Authenticating" and "Authorization".
"""

from typing import Protocol

from shepherd.api.resource import Resource
from shepherd.lib.http import Request, User

ADMIN_GROUP = "system:masters"


class Authenticator(Protocol):
    """Finds out who sent a request."""

    async def authenticate(self, request: Request) -> User:
        """The user. Raises ApiError 401 if the request proves nobody, or its proof is bad."""
        ...


class Authorizer(Protocol):
    """Decides what a user may do."""

    async def authorize(
        self,
        user: User,
        verb: str,
        resource: Resource,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
    ) -> None:
        """Return if `user` may do it. Raises ApiError 403.

        `verb` is the API's: get, list, watch, create, update, patch, delete, deletecollection.
        """
        ...


class InsecureAuthenticator:
    """Everyone is an administrator (`--insecure`), but who a transport speaks for stays so."""

    async def authenticate(self, request: Request) -> User:
        return request.peer or User("system:admin", (ADMIN_GROUP, "system:authenticated"))
