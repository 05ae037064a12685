"""Who an agent is: its key and certificates, got once by the join token, renewed by themselves.

The token is `shepherd1.<SHA-256 of the CA certificate>.<secret>`. The CA comes over a connection
that proves nothing, so its hash must be the token's before the secret is shown to anyone.
"""

import asyncio
import hashlib
import json
import logging
import os
import ssl as tls
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from shepherd.api.errors import ApiError
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.lib.backoff import Backoff
from shepherd.lib.certificates import Workshop
from shepherd.lib.clock import Clock

_log = logging.getLogger("shepherd.agent.identity")

T = TypeVar("T")

_WAIT = Backoff(initial=0.02, cap=5.0, jitter=0.5)
_TOKEN_VERSION = "shepherd1"
_RENEW_AFTER = 2 / 3
"""The part of a certificate's life after which it is renewed."""
_RENEW_BACKOFF = Backoff(initial=60.0, cap=3600.0, jitter=0.5)
_ABOUT, _CA, _KEY, _CLIENT, _SERVING = (
    "identity.json", "ca.crt", "node.key", "client.crt", "serving.crt",
)  # fmt: skip


class JoinError(Exception):
    """The agent cannot become a member. The message is one line: what is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class JoinToken:
    ca_hash: str
    secret: str

    @classmethod
    def parse(cls, text: str) -> "JoinToken":
        """Raises JoinError."""
        version, _, rest = text.strip().partition(".")
        ca_hash, _, secret = rest.partition(".")
        if version != _TOKEN_VERSION or len(ca_hash) != 64 or not secret:
            raise JoinError(
                f"the join token is not of the form {_TOKEN_VERSION}.<hash>.<secret>: take it from "
                "the file join-token in the server's data directory"
            )
        return cls(ca_hash, secret)


class Identity:
    """The agent's key and certificates in a directory of its own, for one node name."""

    def __init__(self, directory: Path, node_name: str) -> None:
        self.directory = directory
        self.node_name = node_name
        self._contexts: list[tuple[tls.SSLContext, str]] = []

    def present(self, now: float) -> bool:
        """There is one for this node that can still be used."""
        about = self._about()
        return about.get("node") == self.node_name and bool(now < about["notAfter"])

    def of_authority(self, ca_hash: str) -> bool:
        return _ca_hash((self.directory / _CA).read_text()) == ca_hash

    def client_ssl(self) -> tls.SSLContext:
        """For reaching the server: trusts the cluster's CA only, and shows the certificate."""
        context = trusting((self.directory / _CA).read_text())
        return self._load(context, _CLIENT)

    def serving_ssl(self) -> tls.SSLContext:
        """For the agent's own endpoints: who calls must show a certificate of the cluster's CA."""
        context = tls.SSLContext(tls.PROTOCOL_TLS_SERVER)
        context.minimum_version = tls.TLSVersion.TLSv1_2
        context.verify_mode = tls.CERT_REQUIRED
        context.load_verify_locations(cadata=(self.directory / _CA).read_text())
        return self._load(context, _SERVING)

    def renewal_due(self, addresses: list[str]) -> float:
        """When it should be renewed, in epoch seconds: now (0) if the node is not at the addresses
        any more that its serving certificate is for."""
        about = self._about()
        if about.get("addresses") != addresses:
            return 0.0
        begin, end = float(about["notBefore"]), float(about["notAfter"])
        return begin + (end - begin) * _RENEW_AFTER

    def store(self, key: str, answer: dict[str, Any], addresses: list[str]) -> None:
        """Take over what a server has issued for a node at `addresses`; contexts in use show it
        from now on."""
        about = {
            "node": self.node_name,
            "addresses": addresses,
            "notBefore": answer["notBefore"],
            "notAfter": answer["notAfter"],
        }
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._write(_KEY, key.encode())
        self._write(_CA, answer["ca"].encode())
        self._write(_CLIENT, answer["certificate"].encode())
        self._write(_SERVING, answer["serving"].encode())
        self._write(_ABOUT, json.dumps(about).encode())
        for context, name in self._contexts:
            context.load_cert_chain(self.directory / name, self.directory / _KEY)

    def _about(self) -> dict[str, Any]:
        try:
            about: dict[str, Any] = json.loads((self.directory / _ABOUT).read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return about

    def _load(self, context: tls.SSLContext, name: str) -> tls.SSLContext:
        context.load_cert_chain(self.directory / name, self.directory / _KEY)
        self._contexts.append((context, name))
        return context

    def _write(self, name: str, data: bytes) -> None:
        path = self.directory / name
        fresh = path.with_suffix(".tmp")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        fresh.replace(path)


def trusting(ca: str) -> tls.SSLContext:
    """A client's context that trusts `ca` (PEM) and nothing else."""
    context = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
    context.minimum_version = tls.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=ca)
    return context


