"""Service account tokens: JSON web tokens, signed with a secret of the server (HS256).

Source: Kubernetes documentation, "Managing Service Accounts", schema for service account private
claims; RFC 7519, RFC 7515.
"""

import base64
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from shepherd.lib.clock import Clock
from shepherd.lib.http import User
from shepherd.lib.ids import new_uid

ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIENCES = (ISSUER,)
"""For whom tokens are when nothing else is asked: the API itself."""
_LEEWAY_SECONDS = 60.0
"""A token of the near future is accepted: the clock may have been put right since."""
_HEADER = b'{"alg":"HS256","typ":"JWT"}'
_EXTRA = "authentication.kubernetes.io/"


class TokenError(Exception):
    """The token is not ours, not for this audience, or not valid now."""


class Named(msgspec.Struct, frozen=True):
    """One object, of one incarnation."""

    name: str
    uid: str


class Binding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose the token is, and the objects with which it dies."""

    namespace: str
    serviceaccount: Named
    pod: Named | None = None
    node: Named | None = None
    secret: Named | None = None


class Claims(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a token says."""

    iss: str
    sub: str
    aud: list[str]
    exp: int
    iat: int
    nbf: int
    jti: str
    bound: Binding = msgspec.field(name="kubernetes.io")

    def user(self) -> User:
        namespace, account = self.bound.namespace, self.bound.serviceaccount
        extra: dict[str, tuple[str, ...]] = {f"{_EXTRA}credential-id": (f"JTI={self.jti}",)}
        for kind, named in (("pod", self.bound.pod), ("node", self.bound.node)):
            if named:
                extra[f"{_EXTRA}{kind}-name"] = (named.name,)
                extra[f"{_EXTRA}{kind}-uid"] = (named.uid,)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return User(self.sub, groups, account.uid, extra)


@dataclass(frozen=True, slots=True)
class ServiceAccountTokens:
    """Issues tokens and verifies them; whether what they are bound to still exists is not asked."""

    key: bytes
    clock: Clock
    random: Random

    def issue(
        self, binding: Binding, *, seconds: float, audiences: Sequence[str] = AUDIENCES
    ) -> tuple[str, int]:
        """A token valid for `seconds`, and when it ends (epoch seconds)."""
        now = int(self.clock.now())
        claims = Claims(
            iss=ISSUER,
            sub=f"system:serviceaccount:{binding.namespace}:{binding.serviceaccount.name}",
            aud=list(audiences),
            exp=now + int(seconds),
            iat=now,
            nbf=now,
            jti=new_uid(self.random),
            bound=binding,
        )
        signed = _encode(_HEADER) + b"." + _encode(msgspec.json.encode(claims))
        return (signed + b"." + self._signature(signed)).decode(), claims.exp

    def verify(self, token: str, audiences: Sequence[str] = AUDIENCES) -> Claims:
        """What the token says. Raises TokenError."""
        signed, _, signature = token.encode(errors="replace").rpartition(b".")
        header, _, payload = signed.partition(b".")
        # The header is compared as a whole: nobody but us chooses the algorithm.
        genuine = hmac.compare_digest(signature, self._signature(signed))
        if header != _encode(_HEADER) or not genuine:
            raise TokenError("the token was not issued by this cluster")
        claims = msgspec.json.decode(_decode(payload), type=Claims)
        now = self.clock.now()
        if now >= claims.exp:
            raise TokenError("the token has expired")
        if now < claims.nbf - _LEEWAY_SECONDS:
            raise TokenError("the token is not valid yet")
        if not set(audiences) & set(claims.aud):
            raise TokenError(f"the token is for {claims.aud}, not for {list(audiences)}")
        return claims

    def _signature(self, signed: bytes) -> bytes:
        return _encode(hmac.digest(self.key, signed, "sha256"))


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decode(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
