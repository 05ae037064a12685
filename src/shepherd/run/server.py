"""The server half: store, API, scheduler and controllers in one process.

The scheduler and the controllers are clients like any other; they only spare the socket.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any

from shepherd.client.kubeconfig import Kubeconfig, write_kubeconfig
from shepherd.client.transport import InProcessTransport
from shepherd.controllers.manager import ControllerConfig
from shepherd.lib.clock import SystemClock
from shepherd.lib.httpd import serve
from shepherd.lib.machine import listen, own_address
from shepherd.lib.tasks import background
from shepherd.run import memory
from shepherd.run.config import Address, Config, StartError
from shepherd.run.dialer import SocketDialer
from shepherd.run.loops import controllers, scheduler
from shepherd.server.app import ApiServer
from shepherd.server.auth import (
    Authenticator,
    CredentialAuthenticator,
    InsecureAuthenticator,
    read_token_file,
)
from shepherd.server.authorization.chain import authorizer
from shepherd.server.config import ServerConfig
from shepherd.server.join import Joining, join_token
from shepherd.server.pki import Pki, PkiError
from shepherd.server.proxy import streams_body
from shepherd.server.signing import CertificateSigner
from shepherd.server.tokens import ServiceAccountTokens
from shepherd.store.base import Store, StoreOpenError
from shepherd.store.sqlite import SqliteStore

logger = logging.getLogger("shepherd.run")

_CLOCK, _RANDOM = SystemClock(), SystemRandom()
DRAIN_SECONDS = 5.0
"""How long requests in flight may take to end when the server stops."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that answers."""

    address: Address
    """How a program on this machine reaches it."""
    token: str
    """With which agents join; empty with --insecure."""


async def run_server(config: Config, stop: asyncio.Event) -> None:
    """`--mode server`: serve until `stop` is set."""
    async with serving(config):
        memory.settle()
        await stop.wait()


@asynccontextmanager
async def serving(config: Config) -> AsyncIterator[Serving]:
    """Serve while the context lasts; then drain the API, end the loops and close the store.

    Raises StartError.
    """
    sock = _listen(config.addr)
    address, port = sock.getsockname()[:2]
    bound = Address(config.addr.host and address, port)
    _make_directory(config.data_dir)
    store = await _open_store(config.data_dir)
    try:
        pki = None if config.insecure else _open_pki(config, bound)
        token = join_token(config.data_dir / "join-token", pki) if pki else ""
        tokens = _tokens(pki) if pki else None
        dialer = SocketDialer(pki.node_context() if pki else None)
        api = ApiServer(
            store,
            config=_server_config(config, bound),
            clock=_CLOCK,
            random=_RANDOM,
            authenticator=_authenticator(config, store, tokens),
            authorizer=authorizer(store),
            dialer=dialer,
            tokens=tokens,
            signer=CertificateSigner(pki) if pki else None,
            front_proxy=pki,
        )
        await api.start()
        async with background(*_loops(config, api, pki, bound)):
            httpd = await serve(
                Joining(pki, token, api.handle, store).handle if pki else api.handle,
                sock=sock,
                ssl=pki.serving_context() if pki else None,
                streamed=streams_body,
            )
            _write_kubeconfig(config, bound, pki)
            logger.info("serving on %s, kubeconfig in %s", bound, config.data_dir / "kubeconfig")
            try:
                yield Serving(bound.local, token)
            finally:
                await httpd.close(DRAIN_SECONDS)
        await dialer.close()
    finally:
        await store.close()


def _listen(address: Address) -> socket.socket:
    try:
        return listen(address.host, address.port)
    except OSError as error:
        cause = error.strerror
        if error.errno == errno.EADDRINUSE:
            cause = "the address is in use"
        elif error.errno == errno.EADDRNOTAVAIL:
            cause = "this machine has no such address"
        raise StartError(
            f"cannot listen on {address}: {cause}; choose another with --addr"
        ) from error


async def _open_store(data_dir: Path) -> SqliteStore:
    try:
        return await SqliteStore.open(data_dir / "shepherd.db", clock=_CLOCK)
    except StoreOpenError as error:
        raise StartError(str(error)) from error


def _make_directory(data_dir: Path) -> None:
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        message = f"--data-dir {str(data_dir)!r} cannot be used: {error.strerror}"
        raise StartError(message) from error


def _open_pki(config: Config, bound: Address) -> Pki:
    service = _server_config(config, bound).kubernetes_address
    names = (config.addr.host, bound.host, config.node_ip)
    hosts = (socket.gethostname(), own_address(), *names, service)
    try:
        return Pki.open(config.data_dir / "pki", clock=_CLOCK, hosts=hosts)
    except PkiError as error:
        raise StartError(str(error)) from error


def _server_config(config: Config, bound: Address) -> ServerConfig:
    return ServerConfig(
        pod_cidr=config.pod_cidr,
        service_cidr=config.service_cidr,
        advertise_address=_reachable(config, bound),
        advertise_port=bound.port,
        pod_tokens=not config.insecure,
    )


def _reachable(config: Config, bound: Address) -> str:
    """The address by which pods, which speak IPv4, reach the API; empty when they cannot."""
    if bound.loopback:
        # The rules of services bring the pods of this machine to its own loopback addresses; a
        # server that asks nobody for proof is not for them.
        return "" if config.insecure or ":" in bound.host else "127.0.0.1"
    address = (config.node_ip or own_address()) if bound.everywhere else bound.host
    return "" if ":" in address else address


def _tokens(pki: Pki) -> ServiceAccountTokens:
    return ServiceAccountTokens(pki.service_account_key, clock=_CLOCK, random=_RANDOM)


def _authenticator(
    config: Config, store: Store, tokens: ServiceAccountTokens | None
) -> Authenticator:
    if tokens is None:
        return InsecureAuthenticator()
    static = {}
    if config.token_auth_file:
        try:
            static = read_token_file(config.token_auth_file)
        except (OSError, ValueError) as error:
            raise StartError(f"--token-auth-file cannot be used: {error}") from error
    return CredentialAuthenticator(store, accounts=tokens, static=static)


def _loops(
    config: Config, api: ApiServer, pki: Pki | None, bound: Address
) -> list[Coroutine[Any, Any, None]]:
    """What runs beside the API."""
    settings = ControllerConfig(pod_cidr=config.pod_cidr, ca=pki.ca if pki else "")
    connect = partial(InProcessTransport, api.handle)
    loops = [
        api.run(),
        memory.keep_trim(),
        scheduler(connect, clock=_CLOCK, random=_RANDOM).run(),
        controllers(connect, clock=_CLOCK, random=_RANDOM, config=settings).run(),
    ]
    if pki:

        async def renewed() -> None:
            try:
                _write_kubeconfig(config, bound, pki)
            except OSError as error:
                logger.warning("the kubeconfig keeps its old certificate: %s", error)

        loops.append(pki.run(renewed))
    return loops


def _write_kubeconfig(config: Config, bound: Address, pki: Pki | None) -> None:
    kubeconfig = Kubeconfig(server=f"http://{bound.local}")
    if pki:
        kubeconfig = Kubeconfig(
            server=f"https://{bound.local}",
            ca=pki.ca,
            certificate=pki.admin.certificate,
            key=pki.admin.key,
        )
    write_kubeconfig(config.data_dir / "kubeconfig", kubeconfig)
