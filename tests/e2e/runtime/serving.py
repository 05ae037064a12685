"""Pods that serve, and how to ask them."""

import asyncio

from shepherd.runtime.base import Backend, ContainerConfig, HostPort, Runtime, SandboxConfig
from shepherd.testing.runtime_suite import IMAGE


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


async def serve(runtime: Runtime, name: str, *, host_ports: tuple[HostPort, ...] = ()) -> Backend:
    """A pod of the demo image, which answers with its own name."""
    image = await runtime.images.resolve(IMAGE)
    assert image is not None
    sandbox = await runtime.run_sandbox(
        SandboxConfig(
            f"{name}-0",
            pod_uid=name,
            pod_name=name,
            pod_namespace="d",
            hostname=name,
            host_ports=host_ports,
        )
    )
    await runtime.start_container(
        ContainerConfig(f"{name}-main-0", f"{name}-0", "main", 0, image.id)
    )
    assert await fetch(sandbox.addresses[0], 8080) == name
    return Backend(sandbox.addresses[0], 8080)


async def from_pod(runtime: Runtime, pod: str, address: str, port: int) -> str:
    """What a pod gets from there. (The demo image's static wget crashes: glibc's resolver.)"""
    script = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} {port}"
    result = await runtime.exec(f"{pod}-main-0", ["sh", "-c", script], timeout_seconds=10)
    return result.output.decode().rpartition("\r\n\r\n")[2].strip()
