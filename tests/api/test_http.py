"""The API over a socket, by the project's own client."""

import asyncio
from typing import Any

import pytest

from shepherd.api.errors import ApiError
from shepherd.api.kinds import CONFIG_MAP, POD
from shepherd.lib.http import Request


async def test_a_client_creates_watches_and_deletes(served: Any) -> None:
    client = served.client()
    listed = await client.list(CONFIG_MAP, "default")
    events = client.watch(CONFIG_MAP, "default", resource_version=listed.resource_version)
    await client.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "default")
    event = await anext(events)
    assert (event.type, event.object["metadata"]["name"]) == ("ADDED", "a")
    await client.delete(CONFIG_MAP, "a", "default")
    assert (await anext(events)).type == "DELETED"
    await events.aclose()
    await client.transport.close()


async def test_errors_are_statuses_with_a_plain_content_type(served: Any) -> None:
    client = served.client()
    response = await client.transport.send(Request("GET", "/api/v1/namespaces/default/pods/none"))
    assert response.status == 404
    assert response.headers["content-type"] == "application/json"
    with pytest.raises(ApiError, match='pods "none" not found'):
        await client.get(POD, "none", "default")
    huge = {"metadata": {"name": "a"}, "data": {"k": "x" * 4_000_000}}
    with pytest.raises(ApiError) as caught:
        await client.create(CONFIG_MAP, huge, "default")
    assert caught.value.code == 413
    await client.transport.close()


async def test_a_large_list_is_whole_and_compressed_on_demand(served: Any) -> None:
    client = served.client()
    data = {"k": "x" * 10_000}
    await asyncio.gather(
        *(
            client.create(CONFIG_MAP, {"metadata": {"name": f"c{n}"}, "data": data}, "default")
            for n in range(30)
        )
    )
    assert len((await client.list(CONFIG_MAP)).items) == 30
    path = CONFIG_MAP.path()
    headers = {"accept": "application/json", "accept-encoding": "gzip"}
    response = await client.transport.send(Request("GET", path, headers=headers))
    assert response.headers["content-encoding"] == "gzip"
    await client.transport.close()