async def ensure_identity(
    directory: Path,
    *,
    url: str,
    node_name: str,
    token: str,
    addresses: list[str],
    clock: Clock,
    random: Random,
) -> Identity:
    """The agent's identity: the one of an earlier start, or a new one got with the join token.

    Waits for a server that is away, for ever. Raises JoinError if this agent cannot join it.
    """
    identity = Identity(directory, node_name)
    parsed = JoinToken.parse(token) if token else None
    if identity.present(clock.now()) and (parsed is None or identity.of_authority(parsed.ca_hash)):
        return identity
    if parsed is None:
        raise JoinError(
            f"this agent has no identity as node {node_name!r} yet: give it the server's join "
            "token with --token or --token-file"
        )
    ca = await _fetch_ca(url, parsed, clock, random)
    transport = HttpTransport(url, ssl=trusting(ca), token=parsed.secret)
    try:
        await _join(Client(transport), identity, addresses, clock, random, url)
    finally:
        await transport.close()
    return identity


async def wait_until_ready(client: Client, url: str, *, clock: Clock, random: Random) -> None:
    """Return once the server at `url` says it is ready; waits for ever and says so once."""

    async def ask() -> None:
        try:
            await client.raw("GET", "/readyz", accept="*/*")
        except ApiError as error:
            raise ConnectionError(f"{url} answers {error.code} on /readyz") from error

    await _patiently(ask, clock, random)


async def keep_fresh(
    identity: Identity,
    client: Client,
    *,
    addresses: list[str],
    clock: Clock,
    random: Random,
) -> None:
    """Renew the certificates long before they expire, and when the node has moved to other
    addresses, with what they prove; never returns."""
    failures = 0
    while True:
        due = max(0.0, identity.renewal_due(addresses) - clock.now())
        await clock.sleep(max(due, _RENEW_BACKOFF.delay(failures, random)))
        try:
            await _order(client, identity, addresses)
            failures = 0
            _log.info("renewed the certificates of node %s", identity.node_name)
        except (ConnectionError, ApiError) as error:
            failures += 1
            _log.warning("cannot renew the certificates of node %s: %s", identity.node_name, error)


async def _fetch_ca(url: str, token: JoinToken, clock: Clock, random: Random) -> str:
    unverified = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = tls.CERT_NONE
    transport = HttpTransport(url, ssl=unverified)
    client = Client(transport)

    async def fetch() -> bytes:
        return await client.raw("GET", "/cacerts", accept="*/*")

    try:
        ca = (await _patiently(fetch, clock, random)).decode()
        found = _ca_hash(ca)
    except (ApiError, ValueError) as error:
        raise JoinError(f"{url} is not a Shepherd server: /cacerts gave {error}") from error
    finally:
        await transport.close()
    if found != token.ca_hash:
        raise JoinError(
            f"the server at {url} is not the one that the join token is for (its CA is another): "
            "take the token from this server's data directory"
        )
    return ca


async def _join(
    client: Client,
    identity: Identity,
    addresses: list[str],
    clock: Clock,
    random: Random,
    url: str,
) -> None:
    async def order() -> None:
        await _order(client, identity, addresses)

    try:
        await _patiently(order, clock, random)
    except ApiError as error:
        if error.code == 401:
            raise JoinError(
                f"the server at {url} refuses the join token: take it from the file join-token in "
                "the server's data directory"
            ) from error
        raise JoinError(
            f"the server at {url} does not let node {identity.node_name!r} join: {error.message}"
        ) from error
    _log.info("joined %s as node %s", url, identity.node_name)


async def _order(client: Client, identity: Identity, addresses: list[str]) -> None:
    key, request = await asyncio.to_thread(_make_request, identity.node_name)
    body = {"node": identity.node_name, "csr": request, "addresses": addresses}
    answer = await client.raw(
        "POST",
        "/shepherd/v1/join",
        body=json.dumps(body).encode(),
        content_type="application/json",
    )
    identity.store(key, json.loads(answer), addresses)


def _make_request(node_name: str) -> tuple[str, str]:
    """A new key and a signing request for it, in PEM."""
    with Workshop() as workshop:
        return workshop.new_request(f"system:node:{node_name}")


def _ca_hash(pem: str) -> str:
    """SHA-256 of the (first) certificate in DER. Raises ValueError."""
    return hashlib.sha256(tls.PEM_cert_to_DER_cert(pem)).hexdigest()


async def _patiently(attempt: Callable[[], Awaitable[T]], clock: Clock, random: Random) -> T:
    """Try until the server can be reached; say once that and why it cannot."""
    failures = 0
    while True:
        try:
            return await attempt()
        except ConnectionError as error:
            failures += 1
            if failures == 1:
                _log.info("waiting for the server: %s", error)
            await clock.sleep(_WAIT.delay(failures, random))
