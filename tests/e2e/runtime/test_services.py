"""Service addresses lead to pods: from pods, from the node, by node ports; refused without pods."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from shepherd.runtime.base import Backend, ServiceRule
from shepherd.runtime.oci import NftDataplane
from shepherd.testing.runtime_suite import Harness

from .serving import fetch, from_pod, serve

VIP = "10.43.0.50"
NODE_PORT = 30080
GATEWAY = "10.42.7.1"


@pytest.fixture
async def dataplane(instance: str) -> AsyncIterator[NftDataplane]:
    made = NftDataplane(instance, service_cidr="10.43.0.0/16")
    await made.start()
    yield made
    await made.close(remove=True)


def rule(*backends: Backend, node_port: int = 0, affinity_seconds: int = 0) -> ServiceRule:
    return ServiceRule("d/web:80", (VIP,), 80, "TCP", backends, node_port, affinity_seconds)


async def test_a_service_is_served_by_all_its_pods(
    runtime_harness: Harness, dataplane: NftDataplane
) -> None:
    runtime = runtime_harness.runtime
    one, two = await serve(runtime, "one"), await serve(runtime, "two")
    await dataplane.apply([rule(one, two, node_port=NODE_PORT)])
    answers = Counter([await fetch(VIP, 80) for _ in range(40)])
    assert set(answers) == {"one", "two"}
    seen = {await from_pod(runtime, "one", VIP, 80) for _ in range(12)}
    assert seen == {"one", "two"}, "from a pod, itself included"
    assert await fetch(GATEWAY, NODE_PORT) in ("one", "two")
    assert await fetch("127.0.0.1", NODE_PORT) in ("one", "two")
    assert await from_pod(runtime, "two", GATEWAY, NODE_PORT) in ("one", "two")

    await dataplane.apply([rule(two)])
    assert {await fetch(VIP, 80) for _ in range(10)} == {"two"}
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(GATEWAY, NODE_PORT)


async def test_a_client_with_affinity_keeps_its_pod(
    runtime_harness: Harness, dataplane: NftDataplane
) -> None:
    runtime = runtime_harness.runtime
    backends = [await serve(runtime, name) for name in ("one", "two", "three")]
    await dataplane.apply([rule(*backends, affinity_seconds=60)])
    assert len({await fetch(VIP, 80) for _ in range(12)}) == 1


async def test_a_service_without_pods_refuses_at_once(
    runtime_harness: Harness, dataplane: NftDataplane
) -> None:
    runtime = runtime_harness.runtime
    one = await serve(runtime, "one")
    for rules in ([rule(node_port=NODE_PORT)], []):
        await dataplane.apply(rules)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(VIP, 80)
        assert "refused" in await from_pod(runtime, "one", VIP, 80)
    await dataplane.apply([rule(one)])
    assert await fetch(VIP, 80) == "one"


async def test_a_table_that_someone_removed_comes_back(
    runtime_harness: Harness, dataplane: NftDataplane, instance: str
) -> None:
    one = await serve(runtime_harness.runtime, "one")
    await dataplane.apply([rule(one)])
    process = await asyncio.create_subprocess_exec(
        "nft", "delete", "table", "ip", f"{instance}-services"
    )
    assert await process.wait() == 0
    await dataplane.apply([rule(one, one)])
    assert await fetch(VIP, 80) == "one"
