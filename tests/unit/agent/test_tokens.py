"""The tokens of pods: asked for once, kept, replaced in time, and through what goes wrong."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from shepherd.agent.pod_state import BoundPod
from shepherd.agent.references import UnresolvedError
from shepherd.agent.tokens import Token, Tokens, Wanted
from shepherd.api.meta import format_time
from shepherd.client.base import Client
from shepherd.client.transport import InProcessTransport
from shepherd.lib.http import Request, Response, User
from shepherd.lib.tasks import background
from shepherd.testing.virtual import VirtualClock, run_virtual

API = Wanted("", 3607)


class Issuer:
    """A server that numbers the tokens it gives."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.requests: list[Any] = []
        self.down = False
        self.ahead = 0.0
        """By how much its clock is wrong."""

    async def handle(self, request: Request) -> Response:
        if self.down:
            raise ConnectionError("cannot reach it")
        assert request.path == "/api/v1/namespaces/default/serviceaccounts/robot/token"
        body = msgspec.json.decode(request.body)
        self.requests.append(body)
        expires = self.clock.now() + self.ahead + body["spec"]["expirationSeconds"]
        status = {"token": f"t{len(self.requests)}", "expirationTimestamp": format_time(expires)}
        return Response(201, {}, msgspec.json.encode(body | {"status": status}))


def pod() -> BoundPod:
    projection = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    spec = {
        "serviceAccountName": "robot",
        "volumes": [{"name": "v", "projected": {"sources": [projection]}}],
    }
    meta = {"name": "web", "namespace": "default", "uid": "u"}
    return msgspec.convert({"metadata": meta, "spec": spec}, BoundPod)


Scenario = Callable[[Tokens, Issuer, VirtualClock, list[str]], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def main() -> None:
        clock, changed = VirtualClock(), list[str]()
        issuer = Issuer(clock)
        client = Client(InProcessTransport(issuer.handle, User("system:node:n1")))
        tokens = Tokens(client, clock=clock, changed=changed.append)
        async with background(tokens.run()):
            await scenario(tokens, issuer, clock, changed)

    run_virtual(main())


def test_a_token_is_bound_to_its_pod_and_kept() -> None:
    async def scenario(
        tokens: Tokens, issuer: Issuer, clock: VirtualClock, changed: list[str]
    ) -> None:
        assert await tokens.lookup(pod()) == {API: b"t1"}
        await clock.sleep(2000.0)
        assert await tokens.lookup(pod()) == {API: b"t1"}
        (request,) = issuer.requests
        assert request["spec"] == {
            "expirationSeconds": 3607,
            "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "u"},
        }
        assert changed == []

    run(scenario)


def test_it_is_replaced_after_four_fifths_of_its_life() -> None:
    async def scenario(
        tokens: Tokens, issuer: Issuer, clock: VirtualClock, changed: list[str]
    ) -> None:
        await tokens.lookup(pod())
        await clock.sleep(0.8 * 3607 + 70.0)
        assert set(changed) == {"u"}
        assert await tokens.lookup(pod()) == {API: b"t2"}
        changed.clear()
        await clock.sleep(600.0)
        assert changed == []
        tokens.release("u")
        await clock.sleep(7200.0)
        assert changed == [], "a pod that has ended needs none"

    run(scenario)


def test_while_no_new_one_is_to_be_had_the_old_one_serves() -> None:
    async def scenario(
        tokens: Tokens, issuer: Issuer, clock: VirtualClock, changed: list[str]
    ) -> None:
        await tokens.lookup(pod())
        issuer.down = True
        await clock.sleep(3500.0)
        assert await tokens.lookup(pod()) == {API: b"t1"}
        await clock.sleep(200.0)
        with pytest.raises(UnresolvedError, match="failed to fetch token: cannot reach it"):
            await tokens.lookup(pod())
        assert len(changed) > 5, "it is tried again and again"

    run(scenario)


def test_77_a_token_of_the_future_is_replaced_at_once() -> None:
    """kubernetes/kubernetes#124022, #132993: the server's clock was a day ahead, and has been put
    right."""

    async def scenario(
        tokens: Tokens, issuer: Issuer, clock: VirtualClock, changed: list[str]
    ) -> None:
        issuer.ahead = 86_400.0
        assert await tokens.lookup(pod()) == {API: b"t1"}
        issuer.ahead = 0.0
        await clock.sleep(61.0)
        assert changed == ["u"]
        assert await tokens.lookup(pod()) == {API: b"t2"}

    run(scenario)


def test_a_long_life_is_not_lived_to_its_end() -> None:
    year = 365 * 86_400.0
    token = Token(b"t", expires=1000.0 + year, seconds=year)
    assert not token.is_due(1000.0 + 86_000.0)
    assert token.is_due(1000.0 + 86_500.0)
