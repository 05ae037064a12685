"""Who is who and who may what: asked of every request, by reviews and by token requests."""

from dataclasses import dataclass
from typing import Protocol

from shepherd.api.rbac import EVERYTHING
from shepherd.api.resource import Object
from shepherd.lib.http import Request, User
from shepherd.server.auth import ADMIN_GROUP, Authenticator
from shepherd.server.authorization.actions import (
    Action,
    Authorizer,
    Known,
    Verdict,
    actions,
    refusal,
)
from shepherd.server.authorization.impersonation import impersonated
from shepherd.server.routes import Route
from shepherd.server.tokens import ServiceAccountTokens


class Signer(Protocol):
    """Makes certificates of the cluster's own authorities."""

    async def sign(self, signer_name: str, request: Object) -> str:
        """The certificate that the spec of a CertificateSigningRequest asks for, in PEM.

        Raises `certificates.RequestError`.
        """
        ...

    def signs(self, signer_name: str) -> bool:
        """Whether it acts for that name."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """The parts of an API server that know users."""

    authenticator: Authenticator
    authorizer: Authorizer | None
    """None: everyone may do everything."""
    tokens: ServiceAccountTokens
    signer: Signer | None = None

    async def admit(self, user: User, request: Request, route: Route | None) -> User:
        """Whom the request counts as from (see `impersonation`), if that user may do what it asks
        for. Raises ApiError 400, 403."""
        if self.authorizer:
            user = await impersonated(user, request, route, self.authorizer)
        await self.allow(user, request, route)
        return user

    async def allow(self, user: User, request: Request, route: Route | None) -> None:
        """Return if the user may do what the request asks for. Raises ApiError 403."""
        if ADMIN_GROUP not in user.groups:
            for action in actions(user, request, route):
                await self.require(action)

    async def require(self, action: Action) -> None:
        """Return if it is allowed. Raises ApiError 403."""
        verdict = await self.decide(action)
        if not verdict.allowed:
            raise refusal(action, verdict.reason)

    async def decide(self, action: Action) -> Verdict:
        return await self.authorizer.decide(action) if self.authorizer else Verdict(True)

    async def rules(self, user: User, namespace: str) -> Known:
        """All that the user may do there."""
        if self.authorizer is None:
            return Known(list(EVERYTHING))
        return await self.authorizer.rules(user, namespace)
