"""The cluster's own certificates: made at the first start, renewed unattended.

Each file holds a certificate, its key and, in front, lines that say what it was made for and until
when; so a start reads whether all is well without parsing a certificate (which would need a
library that takes more memory than all the rest), and certificate and key can never be of different
ages.

There are three authorities. `ca` signs the API's serving certificate and all client certificates.
`nodes-ca` signs what the nodes' own endpoints serve with, and only the server trusts it: so no
node, whatever addresses it claims at join, can pass for the API. `front-proxy-ca` signs the one
certificate that lets the server speak for users to API servers behind it, and nobody else's.
"""

import hashlib
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from shepherd.api.meta import format_time, parse_time
from shepherd.lib.certificates import Requested, Subject, Workshop
from shepherd.lib.clock import Clock
from shepherd.lib.files import write_private
from shepherd.server.auth import ADMIN_GROUP, NODE_USER_PREFIX, NODES_GROUP

HOSTS = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
"""What every API server answers to."""

_DAY = 24 * 3600.0
_CA_SECONDS = 3650 * _DAY
_LEAF_SECONDS = 365 * _DAY
_RENEW_SECONDS = 120 * _DAY
"""A certificate with less than this to go is made anew."""
_CHECK_SECONDS = _DAY / 2
_BEGIN = "-----BEGIN "
_END_CERTIFICATE = "-----END CERTIFICATE-----\n"
_END_KEY = "-----END PRIVATE KEY-----"


log = logging.getLogger("shepherd.pki")


class PkiError(Exception):
    """The directory cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, in PEM."""

    certificate: str
    key: str


@dataclass(frozen=True, slots=True)
class NodeCertificates:
    """What a node gets, in PEM, and from when until when it is valid (epoch seconds)."""

    client: str
    serving: str
    not_before: float
    not_after: float


