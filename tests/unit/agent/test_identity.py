"""Joining a server over real TLS: who is trusted, what is kept, what a person is told."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from cryptography import x509

from shepherd.agent.identity import (
    Identity,
    JoinError,
    JoinToken,
    ensure_identity,
    keep_fresh,
    wait_until_ready,
)
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response
from shepherd.lib.httpd import serve
from shepherd.lib.tasks import cancel_and_wait
from shepherd.server.join import Joining, join_token
from shepherd.server.pki import Pki
from shepherd.store.memory import MemoryStore
from shepherd.testing.virtual import eventually

CLOCK = SystemClock()


@dataclass
class Server:
    pki: Pki
    url: str
    token: str
    seen: list[Request] = field(default_factory=list)
    ready: bool = True

    async def handle(self, request: Request) -> Response:
        self.seen.append(request)
        return Response(200 if self.ready else 500, {}, b"ok")


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki.open(tmp_path_factory.mktemp("server") / "pki", clock=CLOCK)


@pytest.fixture
async def server(pki: Pki, tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(pki, "", join_token(tmp_path / "join-token", pki))
    joining = Joining(pki, server.token, server.handle, MemoryStore())
    listener = await serve(joining.handle, "127.0.0.1", ssl=pki.serving_context())
    server.url = f"https://127.0.0.1:{listener.port}"
    yield server
    await listener.close(0.1)


async def ensure(directory: Path, url: str, token: str, node: str = "n1") -> Identity:
    return await ensure_identity(
        directory,
        url=url,
        node_name=node,
        token=token,
        addresses=["127.0.0.1"],
        clock=CLOCK,
        random=Random(1),
    )


async def test_an_agent_joins_and_is_known_by_its_certificate(
    server: Server, tmp_path: Path
) -> None:
    identity = await ensure(tmp_path / "identity", server.url, server.token)
    transport = HttpTransport(server.url, ssl=identity.client_ssl())
    await Client(transport).raw("GET", "/x")
    await transport.close()
    peer = server.seen[-1].peer
    assert peer is not None
    assert (peer.name, peer.groups) == ("system:node:n1", ("system:nodes",))
    assert (tmp_path / "identity" / "node.key").stat().st_mode & 0o777 == 0o600


async def test_an_identity_is_used_again_without_token_or_server(
    server: Server, tmp_path: Path
) -> None:
    await ensure(tmp_path / "identity", server.url, server.token)
    before = (tmp_path / "identity" / "client.crt").read_bytes()
    await ensure(tmp_path / "identity", "https://127.0.0.1:1", "")
    assert (tmp_path / "identity" / "client.crt").read_bytes() == before
    await ensure(tmp_path / "identity", server.url, server.token, node="n2")
    assert (tmp_path / "identity" / "client.crt").read_bytes() != before


async def test_only_the_server_reaches_the_agents_endpoints(server: Server, tmp_path: Path) -> None:
    identity = await ensure(tmp_path / "identity", server.url, server.token)
    peers = []

    async def handle(request: Request) -> Response:
        peers.append(request.peer.name if request.peer else "")
        return Response(200)

    listener = await serve(handle, "127.0.0.1", ssl=identity.serving_ssl())
    url = f"https://127.0.0.1:{listener.port}"
    ours = HttpTransport(url, ssl=server.pki.node_context())
    await Client(ours).raw("GET", "/healthz")
    assert peers == ["system:shepherd-server"]
    nobody = HttpTransport(url)
    with pytest.raises(ConnectionError):
        await Client(nobody).raw("GET", "/healthz")
    await ours.close()
    await nobody.close()
    await listener.close(0.1)


@pytest.mark.parametrize("token", ["", "x", "shepherd1.abc.def", "shepherd2." + "a" * 64 + ".b"])
async def test_a_bad_token_is_refused_at_once(tmp_path: Path, token: str) -> None:
    with pytest.raises(JoinError, match="join token"):
        await ensure(tmp_path, "https://127.0.0.1:1", token)


async def test_another_server_gets_no_secret(server: Server, tmp_path: Path) -> None:
    token = JoinToken.parse(server.token)
    with pytest.raises(JoinError, match="its CA is another"):
        await ensure(tmp_path, server.url, f"shepherd1.{'0' * 64}.{token.secret}")
    assert not any("authorization" in request.headers for request in server.seen)


async def test_a_wrong_secret_is_told(server: Server, tmp_path: Path) -> None:
    token = JoinToken.parse(server.token)
    with pytest.raises(JoinError, match="refuses the join token"):
        await ensure(tmp_path, server.url, f"shepherd1.{token.ca_hash}.wrong")


async def test_a_name_that_cannot_be_is_told(server: Server, tmp_path: Path) -> None:
    with pytest.raises(JoinError, match=r"does not let node 'Bad_Name' join: .*not a node name"):
        await ensure(tmp_path, server.url, server.token, node="Bad_Name")


async def test_a_server_that_is_not_ready_is_waited_for(server: Server, tmp_path: Path) -> None:
    server.ready = False
    identity = await ensure(tmp_path / "identity", server.url, server.token)
    transport = HttpTransport(server.url, ssl=identity.client_ssl())
    waiting = asyncio.create_task(
        wait_until_ready(Client(transport), server.url, clock=CLOCK, random=Random(1))
    )
    await eventually(lambda: len(server.seen) >= 3)
    assert not waiting.done()
    server.ready = True
    await waiting
    await transport.close()


async def test_certificates_are_renewed_by_what_they_prove(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = await ensure(tmp_path, server.url, server.token)
    before = (tmp_path / "client.crt").read_bytes()
    monkeypatch.setattr(Identity, "renewal_due", lambda self, addresses: CLOCK.now() + 0.05)
    transport = HttpTransport(server.url, ssl=identity.client_ssl())
    renewing = asyncio.create_task(
        keep_fresh(
            identity, Client(transport), addresses=["127.0.0.1"], clock=CLOCK, random=Random(1)
        )
    )
    await eventually(lambda: (tmp_path / "client.crt").read_bytes() != before)
    await cancel_and_wait(renewing)
    await transport.close()


async def test_a_node_that_has_moved_gets_a_certificate_for_its_new_address(
    server: Server, tmp_path: Path
) -> None:
    await ensure(tmp_path, server.url, server.token)
    again = await ensure(tmp_path, server.url, "")
    assert again.renewal_due(["127.0.0.1"]) > CLOCK.now()
    transport = HttpTransport(server.url, ssl=again.client_ssl())
    moved = ["192.0.2.7"]
    renewing = asyncio.create_task(
        keep_fresh(again, Client(transport), addresses=moved, clock=CLOCK, random=Random(1))
    )
    await eventually(lambda: again.renewal_due(moved) > CLOCK.now())
    serving = x509.load_pem_x509_certificate((tmp_path / "serving.crt").read_bytes())
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == moved
    await cancel_and_wait(renewing)
    await transport.close()
