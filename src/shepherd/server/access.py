"""Who is who and who may what: what review kinds and token requests are answered by."""

from dataclasses import dataclass
from typing import Protocol

from shepherd.api import errors
from shepherd.api.kinds import RESOURCES
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import User
from shepherd.server.auth import Authenticator, Authorizer
from shepherd.server.tokens import ServiceAccountTokens

_DECLARED = {(resource.group, resource.plural): resource for resource in RESOURCES}


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

    async def refusal(self, user: User, asked: Object) -> str | None:
        """Why `user` may not do what a review's `resourceAttributes` name; None = may."""
        if self.authorizer is None:
            return None
        group, plural = asked.get("group") or "", asked.get("resource") or ""
        resource = _DECLARED.get((group, plural)) or Resource(
            group, asked.get("version") or "", kind="", plural=plural
        )
        names = (asked.get(field) or "" for field in ("namespace", "name", "subresource"))
        try:
            await self.authorizer.authorize(user, asked.get("verb") or "", resource, *names)
        except errors.ApiError as error:
            return error.message
        return None

    def path_refusal(self, user: User, asked: Object) -> str | None:
        """The same of `nonResourceAttributes`: whoever is known may read every document."""
        if self.authorizer is None or asked.get("verb") in ("get", "head"):
            return None
        if self.authorizer.is_admin(user):
            return None
        return f'User "{user.name}" cannot {asked.get("verb")} path "{asked.get("path")}"'
