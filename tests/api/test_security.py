"""Over TLS: who gets in, who does not, and how an agent becomes a member."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from shepherd.api.errors import ApiError
from shepherd.api.kinds import LEASE, NODE, POD, SECRET
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.client.kubeconfig import Kubeconfig, read_kubeconfig, write_kubeconfig
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request
from shepherd.lib.httpd import serve
from shepherd.server.app import ApiServer
from shepherd.server.auth import CredentialAuthenticator
from shepherd.server.authorization import BuiltinAuthorizer
from shepherd.server.config import ServerConfig
from shepherd.server.join import Joining, join_token
from shepherd.server.pki import Pki
from shepherd.server.tokens import ServiceAccountTokens
from shepherd.store.memory import MemoryStore


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
        authorizer=BuiltinAuthorizer(store),
    )
    await api.start()
    token = join_token(tmp_path / "join-token", pki)
    handler = Joining(pki, token, api.handle).handle
    httpd = await serve(handler, "127.0.0.1", 0, ssl=pki.serving_context())
    yield Cluster(f"https://127.0.0.1:{httpd.port}", pki, token)
    await httpd.close(1)


def new_key() -> tuple[str, str]:
    """A signing request and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return request.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode(), pem.decode()


async def joined(cluster: Cluster, node: str) -> Kubeconfig:
    """What a new agent knows after its join."""
    csr, key = new_key()
    client = cluster.client(cluster.config(token=cluster.token.split(".")[2]))
    body = json.dumps({"node": node, "csr": csr, "addresses": ["127.0.0.1"]}).encode()
    answer = json.loads(await client.raw("POST", "/shepherd/v1/join", body=body))
    await client.transport.close()
    return cluster.config(answer["certificate"], key)


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


async def test_a_joined_agent_does_a_nodes_work_and_no_more(cluster: Cluster) -> None:
    client = cluster.client(await joined(cluster, "n1"))
    await client.create(NODE, {"metadata": {"name": "n1"}})
    await client.patch(NODE, "n1", None, {"status": {"phase": "Running"}}, sub="status")
    lease = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}}
    await client.create(LEASE, lease)
    assert (await client.list(POD)).items == []
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


async def test_a_join_without_the_secret_is_refused(cluster: Cluster) -> None:
    body = json.dumps({"node": "n1", "csr": new_key()[0]}).encode()
    for token in ("", "wrong"):
        client = cluster.client(cluster.config(token=token))
        with pytest.raises(ApiError, match="join token") as caught:
            await client.raw("POST", "/shepherd/v1/join", body=body)
        assert caught.value.code == 401
        await client.transport.close()


async def test_an_agent_renews_its_certificate_with_the_old_one(cluster: Cluster) -> None:
    client = cluster.client(await joined(cluster, "n1"))
    csr, key = new_key()
    body = json.dumps({"node": "n1", "csr": csr}).encode()
    answer = json.loads(await client.raw("POST", "/shepherd/v1/join", body=body))
    renewed = cluster.client(cluster.config(answer["certificate"], key))
    assert (await renewed.list(POD)).items == []
    await client.transport.close()
    await renewed.transport.close()
