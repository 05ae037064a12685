"""Who is asking. (What they may do: authorization/.)"""

import base64
import json
from pathlib import Path
from random import Random

import pytest

from shepherd.api.errors import ApiError
from shepherd.lib.http import Request, User
from shepherd.server.auth import (
    ANONYMOUS,
    CredentialAuthenticator,
    InsecureAuthenticator,
    read_token_file,
)
from shepherd.server.tokens import Binding, Named, ServiceAccountTokens, TokenError
from shepherd.store.base import Delete, Put
from shepherd.store.memory import MemoryStore

ADMIN = User("shepherd-admin", ("system:masters",))


class SetClock:
    """Shows the time it was told."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class Cluster:
    """A store with an account and a pod; tokens, and who verifies them."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.store = MemoryStore()
        self.tokens = ServiceAccountTokens(b"k" * 32, self.clock, Random(1))
        static = {"s3cret": User("robot", ("builders",), "7")}
        self._authenticator = CredentialAuthenticator(
            self.store, accounts=self.tokens, static=static
        )

    async def fill(self) -> None:
        await self.store.commit(
            Put("serviceaccounts/default/builder", b'{"metadata":{"uid":"sa-1"}}'),
            Put("pods/default/p1", b'{"metadata":{"uid":"p-1"},"spec":{"nodeName":"n1"}}'),
        )

    def token(self, *, pod: Named | None = None, seconds: float = 3600.0) -> str:
        binding = Binding("default", Named("builder", "sa-1"), pod=pod)
        return self.tokens.issue(binding, seconds=seconds)[0]

    async def user(
        self, path: str = "/api/v1/pods", bearer: str = "", peer: User | None = None
    ) -> User:
        headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
        return await self._authenticator.authenticate(
            Request("GET", path, headers=headers, peer=peer)
        )


@pytest.fixture
async def cluster() -> Cluster:
    cluster = Cluster()
    await cluster.fill()
    return cluster


async def unauthorized(cluster: Cluster, path: str = "/api/v1/pods", bearer: str = "") -> bool:
    with pytest.raises(ApiError) as caught:
        await cluster.user(path, bearer)
    assert caught.value.reason == "Unauthorized"
    return caught.value.code == 401


# Who


async def test_a_client_certificate_proves_its_user(cluster: Cluster) -> None:
    user = await cluster.user(peer=ADMIN)
    assert (user.name, user.groups) == (
        "shepherd-admin",
        ("system:masters", "system:authenticated"),
    )


async def test_without_proof_only_health_and_version_answer(cluster: Cluster) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/readyz/store", "/version"):
        assert await cluster.user(path) == ANONYMOUS
    for path in ("/", "/api", "/api/v1/nodes", "/openapi/v3", "/metrics", "/healthzz", "*", ""):
        assert await unauthorized(cluster, path)


async def test_a_bad_token_is_refused_even_where_none_is_needed(cluster: Cluster) -> None:
    for bearer in ("wrong", "s3cre", "a.b.c", "é", cluster.token() + "x"):
        assert await unauthorized(cluster, "/version", bearer)


async def test_a_static_token_proves_its_user(cluster: Cluster) -> None:
    user = await cluster.user(bearer="s3cret")
    assert user == User("robot", ("builders", "system:authenticated"), "7")


async def test_a_service_account_token_proves_account_and_pod(cluster: Cluster) -> None:
    user = await cluster.user(bearer=cluster.token(pod=Named("p1", "p-1")))
    assert (user.name, user.uid) == ("system:serviceaccount:default:builder", "sa-1")
    assert user.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    )
    assert user.extra["authentication.kubernetes.io/pod-name"] == ("p1",)
    assert user.extra["authentication.kubernetes.io/pod-uid"] == ("p-1",)


async def test_a_token_dies_with_its_account_or_pod(cluster: Cluster) -> None:
    bound, free = cluster.token(pod=Named("p1", "p-1")), cluster.token()
    await cluster.store.commit(Put("pods/default/p1", b'{"metadata":{"uid":"another"}}'))
    assert await unauthorized(cluster, bearer=bound)
    assert (await cluster.user(bearer=free)).uid == "sa-1"
    await cluster.store.commit(Delete("serviceaccounts/default/builder"))
    assert await unauthorized(cluster, bearer=free)


