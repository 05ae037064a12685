"""A whole server that asks who may, and what its users try."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import pytest

from shepherd.api.resource import Object
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, User, parse_query
from shepherd.server.app import ApiServer
from shepherd.server.auth import CredentialAuthenticator
from shepherd.server.authorization.chain import authorizer
from shepherd.server.config import ServerConfig
from shepherd.server.tokens import ServiceAccountTokens
from shepherd.store.memory import MemoryStore

ADMIN = User("root", ("system:masters",))
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass
class Cluster:
    server: ApiServer

    async def ask(
        self, user: User | None, method: str, target: str, body: Any = None, /, **headers: str
    ) -> tuple[int, Any]:
        path, _, query = target.partition("?")
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        content = b"" if body is None else msgspec.json.encode(body)
        request = Request(method, path, parse_query(query), names, content, peer=user)
        response = await self.server.handle(request)
        if not isinstance(response.body, bytes):
            await response.body.aclose()
            return response.status, None
        is_json = response.headers.get("content-type") == "application/json"
        return response.status, msgspec.json.decode(response.body) if is_json else None

    async def ok(self, user: User, method: str, target: str, body: Any = None, /, **h: str) -> Any:
        code, answer = await self.ask(user, method, target, body, **h)
        assert code in (200, 201), answer
        return answer

    async def refused(
        self, user: User, method: str, target: str, body: Any = None, /, **headers: str
    ) -> str:
        """What the user is told."""
        code, answer = await self.ask(user, method, target, body, **headers)
        assert code == 403, answer
        assert answer["reason"] == "Forbidden"
        message: str = answer["message"]
        return message

    @staticmethod
    def rule(verbs: str, resources: str, group: str = "", names: str = "") -> Object:
        found = {"verbs": verbs.split(), "resources": resources.split(), "apiGroups": [group]}
        return found | ({"resourceNames": names.split()} if names else {})

    async def give(self, role: str, *, user: str = "", namespace: str = "", name: str = "") -> None:
        subject = {"kind": "User", "name": user or "alice"}
        body = {
            "metadata": {"name": name or f"{role}-{user or 'alice'}"},
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [subject],
        }
        where = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
        await self.ok(ADMIN, "POST", f"{RBAC}/{where}", body)

    async def allow(self, name: str, *rules: Object) -> None:
        """A new cluster role, given to alice."""
        role = {"metadata": {"name": name}, "rules": list(rules)}
        await self.ok(ADMIN, "POST", f"{RBAC}/clusterroles", role)
        await self.give(name)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    store, clock = MemoryStore(), SystemClock()
    tokens = ServiceAccountTokens(b"k" * 32, clock, Random(1))
    server = ApiServer(
        store,
        config=ServerConfig(pod_tokens=False),
        clock=clock,
        random=Random(1),
        authenticator=CredentialAuthenticator(store, accounts=tokens),
        authorizer=authorizer(store),
        tokens=tokens,
    )
    await server.start()
    cluster = Cluster(server)
    for name in ("ci", "other"):
        await cluster.ok(ADMIN, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield cluster
    await store.close()
