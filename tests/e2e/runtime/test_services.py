"""Service addresses lead to pods: from pods, from the node, by node ports; refused without pods."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from shepherd.runtime.base import Backend, ContainerConfig, Runtime, SandboxConfig, ServiceRule
from shepherd.runtime.oci import NftDataplane
from shepherd.testing.runtime_suite import IMAGE, Harness

VIP = "10.43.0.50"
NODE_PORT = 30080
GATEWAY = "10.42.7.1"


@pytest.fixture
async def dataplane(instance: str) -> AsyncIterator[NftDataplane]:
    made = NftDataplane(instance, service_cidr="10.43.0.0/16")
    await made.start()
    yield made
    await made.close(remove=True)


async def fetch(address: str, port: int) -> str:
    """What an HTTP server says, waiting until it listens."""
    async with asyncio.timeout(20):
        while True:
            try:
                reader, writer = await asyncio.open_connection(address, port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
                continue
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            text = (await reader.read()).decode()
            writer.close()
            return text.rpartition("\r\n\r\n")[2].strip()


async def serve(runtime: Runtime, name: str) -> Backend:
    """A pod of the demo image, which answers with its own name."""
    image = await runtime.images.resolve(IMAGE)
    assert image is not None
    sandbox = await runtime.run_sandbox(
        SandboxConfig(f"{name}-0", pod_uid=name, pod_name=name, pod_namespace="d", hostname=name)
    )
    await runtime.start_container(
        ContainerConfig(f"{name}-main-0", f"{name}-0", "main", 0, image.id)
    )
    assert await fetch(sandbox.addresses[0], 8080) == name
    return Backend(sandbox.addresses[0], 8080)


def rule(*backends: Backend, node_port: int = 0, affinity_seconds: int = 0) -> ServiceRule:
    return ServiceRule("d/web:80", (VIP,), 80, "TCP", backends, node_port, affinity_seconds)


async def from_pod(runtime: Runtime, pod: str, address: str, port: int) -> str:
    """What a pod gets from there. (The demo image's static wget crashes: glibc's resolver.)"""
    script = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} {port}"
    result = await runtime.exec(f"{pod}-main-0", ["sh", "-c", script], timeout_seconds=10)
    return result.output.decode().rpartition("\r\n\r\n")[2].strip()


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
