"""Client and informer against the real server over a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from shepherd.api.errors import ApiError
from shepherd.api.kinds import CONFIG_MAP
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.client.informer import Informer, PartialObject
from shepherd.lib.clock import SystemClock
from shepherd.lib.httpd import HttpServer, serve
from shepherd.lib.tasks import cancel_and_wait
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.memory import MemoryStore


@asynccontextmanager
async def api() -> AsyncIterator[ApiServer]:
    clock = SystemClock()
    store = MemoryStore(clock=clock)
    server = ApiServer(
        store,
        config=ServerConfig(),
        clock=clock,
        random=Random(1),
        authenticator=InsecureAuthenticator(),
    )
    await server.start()
    yield server
    await store.close()


async def listen(server: ApiServer, port: int = 0) -> HttpServer:
    return await serve(server.handle, "127.0.0.1", port)


def config_map(name: str, **data: str) -> Object:
    meta = {"name": name, "namespace": "default"}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": data}


async def test_the_verbs_over_a_socket() -> None:
    async with api() as server:
        httpd = await listen(server)
        client = Client(HttpTransport(f"http://127.0.0.1:{httpd.port}"))
        made = await client.create(CONFIG_MAP, config_map("a", x="1"))
        changed = await client.patch(CONFIG_MAP, "a", "default", {"data": {"x": "2"}})
        assert changed["data"] == {"x": "2"}
        with pytest.raises(ApiError) as caught:
            await client.update(CONFIG_MAP, made)
        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        [found] = (await client.list(CONFIG_MAP, "default")).items
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        await client.delete(CONFIG_MAP, "a", "default")
        with pytest.raises(ApiError, match='configmaps "a" not found'):
            await client.get(CONFIG_MAP, "a", "default")
        await client.close()
        await httpd.close()


async def test_an_informer_catches_up_when_the_server_was_away() -> None:
    async with api() as server:
        httpd = await listen(server)
        port = httpd.port
        client = Client(HttpTransport(f"http://127.0.0.1:{port}"))
        for name in ("stays", "goes"):
            await client.create(CONFIG_MAP, config_map(name))
        informer = Informer(
            client, CONFIG_MAP, PartialObject, clock=SystemClock(), namespace="default"
        )
        caught_up = asyncio.Event()

        def changed(old: PartialObject | None, new: PartialObject | None) -> None:
            if {o.metadata.name for o in informer.all()} == {"stays", "comes"}:
                caught_up.set()

        informer.on_change(changed)
        task = asyncio.ensure_future(informer.run())
        async with asyncio.timeout(20):
            await informer.synced()
            assert len(informer) == 2
            await httpd.close(0)
            with pytest.raises(ConnectionError, match="cannot reach"):
                await client.get(CONFIG_MAP, "stays", "default")
            httpd = await listen(server, port)
            await client.create(CONFIG_MAP, config_map("comes"))
            await client.delete(CONFIG_MAP, "goes", "default")
            await caught_up.wait()
        await cancel_and_wait(task)
        await client.close()
        await httpd.close(0)