class Pki:
    """The certificates in one directory; `open` makes what is missing or about to expire."""

    def __init__(self, directory: Path, *, clock: Clock, hosts: Iterable[str]) -> None:
        self._directory = directory
        self._clock = clock
        # A certificate holds no names beyond ASCII, so nobody could ask for them.
        usable = (host for host in hosts if host and host.isascii())
        self._hosts = tuple(dict.fromkeys((*HOSTS, *usable)))
        self._contexts: list[tuple[ssl.SSLContext, str]] = []

    @classmethod
    def open(cls, directory: Path, *, clock: Clock, hosts: Iterable[str] = ()) -> "Pki":
        """Take over `directory`. `hosts` are further names and addresses that the API has.

        Raises PkiError.
        """
        pki = cls(directory, clock=clock, hosts=hosts)
        try:
            with Workshop() as workshop:
                pki._make_what_stays(workshop)
                pki._renew(workshop)
        except OSError as error:
            raise PkiError(f"cannot use {error.filename or directory}: {error.strerror}") from error
        return pki

    @property
    def ca(self) -> str:
        """The certificate by which clients know the API, in PEM."""
        return self._identity("ca").certificate

    @property
    def ca_hash(self) -> str:
        """SHA-256 of that certificate in DER: how a join token names it."""
        return _fingerprint(self.ca)

    @property
    def admin(self) -> Identity:
        """The administrator's client certificate."""
        return self._identity("admin")

    @property
    def service_account_key(self) -> bytes:
        """The secret that signs service account tokens."""
        return bytes.fromhex((self._directory / "service-account.key").read_text())

    def serving_context(self) -> ssl.SSLContext:
        """TLS for the API. Clients may show a certificate; what they show must be of our CA."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.ca)
        return self._load(context, "serving")

    def node_context(self) -> ssl.SSLContext:
        """TLS for calling the nodes' own endpoints, as the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self._identity("nodes-ca").certificate)
        return self._load(context, "server")

    def prove(self, context: ssl.SSLContext) -> None:
        """Show the front proxy's certificate in connections of that context."""
        self._load(context, "front-proxy-client")

    @property
    def authorities(self) -> dict[str, str]:
        """What API servers behind this one trust (`config.FrontProxy`)."""
        return {
            "client-ca-file": self.ca,
            "requestheader-client-ca-file": self._identity("front-proxy-ca").certificate,
        }

    def sign_node(self, node: str, request: str, hosts: Iterable[str]) -> NodeCertificates:
        """The certificates of a node, for the key of its signing request. Blocks.

        Raises `certificates.RequestError`.
        """
        user = NODE_USER_PREFIX + node
        client = Subject(user, (NODES_GROUP,))
        serving = Subject(user, (NODES_GROUP,), (node, *hosts))
        now, expires = self._period(_LEAF_SECONDS)
        with Workshop() as workshop:
            return NodeCertificates(
                workshop.sign_request(self._read("ca"), request, client, now, expires),
                workshop.sign_request(self._read("nodes-ca"), request, serving, now, expires),
                now,
                expires,
            )

    def sign(
        self,
        authority: str,
        request: str,
        judge: Callable[[Requested], Subject],
        seconds: float | None = None,
    ) -> str:
        """A certificate of `ca` or `nodes-ca` for whom `judge` makes of what a request asks.

        Valid for `seconds`, and for a year at most. Blocks. Raises `certificates.RequestError`,
        and whatever `judge` does.
        """
        now, expires = self._period(min(seconds or _LEAF_SECONDS, _LEAF_SECONDS))
        with Workshop() as workshop:
            subject = judge(workshop.read_request(request))
            return workshop.sign_request(self._read(authority), request, subject, now, expires)

    def renew(self) -> bool:
        """Make anew what is missing, for other hosts, of another authority or about to expire.

        Contexts given out before serve new connections with the new certificates. True if any was.
        """
        with Workshop() as workshop:
            return self._renew(workshop)

    def _renew(self, workshop: Workshop) -> bool:
        masters = (ADMIN_GROUP,)
        wanted = {
            "serving": Subject("shepherd-server", (), self._hosts),
            "server": Subject("system:shepherd-server", masters),
            "admin": Subject("shepherd-admin", masters),
            "front-proxy-client": Subject("front-proxy-client"),
        }
        stale = [name for name, subject in wanted.items() if not self._good(name, subject.hosts)]
        for name in stale:
            self._issue(workshop, name, wanted[name])
        for context, name in self._contexts:
            if name in stale:
                context.load_cert_chain(self._path(name))
        return bool(stale)

    async def run(self, renewed: Callable[[], Awaitable[None]]) -> None:
        """Keep the certificates fresh for ever, and tell `renewed` when some have changed."""
        while True:
            await self._clock.sleep(_CHECK_SECONDS)
            try:
                changed = self.renew()
            except OSError as error:
                log.warning("certificates not renewed, will try again: %s", error)
                continue
            if changed:
                await renewed()

    def _load(self, context: ssl.SSLContext, name: str) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._path(name))
        self._contexts.append((context, name))
        return context

    def _make_what_stays(self, workshop: Workshop) -> None:
        from_now = self._period(_CA_SECONDS)
        for name in ("ca", "nodes-ca", "front-proxy-ca"):
            title = f"shepherd-{name}"
            if not self._path(name).exists():
                write_private(self._path(name), workshop.new_authority(title, *from_now))
            elif not _is_whole(self._read(name)):
                raise PkiError(
                    f"{self._path(name)} is damaged: restore it from a backup, or remove "
                    f"{self._directory} for a new authority, which all agents must then join anew"
                )
        key = self._directory / "service-account.key"
        if not key.exists():
            write_private(key, secrets.token_hex(32) + "\n")

    def _good(self, name: str, hosts: tuple[str, ...]) -> bool:
        """Whether a certificate is as wanted and will be for a while, by the lines before it."""
        if not self._path(name).exists() or not _is_whole(text := self._read(name)):
            return False
        head = text[: text.index(_BEGIN)]
        made = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
        return (
            made.get("Issuer") == _fingerprint(self._identity(_authority(name)).certificate)
            and made.get("Hosts", "") == ",".join(hosts)
            and parse_time(made["Expires"]) - self._clock.now() > _RENEW_SECONDS
        )

    def _issue(self, workshop: Workshop, name: str, subject: Subject) -> None:
        now, expires = self._period(_LEAF_SECONDS)
        authority = _authority(name)
        bundle = workshop.issue(self._read(authority), subject, now, expires)
        issuer = _fingerprint(self._identity(authority).certificate)
        head = f"Issuer: {issuer}\nExpires: {format_time(expires)}\n"
        if subject.hosts:
            head += f"Hosts: {','.join(subject.hosts)}\n"
        write_private(self._path(name), head + bundle)

    def _period(self, seconds: float) -> tuple[float, float]:
        now = self._clock.now()
        return now, now + seconds

    def _identity(self, name: str) -> Identity:
        text = self._read(name)
        certificate, end, key = text[text.index(_BEGIN) :].partition(_END_CERTIFICATE)
        return Identity(certificate + end, key)

    def _read(self, name: str) -> str:
        return self._path(name).read_text()

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.pem"


def _authority(name: str) -> str:
    """Which authority signs the certificate of that name."""
    return "front-proxy-ca" if name.startswith("front-proxy") else "ca"


def _is_whole(text: str) -> bool:
    return text.count(_BEGIN) == 2 and text.rstrip().endswith(_END_KEY)


def _fingerprint(certificate: str) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()
