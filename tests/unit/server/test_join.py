"""How an agent becomes a member."""

import hashlib
import json
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response, User
from shepherd.server.join import Joining, join_token
from shepherd.server.pki import Pki
from shepherd.store.base import Delete, Put
from shepherd.store.memory import MemoryStore

# Made by: openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /O=system:masters/...
SIGNING_REQUEST = """
-----BEGIN CERTIFICATE REQUEST-----
MIHjMIGKAgEAMCgxFzAVBgNVBAoMDnN5c3RlbTptYXN0ZXJzMQ0wCwYDVQQDDARy
b290MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEckb1fcos80ZCpbZCEuAW1psF
Y7iNxfCS69T5qGRTayh8D6ljGxdZzksw61gM3gbKml3fB3TJn5MfW/RHsrdL0qAA
MAoGCCqGSM49BAMCA0gAMEUCIHN1XwT3+AcBtW2h+HkMU+5bTAKLcDlfiyOrw8VR
CFZqAiEAt1jxJv2Inr9Xrps/9FLSIB/ViBkbqD0aO/fzeIn03KM=
-----END CERTIFICATE REQUEST-----
"""
NODE = User("system:node:n1", ("system:nodes",))


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki.open(tmp_path_factory.mktemp("pki"), clock=SystemClock())


@pytest.fixture
def csr() -> str:
    return SIGNING_REQUEST


class Door:
    """Sends requests to the joining handler of a cluster."""

    def __init__(self, pki: Pki, token: str) -> None:
        self.secret = token.split(".")[2]
        self.store = MemoryStore()
        self._handle = Joining(pki, token, self._api, self.store).handle

    async def _api(self, request: Request) -> Response:
        return Response(299)

    async def get(self, path: str) -> Response:
        return await self._handle(Request("GET", path))

    async def join(
        self, body: object, secret: str | None = None, peer: User | None = None
    ) -> tuple[int, dict[str, Any]]:
        headers = {"authorization": f"Bearer {self.secret if secret is None else secret}"}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request("POST", "/shepherd/v1/join", headers=headers, body=content, peer=peer)
        response = await self._handle(request)
        assert isinstance(response.body, bytes)
        return response.status, json.loads(response.body)


@pytest.fixture
def door(pki: Pki, tmp_path: Path) -> Door:
    return Door(pki, join_token(tmp_path / "join-token", pki))


def test_the_token_names_the_ca_and_stays_the_same(pki: Pki, tmp_path: Path) -> None:
    path = tmp_path / "join-token"
    token = join_token(path, pki)
    version, ca_hash, secret = token.split(".")
    assert version == "shepherd1"
    assert ca_hash == hashlib.sha256(ssl.PEM_cert_to_DER_cert(pki.ca)).hexdigest()
    assert len(secret) == 32
    assert path.read_text() == token + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert join_token(path, pki) == token


async def test_anyone_may_fetch_the_ca(pki: Pki, door: Door) -> None:
    response = await door.get("/cacerts")
    assert (response.status, response.body) == (200, pki.ca.encode())


async def test_other_paths_go_to_the_api(door: Door) -> None:
    assert (await door.get("/api/v1/pods")).status == 299


async def test_with_the_secret_an_agent_gets_its_certificates(
    pki: Pki, door: Door, csr: str
) -> None:
    order = {"node": "n1", "csr": csr, "addresses": ["192.0.2.9", "fd00::9"]}
    status, answer = await door.join(order)
    assert status == 200
    assert answer["ca"] == pki.ca
    for name in ("certificate", "serving"):
        assert answer[name].startswith("-----BEGIN CERTIFICATE-----")


async def test_without_the_secret_it_gets_nothing_but_what_to_do(door: Door, csr: str) -> None:
    for secret in ("", "wrong", door.secret[:-1], "é"):
        status, answer = await door.join({"node": "n1", "csr": csr}, secret)
        assert (status, answer["reason"]) == (401, "Unauthorized")
        assert "join token" in answer["message"]


async def test_a_member_renews_its_own_certificate_and_no_other(door: Door, csr: str) -> None:
    status, answer = await door.join({"node": "n1", "csr": csr}, "", peer=NODE)
    assert status == 200
    assert "certificate" in answer
    status, answer = await door.join({"node": "n2", "csr": csr}, "", peer=NODE)
    assert (status, answer["reason"]) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"node": "No_Name"}, "not a node name"),
        ({"node": "n" * 53}, "52 characters"),
        ({"csr": "nonsense"}, "csr:"),
        ({"addresses": ["kubernetes"]}, "'kubernetes' is not an IP address"),
        ({"addresses": ["10.0.0.1"] * 33}, "at most 32"),
        ({"node": 7}, "not a join request"),
        ({"addresses": "10.0.0.1"}, "not a join request"),
    ],
)
async def test_a_bad_order_says_what_is_wrong(
    door: Door, csr: str, change: dict[str, object], said: str
) -> None:
    status, answer = await door.join({"node": "n1", "csr": csr} | change)
    assert status == 400
    assert said in answer["message"]


async def test_a_body_that_is_not_json_and_a_wrong_method_are_refused(door: Door) -> None:
    assert (await door.join(b"\xff{"))[0] == 400
    assert (await door.get("/shepherd/v1/join")).status == 405


async def test_a_second_living_agent_of_one_name_is_refused(door: Door, csr: str) -> None:
    """k3s-io/k3s#6054, #802: told which node that is, and the command that replaces it. The first
    renews its certificate all the while."""
    order = {"node": "n1", "csr": csr}

    async def report(ready: str) -> None:
        status = {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.5"}],
            "conditions": [{"type": "Ready", "status": ready}],
        }
        await door.store.commit(Put("nodes//n1", json.dumps({"status": status}).encode()))

    assert (await door.join(order))[0] == 200
    await report("True")
    code, status = await door.join(order)
    assert (code, status["reason"]) == (409, "Conflict")
    for text in ('"n1"', "at 10.0.0.5", "--node-name", "kubectl delete node n1"):
        assert text in status["message"]
    assert (await door.join(order, secret="", peer=NODE))[0] == 200
    await report("Unknown")
    assert (await door.join(order))[0] == 200
    await report("False")
    await door.store.commit(Delete("nodes//n1"))
    assert (await door.join(order))[0] == 200
