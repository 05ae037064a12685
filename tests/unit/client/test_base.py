"""The client speaks the API's form, and turns what comes back into values and errors."""

import json
from collections.abc import AsyncGenerator, Callable

import pytest

from shepherd.api.errors import ApiError, not_found
from shepherd.api.kinds import DEPLOYMENT, NODE, POD
from shepherd.client.base import Client, WatchEvent, split_lines
from shepherd.client.transport import InProcessTransport
from shepherd.lib.http import Request, Response, User

ME = User("me")


def client_of(answer: Callable[[Request], Response], seen: list[Request]) -> Client:
    async def handle(request: Request) -> Response:
        seen.append(request)
        return answer(request)

    return Client(InProcessTransport(handle, ME), user_agent="test", field_manager="tester")


def answers(body: object, status: int = 200) -> Callable[[Request], Response]:
    return lambda request: Response(status, {}, json.dumps(body).encode())


async def test_the_verbs_as_requests() -> None:
    seen: list[Request] = []
    client = client_of(answers({"items": [{"a": 1}], "metadata": {"resourceVersion": "7"}}), seen)
    pod = {"metadata": {"name": "p", "namespace": "ns"}}

    listed = await client.list(POD, label_selector="a=b", limit=5, continue_token="t")
    await client.get(NODE, "n1", sub="status")
    await client.create(POD, pod)
    await client.create(POD, {"target": {}}, "ns", sub="binding", name="p")
    await client.update(POD, pod, sub="status", params={"dryRun": "All"})
    await client.patch(DEPLOYMENT, "d", "ns", {"spec": {}}, type="strategic")
    await client.delete(POD, "p", "ns", grace_seconds=0, uid="u", propagation="Foreground")

    assert (listed.items, listed.resource_version) == ([{"a": 1}], "7")
    assert [f"{r.method} {r.target}" for r in seen] == [
        "GET /api/v1/pods?labelSelector=a%3Db&limit=5&continue=t",
        "GET /api/v1/nodes/n1/status",
        "POST /api/v1/namespaces/ns/pods?fieldManager=tester",
        "POST /api/v1/namespaces/ns/pods/p/binding?fieldManager=tester",
        "PUT /api/v1/namespaces/ns/pods/p/status?dryRun=All&fieldManager=tester",
        "PATCH /apis/apps/v1/namespaces/ns/deployments/d?fieldManager=tester",
        "DELETE /api/v1/namespaces/ns/pods/p",
    ]
    assert seen[5].headers["content-type"] == "application/strategic-merge-patch+json"
    assert json.loads(seen[6].body) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u"},
    }
    assert all(request.peer is ME for request in seen)


async def test_a_status_becomes_an_error_with_its_message() -> None:
    client = client_of(answers(not_found("", "pods", "p").status(), 404), [])
    with pytest.raises(ApiError, match='pods "p" not found') as caught:
        await client.get(POD, "p", "ns")
    assert (caught.value.code, caught.value.reason) == (404, "NotFound")


async def test_an_error_that_is_no_status_is_still_an_error() -> None:
    client = client_of(lambda request: Response(502, {}, b"<html>bad gateway</html>"), [])
    with pytest.raises(ApiError, match="bad gateway") as caught:
        await client.get(POD, "p", "ns")
    assert caught.value.code == 502


async def test_warnings_reach_the_user() -> None:
    texts: list[str] = []

    async def handle(request: Request) -> Response:
        headers = {"warning": '299 - "one \\"quoted\\"", 299 - "two"'}
        return Response(200, headers, b"{}")

    client = Client(InProcessTransport(handle, ME), on_warning=texts.append)
    await client.get(POD, "p", "ns")
    assert texts == ['one "quoted"', "two"]


async def chunks(*parts: bytes) -> AsyncGenerator[bytes, None]:
    for part in parts:
        yield part


async def test_watch_yields_events_whatever_the_pieces_and_raises_an_error_event() -> None:
    added = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n'
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    text = added + added + json.dumps(gone).encode() + b"\n"
    pieces = [text[i : i + 17] for i in range(0, len(text), 17)]

    async def handle(request: Request) -> Response:
        return Response(200, {}, chunks(*pieces))

    client = Client(InProcessTransport(handle, ME))
    events: list[WatchEvent] = []

    async def follow() -> None:
        nonlocal events
        async for event in client.watch(POD):
            events += [event]

    with pytest.raises(ApiError) as caught:
        await follow()
    assert [e.object["metadata"]["name"] for e in events] == ["a", "a"]
    assert caught.value.code == 410


async def test_lines_are_cut_at_line_ends_only_and_have_a_limit() -> None:
    lines = [line async for line in split_lines(chunks(b"a\n\nb", b"c\nd", b"e", b"\ncut"))]
    assert lines == [b"a", b"bc", b"de"]
    with pytest.raises(ConnectionError, match="longer than 4 bytes"):
        [line async for line in split_lines(chunks(b"abc", b"def"), limit_bytes=4)]