async def test_a_token_ends_in_time_and_survives_a_clock_put_right(cluster: Cluster) -> None:
    token = cluster.token(seconds=600)
    cluster.clock.time -= 30
    assert (await cluster.user(bearer=token)).uid == "sa-1"
    cluster.clock.time -= 3600
    assert await unauthorized(cluster, bearer=token)
    cluster.clock.time += 3630 + 599
    assert (await cluster.user(bearer=token)).uid == "sa-1"
    cluster.clock.time += 1
    assert await unauthorized(cluster, bearer=token)


async def test_tokens_for_others_or_by_others_are_refused(cluster: Cluster) -> None:
    binding = Binding("default", Named("builder", "sa-1"))
    vault, _ = cluster.tokens.issue(binding, seconds=60, audiences=["vault"])
    assert await unauthorized(cluster, bearer=vault)
    assert cluster.tokens.verify(vault, ["vault"]).aud == ["vault"]
    foreign = ServiceAccountTokens(b"x" * 32, cluster.clock, Random(1))
    with pytest.raises(TokenError):
        cluster.tokens.verify(foreign.issue(binding, seconds=60)[0])


async def test_nobody_chooses_the_algorithm(cluster: Cluster) -> None:
    _, payload, _ = cluster.token().split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    for forged in (f"{header}.{payload}.", f"{header}.{payload}.{payload}"):
        assert await unauthorized(cluster, bearer=forged)


def test_a_token_carries_the_claims_of_kubernetes() -> None:
    clock = SetClock()
    tokens = ServiceAccountTokens(b"k" * 32, clock, Random(1))
    binding = Binding("default", Named("builder", "sa-1"), pod=Named("p1", "p-1"))
    token, ends = tokens.issue(binding, seconds=3600)
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert (claims.pop("jti") != "", ends) == (True, 1_003_600)
    assert claims == {
        "iss": "https://kubernetes.default.svc.cluster.local",
        "sub": "system:serviceaccount:default:builder",
        "aud": ["https://kubernetes.default.svc.cluster.local"],
        "iat": 1_000_000,
        "nbf": 1_000_000,
        "exp": 1_003_600,
        "kubernetes.io": {
            "namespace": "default",
            "serviceaccount": {"name": "builder", "uid": "sa-1"},
            "pod": {"name": "p1", "uid": "p-1"},
        },
    }


def test_a_static_token_file_gives_users_and_names_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text('t1,alice,1,"dev,ops"\nt2,bob,2\n')
    assert read_token_file(path) == {
        "t1": User("alice", ("dev", "ops"), "1"),
        "t2": User("bob", (), "2"),
    }
    path.write_text("t1,alice,1\nonly-a-token\n")
    with pytest.raises(ValueError, match="line 2"):
        read_token_file(path)


async def test_insecure_makes_everyone_administrator() -> None:
    user = await InsecureAuthenticator().authenticate(Request("GET", "/api"))
    assert "system:masters" in user.groups


@pytest.mark.parametrize(
    ("headers", "answered"),
    [
        ({}, True),
        ({"host": "127.0.0.1:9876"}, True),
        ({"host": "localhost"}, True),
        ({"host": "[::1]:9876", "origin": "http://localhost:3000"}, True),
        ({"host": "evil.example:9876"}, False),
        ({"host": "127.0.0.1.evil.example"}, False),
        ({"host": "127.0.0.1", "origin": "https://evil.example"}, False),
        ({"host": "127.0.0.1", "origin": "null"}, False),
        ({"host": "localhost@evil.example"}, False),
        ({"host": "["}, False),
        ({"host": ""}, False),
    ],
)
async def test_without_authentication_no_web_page_gets_through(
    headers: dict[str, str], answered: bool
) -> None:
    request = Request("GET", "/api/v1/secrets", headers=headers)
    if answered:
        assert (await InsecureAuthenticator().authenticate(request)).groups[0] == "system:masters"
        return
    with pytest.raises(ApiError, match="localhost") as caught:
        await InsecureAuthenticator().authenticate(request)
    assert caught.value.code == 403
