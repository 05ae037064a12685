"""A runtime for each test, on a fresh directory."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from shepherd.lib.clock import SystemClock
from shepherd.runtime.oci import NetworkConfig, OciRuntime
from shepherd.runtime.oci.registries import Registries
from shepherd.testing.runtime_suite import Harness

OpenRuntime = Callable[[], Awaitable[OciRuntime]]


@pytest.fixture
async def open_runtime(tmp_path: Path, instance: str) -> AsyncIterator[OpenRuntime]:
    """Opens the runtime of this test; again, it is what a restarted agent opens, after the former
    one was closed. At the end all it holds is removed."""
    opened: list[OciRuntime] = []

    async def open_one() -> OciRuntime:
        if opened:
            await opened.pop().close()
        runtime = OciRuntime(
            tmp_path / "agent",
            network=NetworkConfig(bridge=instance, pod_cidr="10.42.7.0/24"),
            clock=SystemClock(),
            instance=instance,
            registries=Registries(),
        )
        opened.append(runtime)
        await runtime.start()
        return runtime

    yield open_one
    async with AsyncExitStack() as stack:
        for runtime in opened:
            stack.push_async_callback(runtime.close, remove=True)
            for sandbox in await runtime.sandboxes():
                await runtime.remove_sandbox(sandbox.id)


@pytest.fixture
async def runtime_harness(tmp_path: Path, demo_image: Path, open_runtime: OpenRuntime) -> Harness:
    runtime = await open_runtime()
    await runtime.images.load(str(demo_image))
    return Harness(runtime=runtime, reopen=open_runtime, logs=tmp_path / "logs")
