"""The tokens by which the pods of this node prove to the API which service account they are.

A token is asked for when a volume of the pod needs it (serviceaccounts/{name}/token), is bound to
the pod, and is replaced long before it ends. Source: kubernetes pkg/kubelet/token/token_manager.go.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from shepherd.agent.pod_state import BoundPod
from shepherd.agent.references import UnresolvedError
from shepherd.api.errors import ApiError
from shepherd.api.kinds import SERVICE_ACCOUNT
from shepherd.api.meta import parse_time
from shepherd.api.objects.pod import ServiceAccountTokenProjection
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.lib.clock import Clock

_LONGEST_SECONDS = 24 * 3600.0
"""A token is replaced after that time, or after four fifths of its life."""
_LOOK_SECONDS = 60.0
"""How often tokens are looked at, and how long after a failure it is tried again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One token that a pod's volumes name."""

    audience: str
    """Empty: the API itself."""
    seconds: int

    @classmethod
    def of(cls, projection: ServiceAccountTokenProjection) -> "Wanted":
        return cls(projection.audience, projection.expiration_seconds)


def wanted(pod: BoundPod) -> set[Wanted]:
    """The tokens that a pod's volumes name."""
    return {
        Wanted.of(token)
        for volume in pod.spec.volumes
        if volume.projected
        for source in volume.projected.sources
        if (token := source.service_account_token)
    }


@dataclass(frozen=True, slots=True)
class Token:
    """One that was issued."""

    text: bytes
    expires: float
    """Epoch seconds."""
    seconds: float
    """How long it is valid in all: the server may have given less than was asked for."""

    def is_due(self, now: float) -> bool:
        """Whether to ask for another; also if it is of our future, as it is when the clock was
        wrong and has been put right: nobody takes it before its time."""
        issued = self.expires - self.seconds
        return now < issued or now >= min(issued + 0.8 * self.seconds, issued + _LONGEST_SECONDS)


class Tokens:
    """Gets tokens, and calls `changed(uid)` when a pod's volumes should get new ones."""

    def __init__(self, client: Client, *, clock: Clock, changed: Callable[[str], None]) -> None:
        self._client = client
        self._clock = clock
        self._changed = changed
        self._held: dict[str, dict[Wanted, Token]] = {}
        self._some = asyncio.Event()

    async def run(self) -> None:
        """Watch over them; never returns."""
        while True:
            await self._some.wait()
            await self._clock.sleep(_LOOK_SECONDS)
            now = self._clock.now()
            for uid, tokens in list(self._held.items()):
                if any(token.is_due(now) for token in tokens.values()):
                    self._changed(uid)

    async def lookup(self, pod: BoundPod) -> dict[Wanted, bytes]:
        """The pod's tokens, fresh ones. Raises UnresolvedError if there is none to be had."""
        return {one: await self._fresh(pod, one) for one in wanted(pod)}

    def release(self, uid: str) -> None:
        """The pod has ended: its tokens are worth nothing any more."""
        self._held.pop(uid, None)
        if not self._held:
            self._some.clear()

    async def _fresh(self, pod: BoundPod, one: Wanted) -> bytes:
        uid = pod.metadata.uid
        held = self._held.get(uid, {}).get(one)
        now = self._clock.now()
        if held is None or held.is_due(now):
            try:
                held = await self._request(pod, one)
            except (ApiError, ConnectionError) as error:
                if held is None or now >= held.expires:
                    raise UnresolvedError(f"failed to fetch token: {error}") from error
            else:
                self._held.setdefault(uid, {})[one] = held
                self._some.set()
        return held.text

    async def _request(self, pod: BoundPod, one: Wanted) -> Token:
        meta = pod.metadata
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta.name, "uid": meta.uid}
        spec: Object = {"expirationSeconds": one.seconds, "boundObjectRef": bound}
        if one.audience:
            spec["audiences"] = [one.audience]
        body = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}
        answered = await self._client.create(
            SERVICE_ACCOUNT, body, meta.namespace, name=pod.spec.service_account_name, sub="token"
        )
        expires = parse_time(answered["status"]["expirationTimestamp"])
        seconds = answered["spec"]["expirationSeconds"]
        return Token(answered["status"]["token"].encode(), expires, float(seconds))
