"""How an agent becomes a member: `GET /cacerts` and `POST /shepherd/v1/join`.

A join token is `shepherd1.<SHA-256 of the CA's certificate>.<secret>`. The agent fetches the CA
without trusting the connection, compares its hash with the token's, and only then, over a
connection verified by that CA, shows the secret. So neither side is taken on trust.
"""

import asyncio
import hmac
import ipaddress
import secrets
from pathlib import Path
from typing import Any

import msgspec

from shepherd.api import errors, names
from shepherd.api.kinds import NODE
from shepherd.api.meta import object_key
from shepherd.lib.certificates import RequestError
from shepherd.lib.files import write_private
from shepherd.lib.http import Handler, Request, Response
from shepherd.server.auth import NODE_USER_PREFIX, NODES_GROUP
from shepherd.server.codec import decode
from shepherd.server.pki import Pki
from shepherd.store.base import Store

CA_PATH = "/cacerts"
JOIN_PATH = "/shepherd/v1/join"
_VERSION = "shepherd1"
_MOST_ADDRESSES = 32
_LONGEST_NODE = 64 - len(NODE_USER_PREFIX)
"""A certificate's common name has at most 64 characters (RFC 5280, ub-common-name)."""


def join_token(path: Path, pki: Pki) -> str:
    """The token that the file holds; made, or brought up to date with the CA, if need be."""
    kept = path.read_text().strip() if path.exists() else ""
    secret = kept.rpartition(".")[2] or secrets.token_hex(16)
    token = f"{_VERSION}.{pki.ca_hash}.{secret}"
    if token != kept:
        write_private(path, token + "\n")
    return token


class _Order(msgspec.Struct):
    """What an agent asks for."""

    node: str
    csr: str
    addresses: list[str] = msgspec.field(default_factory=list)


class Joining:
    """A handler for the two paths, in front of the API's (`then`), which gets all others."""

    def __init__(self, pki: Pki, token: str, then: Handler, store: Store) -> None:
        self._pki = pki
        self._store = store
        self._secret = token.rpartition(".")[2]
        self._then = then

    async def handle(self, request: Request) -> Response:
        if request.path not in (CA_PATH, JOIN_PATH):
            return await self._then(request)
        try:
            if request.path == JOIN_PATH:
                return await self._join(request)
            if request.method != "GET":
                raise errors.method_not_allowed(request.method)
            return Response(200, {"content-type": "application/x-pem-file"}, self._pki.ca.encode())
        except errors.ApiError as error:
            return _json(error.status(), error.code)

    async def _join(self, request: Request) -> Response:
        if request.method != "POST":
            raise errors.method_not_allowed(request.method)
        order = self._order(request)
        if not _is_member(request):
            await self._check_name(order.node)
        try:
            made = await asyncio.to_thread(
                self._pki.sign_node, order.node, order.csr, order.addresses
            )
        except RequestError as error:
            raise errors.bad_request(f"csr: {error}") from error
        return _json(
            {
                "certificate": made.client,
                "serving": made.serving,
                "notBefore": made.not_before,
                "notAfter": made.not_after,
                "ca": self._pki.ca,
            }
        )

    def _order(self, request: Request) -> _Order:
        """The order, if who sent it may give it: with the secret, or as that node itself."""
        member = _is_member(request)
        if not member and not self._knows_secret(request):
            raise errors.unauthorized(
                "the join token is not this cluster's: use the one in the server's data directory"
            )
        try:
            order = msgspec.json.decode(request.body, type=_Order)
        except msgspec.DecodeError as error:
            raise errors.bad_request(f"the body is not a join request: {error}") from None
        if member and request.peer and request.peer.name != NODE_USER_PREFIX + order.node:
            raise errors.forbidden(
                "", "nodes", order.node, f'"{request.peer.name}" can only renew its own certificate'
            )
        _check(order)
        return order

    async def _check_name(self, name: str) -> None:
        """Two agents of one name would undo each other's work. Raises ApiError 409 while the first
        is alive: until the node lifecycle controller has missed it, or its node is deleted."""
        item = await self._store.get(object_key(NODE, "", name))
        if item is None:
            return
        status = decode(item.value).get("status") or {}
        ready = {c["type"]: c["status"] for c in status.get("conditions") or ()}.get("Ready")
        if ready in ("True", "False"):
            where = ", ".join(a["address"] for a in status.get("addresses") or ())
            raise errors.conflict(
                "",
                "nodes",
                name,
                f"a node of this name is here and its agent is alive (at {where}). Give this "
                "machine another name with --node-name; if it replaces that one, stop the old "
                f"agent, remove its node by `kubectl delete node {name}`, and start again",
            )

    def _knows_secret(self, request: Request) -> bool:
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            shown.strip().encode(), self._secret.encode()
        )


def _is_member(request: Request) -> bool:
    """Whether the request comes with a node's certificate."""
    return request.peer is not None and NODES_GROUP in request.peer.groups


def _check(order: _Order) -> None:
    """Raises ApiError."""
    if problems := names.dns1123_subdomain(order.node):
        raise errors.bad_request(f"node {order.node!r} is not a node name: {problems[0]}")
    if len(order.node) > _LONGEST_NODE:
        raise errors.bad_request(f"node {order.node!r} is longer than {_LONGEST_NODE} characters")
    if len(order.addresses) > _MOST_ADDRESSES:
        raise errors.bad_request(f"addresses: at most {_MOST_ADDRESSES}")
    for address in order.addresses:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise errors.bad_request(f"addresses: {address!r} is not an IP address") from None


def _json(value: Any, code: int = 200) -> Response:
    return Response(code, {"content-type": "application/json"}, msgspec.json.encode(value))
