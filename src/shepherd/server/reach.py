"""Connections of the server to what users run: webhooks, and API servers behind this one.

They are reached over TLS only: a Service at one of its ready endpoints, whose certificate must be
of `<service>.<namespace>.svc`. Source: apiserver pkg/util/webhook; kube-aggregator pkg/apiserver.
"""

import base64
import binascii
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from shepherd.client.http import HttpTransport
from shepherd.server import backends
from shepherd.store.base import Store

_KEPT = 32
"""Places whose connections stay open."""
_CONNECTIONS = 32
"""To each of them."""

Prove = Callable[[ssl.SSLContext], None]
"""Adds the certificate by which the server proves itself."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What both sides of a connection must prove."""

    bundle: str = ""
    """The other side's authority: PEM in base64. Empty: those that the machine trusts."""
    unverified: bool = False
    """The other side may be anybody."""
    proven: bool = False
    """The server shows its certificate of a front proxy."""


class Reach:
    """Keeps connections to the places that were used last."""

    def __init__(self, store: Store, random: Random, prove: Prove | None = None) -> None:
        self._store = store
        self._random = random
        self._prove = prove
        self._transports: OrderedDict[tuple[str, str, Trust], HttpTransport] = OrderedDict()
        self._contexts: OrderedDict[Trust, ssl.SSLContext] = OrderedDict()

    async def service(self, namespace: str, name: str, port: int, trust: Trust) -> HttpTransport:
        """To an endpoint behind a service's port. Raises ApiError 404, 503 if there is none, and
        ConnectionError for a bundle that is none."""
        host, number = await backends.choose(self._store, self._random, namespace, name, str(port))
        origin = f"https://{backends.bracketed(host)}:{number}"
        return await self.origin(origin, f"{name}.{namespace}.svc", trust)

    async def origin(self, origin: str, name: str, trust: Trust) -> HttpTransport:
        """To `https://host:port`, whose certificate must be of `name`. Raises ConnectionError."""
        key = (origin, name, trust)
        transport = self._transports.get(key)
        if transport is None:
            transport = HttpTransport(
                origin, ssl=self._context(trust), server_name=name, connections=_CONNECTIONS
            )
            self._transports[key] = transport
            if len(self._transports) > _KEPT:
                _, oldest = self._transports.popitem(last=False)
                await oldest.close()
        self._transports.move_to_end(key)
        return transport

    async def close(self) -> None:
        for transport in self._transports.values():
            await transport.close()

    def _context(self, trust: Trust) -> ssl.SSLContext:
        context = self._contexts.get(trust)
        if context is None:
            context = self._contexts[trust] = self._new_context(trust)
            if len(self._contexts) > _KEPT:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(trust)
        return context

    def _new_context(self, trust: Trust) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=_pem(trust.bundle))
        if trust.unverified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if trust.proven and self._prove:
            self._prove(context)
        return context


def _pem(bundle: str) -> str | None:
    if not bundle:
        return None
    try:
        return base64.b64decode(bundle).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConnectionError(f"caBundle is not PEM: {error}") from None
