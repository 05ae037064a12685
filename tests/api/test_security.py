"""Over TLS: who gets in, who does not, and how an agent becomes a member."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from shepherd.agent.identity import Identity, JoinError, ensure_identity, keep_fresh
from shepherd.api.errors import ApiError
from shepherd.api.kinds import LEASE, NODE, POD, SECRET
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.client.kubeconfig import Kubeconfig, read_kubeconfig, write_kubeconfig
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response
from shepherd.lib.httpd import serve
from shepherd.lib.tasks import cancel_and_wait
from shepherd.server.app import ApiServer
from shepherd.server.auth import CredentialAuthenticator
from shepherd.server.authorization.chain import authorizer
from shepherd.server.config import ServerConfig
from shepherd.server.join import Joining, join_token
from shepherd.server.pki import Pki
from shepherd.server.tokens import ServiceAccountTokens
from shepherd.store.memory import MemoryStore
from shepherd.testing.virtual import VirtualClock, eventually


@dataclass
class Cluster:
    """A server on a socket, with TLS."""

    url: str
    pki: Pki
    token: str

    def client(self, config: Kubeconfig) -> Client:
        return Client(HttpTransport(config.server, ssl=config.ssl_context(), token=config.token))

    def config(self, certificate: str = "", key: str = "", token: str = "") -> Kubeconfig:
        return Kubeconfig(self.url, ca=self.pki.ca, certificate=certificate, key=key, token=token)

    async def status(self, path: str, config: Kubeconfig) -> int:
        transport = HttpTransport(self.url, ssl=config.ssl_context(), token=config.token)
        response = await transport.send(Request("GET", path))
        await transport.close()
        return response.status


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    clock, random, store = SystemClock(), Random(1), MemoryStore()
    pki = Pki.open(tmp_path / "pki", clock=clock)
    accounts = ServiceAccountTokens(pki.service_account_key, clock, random)
    api = ApiServer(
        store,
        config=ServerConfig(),
        clock=clock,
        random=random,
        authenticator=CredentialAuthenticator(store, accounts=accounts),
        authorizer=authorizer(store),
    )
    await api.start()
    token = join_token(tmp_path / "join-token", pki)
    handler = Joining(pki, token, api.handle, store).handle
    httpd = await serve(handler, "127.0.0.1", 0, ssl=pki.serving_context())
    yield Cluster(f"https://127.0.0.1:{httpd.port}", pki, token)
    await httpd.close(1)


async def join(cluster: Cluster, directory: Path, token: str) -> Identity:
    """Become a member, as an agent does."""
    return await ensure_identity(
        directory,
        url=cluster.url,
        node_name="n1",
        token=token,
        addresses=["127.0.0.1"],
        clock=SystemClock(),
        random=Random(1),
    )


async def test_the_admin_kubeconfig_opens_everything(cluster: Cluster, tmp_path: Path) -> None:
    admin = cluster.pki.admin
    write_kubeconfig(tmp_path / "kubeconfig", cluster.config(admin.certificate, admin.key))
    client = cluster.client(read_kubeconfig([tmp_path / "kubeconfig"]))
    secret = {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"a": "b"}}
    assert (await client.create(SECRET, secret))["metadata"]["uid"]
    await client.transport.close()


async def test_strangers_see_health_and_version_only(cluster: Cluster) -> None:
    stranger = cluster.config()
    for path in ("/healthz", "/livez", "/readyz", "/version", "/cacerts"):
        assert await cluster.status(path, stranger) == 200
    for path in ("/api", "/api/v1/secrets", "/apis/apps/v1/deployments", "/openapi/v3"):
        assert await cluster.status(path, stranger) == 401


async def test_a_bad_token_opens_nothing(cluster: Cluster) -> None:
    for token in ("wrong", cluster.token, cluster.token.split(".")[2]):
        for path in ("/api/v1/pods", "/version"):
            assert await cluster.status(path, cluster.config(token=token)) == 401


async def test_a_client_certificate_of_another_cluster_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    other = Pki.open(tmp_path / "other", clock=SystemClock()).admin
    with pytest.raises(ConnectionError):
        await cluster.status("/api/v1/pods", cluster.config(other.certificate, other.key))


async def test_a_server_of_another_cluster_is_not_trusted(cluster: Cluster, tmp_path: Path) -> None:
    other = Pki.open(tmp_path / "other", clock=SystemClock())
    with pytest.raises(ConnectionError, match="not trusted"):
        await cluster.status("/version", Kubeconfig(cluster.url, ca=other.ca))


async def test_plain_http_gets_no_answer_from_the_tls_port(cluster: Cluster) -> None:
    with pytest.raises(ConnectionError):
        await cluster.status("/version", Kubeconfig(cluster.url.replace("https", "http")))


async def test_a_joined_agent_does_a_nodes_work_and_no_more(
    cluster: Cluster, tmp_path: Path
) -> None:
    identity = await join(cluster, tmp_path / "agent", cluster.token)
    client = Client(HttpTransport(cluster.url, ssl=identity.client_ssl()))
    await client.create(NODE, {"metadata": {"name": "n1"}})
    await client.patch(NODE, "n1", None, {"status": {"phase": "Running"}}, sub="status")
    lease = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}}
    await client.create(LEASE, lease)
    assert (await client.list(POD, field_selector="spec.nodeName=n1")).items == []
    forbidden = [
        client.create(NODE, {"metadata": {"name": "n2"}}),
        client.create(LEASE, lease | {"metadata": lease["metadata"] | {"name": "n2"}}),
        client.list(SECRET),
        client.delete(NODE, "n1"),
    ]
    for attempt in forbidden:
        with pytest.raises(ApiError) as caught:
            await attempt
        assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    await client.transport.close()


async def test_a_join_token_with_another_secret_or_ca_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    version, ca_hash, secret = cluster.token.split(".")
    for token in (f"{version}.{ca_hash}.wrong", f"{version}.{'0' * 64}.{secret}"):
        with pytest.raises(JoinError, match="take"):
            await join(cluster, tmp_path / "agent", token)


async def test_an_agent_renews_its_certificate_with_the_old_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    identity = await join(cluster, tmp_path / "agent", cluster.token)
    client = Client(HttpTransport(cluster.url, ssl=identity.client_ssl()))
    first = identity.renewal_due([])
    due = VirtualClock(epoch=first)
    renewing = asyncio.create_task(
        keep_fresh(identity, client, addresses=[], clock=due, random=Random(1))
    )
    await eventually(lambda: identity.renewal_due([]) != first)
    await cancel_and_wait(renewing)
    await client.transport.close()
    renewed = Client(HttpTransport(cluster.url, ssl=identity.client_ssl()))
    assert (await renewed.list(POD, field_selector="spec.nodeName=n1")).items == []
    await renewed.transport.close()


async def test_the_server_reaches_the_agents_endpoint_and_no_stranger_does(
    cluster: Cluster, tmp_path: Path
) -> None:
    identity = await join(cluster, tmp_path / "agent", cluster.token)

    async def endpoint(request: Request) -> Response:
        assert request.peer
        return Response(200, body=request.peer.name.encode())

    httpd = await serve(endpoint, "127.0.0.1", 0, ssl=identity.serving_ssl())
    url = f"https://127.0.0.1:{httpd.port}"
    server = HttpTransport(url, ssl=cluster.pki.node_context())
    response = await server.send(Request("GET", "/pods"))
    assert response.body == b"system:shepherd-server"
    stranger = HttpTransport(url, ssl=cluster.config().ssl_context())
    with pytest.raises(ConnectionError):
        await stranger.send(Request("GET", "/pods"))
    for transport in (server, stranger):
        await transport.close()
    await httpd.close(1)
