"""What every `Runtime` must do: one suite for hollow and real containers alike.

    class TestMyRuntime(RuntimeSuite):
        @pytest.fixture
        async def harness(self, tmp_path: Path) -> AsyncIterator[Harness]:
            ...

The commands are a busybox shell's, of the demo image, within what `runtime.script` understands.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from shepherd.runtime.base import (
    ContainerConfig,
    ContainerInfo,
    ContainerState,
    Resources,
    Runtime,
    SandboxConfig,
    SheepError,
    Stdio,
)

IMAGE = "shepherd.local/demo:1"
FOREVER = "sleep 3600"
_numbers = count(1)


@dataclass(slots=True)
class Harness:
    """A runtime under test: started, its network configured, the image `IMAGE` present."""

    runtime: Runtime
    reopen: Callable[[], Awaitable[Runtime]]
    """Close the runtime and open another on the same state, as a restarted agent does."""
    logs: Path
    """An empty directory for logs."""


class RuntimeSuite:
    """Subclass it and provide the fixture `harness`."""

    @pytest.fixture
    def harness(self) -> Harness:
        raise AssertionError("the subclass provides the harness")

    # Sandboxes

    async def test_a_sandbox_stands_with_an_address(self, harness: Harness) -> None:
        assert await harness.runtime.sandboxes() == []
        made = await harness.runtime.run_sandbox(sandbox_config())
        assert made.ready
        assert len(made.addresses) == 1
        assert await harness.runtime.sandbox(made.id) == made
        assert await harness.runtime.sandboxes() == [made]

    async def test_running_a_sandbox_again_changes_nothing(self, harness: Harness) -> None:
        config = sandbox_config()
        first = await harness.runtime.run_sandbox(config)
        assert await harness.runtime.run_sandbox(config) == first
        assert len(await harness.runtime.sandboxes()) == 1

    async def test_each_sandbox_has_an_address_of_its_own(self, harness: Harness) -> None:
        made = await asyncio.gather(
            *(harness.runtime.run_sandbox(sandbox_config()) for _ in range(3))
        )
        assert len({sandbox.addresses for sandbox in made}) == 3

    async def test_a_host_network_sandbox_has_no_address(self, harness: Harness) -> None:
        made = await harness.runtime.run_sandbox(sandbox_config(host_network=True))
        assert made.ready
        assert made.addresses == ()

    async def test_removing_a_sandbox_ends_its_containers(self, harness: Harness) -> None:
        container = await start(harness, FOREVER)
        await harness.runtime.remove_sandbox(container.sandbox_id)
        assert await harness.runtime.sandbox(container.sandbox_id) is None
        await harness.runtime.remove_sandbox(container.sandbox_id)
        assert await harness.runtime.sandboxes() == []

    # Containers

    async def test_a_container_runs_until_it_is_stopped(self, harness: Harness) -> None:
        container = await start(harness, FOREVER)
        assert container.state is ContainerState.RUNNING
        assert container.started_at >= container.created_at > 0
        await harness.runtime.stop_container(container.id, 0.2)
        ended = await look(harness, container)
        assert ended.state is ContainerState.EXITED
        assert ended.exit_code in (137, 143)  # by SIGKILL or SIGTERM
        assert ended.finished_at >= ended.started_at
        await harness.runtime.stop_container(container.id, 0.2)

    @pytest.mark.parametrize(("code", "reason"), [(0, "Completed"), (3, "Error")])
    async def test_an_ended_container_tells_its_exit_code(
        self, harness: Harness, code: int, reason: str
    ) -> None:
        container = await start(harness, f"exit {code}")
        ended = await exited(harness, container)
        assert (ended.exit_code, ended.reason) == (code, reason)

    async def test_starting_again_starts_no_second_copy(self, harness: Harness) -> None:
        config = await prepare(harness, "echo once; exit 0")
        first = await harness.runtime.start_container(config)
        ended = await exited(harness, first)
        assert await harness.runtime.start_container(config) == ended
        assert len(log_lines(ended)) == 1

    async def test_concurrent_starts_start_one(self, harness: Harness) -> None:
        config = await prepare(harness, FOREVER)
        await asyncio.gather(*(harness.runtime.start_container(config) for _ in range(3)))
        sandbox = await harness.runtime.sandbox(config.sandbox_id)
        assert sandbox is not None
        assert [container.id for container in sandbox.containers] == [config.id]

    async def test_what_the_agent_gave_comes_back(self, harness: Harness) -> None:
        started = await start(harness, FOREVER, kind="sidecar", spec_hash="v1:abc", attempt=4)
        seen = await look(harness, started)
        assert (seen.name, seen.kind, seen.spec_hash, seen.attempt) == (
            "main", "sidecar", "v1:abc", 4,
        )  # fmt: skip
        assert seen.image_ref == IMAGE

    async def test_a_running_container_gets_other_resources(self, harness: Harness) -> None:
        """The container stays; what it was given last is known to a later agent too."""
        config = replace(await prepare(harness, FOREVER), cpu_millis=100, memory_bytes=64 << 20)
        container = await harness.runtime.start_container(config)
        assert container.resources == Resources(100, 64 << 20)
        more = Resources(250, 128 << 20, 200, 32 << 20)
        await harness.runtime.resize_sandbox(container.sandbox_id, more)
        await harness.runtime.resize_container(container.id, more)
        assert await look(harness, container) == replace(container, resources=more)
        harness.runtime = await harness.reopen()
        assert (await look(harness, container)).resources == more
        sandbox = await harness.runtime.sandbox(container.sandbox_id)
        assert sandbox is not None
        assert sandbox.resources == more
        assert (await look(harness, container)).state is ContainerState.RUNNING

    async def test_only_what_runs_gets_other_resources(self, harness: Harness) -> None:
        ended = await exited(harness, await start(harness, "exit 0"))
        with pytest.raises(SheepError):
            await harness.runtime.resize_container(ended.id, Resources(100))
        with pytest.raises(SheepError):
            await harness.runtime.resize_sandbox("nobody-0", Resources(100))

    async def test_a_removed_container_is_forgotten(self, harness: Harness) -> None:
        container = await exited(harness, await start(harness, "exit 0"))
        await harness.runtime.remove_container(container.id)
        sandbox = await harness.runtime.sandbox(container.sandbox_id)
        assert sandbox is not None
        assert sandbox.containers == ()
        await harness.runtime.remove_container(container.id)

    async def test_an_unknown_image_starts_nothing(self, harness: Harness) -> None:
        sandbox = await harness.runtime.run_sandbox(sandbox_config())
        config = container_config(harness, sandbox.id, "exit 0", image="sha256:" + "0" * 64)
        with pytest.raises(SheepError):
            await harness.runtime.start_container(config)

    async def test_lines_reach_the_log_in_cri_format(self, harness: Harness) -> None:
        container = await exited(harness, await start(harness, "echo one; echo two three; exit 0"))
        lines = log_lines(container)
        assert [line.split(" ", 3)[3] for line in lines] == ["one", "two three"]
        stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d) stdout F "
        assert all(re.match(stamp, line) for line in lines)

    # What goes on inside

    async def test_exec_gives_exit_code_and_output(self, harness: Harness) -> None:
        container = await start(harness, FOREVER)
        result = await harness.runtime.exec(
            container.id, ["sh", "-c", "echo inside; exit 5"], timeout_seconds=10.0
        )
        assert (result.exit_code, result.output) == (5, b"inside\n")

    async def test_a_commands_streams_are_its_own(self, harness: Harness) -> None:
        container = await start(harness, FOREVER)
        script = ["sh", "-c", "echo one; exit 3"]
        async with harness.runtime.open_exec(container.id, script, Stdio()) as process:
            assert await process.receive() == ("stdout", b"one\n")
            assert await process.receive() is None
            assert await process.wait() == 3

    async def test_a_commands_input_ends_when_it_is_ended(self, harness: Harness) -> None:
        container = await start(harness, FOREVER)
        stdio = Stdio(stdin=True)
        async with harness.runtime.open_exec(container.id, ["cat"], stdio) as process:
            await process.write(b"back")
            assert await process.receive() == ("stdout", b"back")
            await process.end_input()
            assert await process.receive() is None
            assert await process.wait() == 0

    async def test_no_command_runs_in_a_container_that_is_gone(self, harness: Harness) -> None:
        with pytest.raises(SheepError):
            async with harness.runtime.open_exec("nobody", ["true"], Stdio()):
                pass

    async def test_exec_that_takes_too_long_is_ended(self, harness: Harness) -> None:
        container = await start(harness, FOREVER)
        with pytest.raises(TimeoutError):
            await harness.runtime.exec(container.id, ["sh", "-c", FOREVER], timeout_seconds=0.2)

    async def test_stats_count_running_containers(self, harness: Harness) -> None:
        container = await start(harness, FOREVER)
        stats = await harness.runtime.stats(container.sandbox_id)
        assert stats[container.id].memory_bytes > 0

    async def test_changes_name_the_pod(self, harness: Harness) -> None:
        config = await prepare(harness, "sleep 0.1; exit 0")
        seen = asyncio.Event()
        sandbox = await harness.runtime.sandbox(config.sandbox_id)
        assert sandbox is not None

        async def watch(pod_uid: str) -> None:
            async with aclosing(harness.runtime.changes()) as changes:
                async for changed in changes:
                    ended = await look(harness, config)
                    if changed == pod_uid and ended.state is ContainerState.EXITED:
                        break
            seen.set()

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(watch(sandbox.pod_uid))
            await asyncio.sleep(0)  # the watch is open before the container starts
            await harness.runtime.start_container(config)
        assert seen.is_set()

    # Restart of the agent

    async def test_containers_outlive_the_agent(self, harness: Harness) -> None:
        runs = await start(harness, FOREVER, spec_hash="v1:abc")
        ended = await exited(harness, await start(harness, "exit 7"))
        before = sorted(await harness.runtime.sandboxes(), key=lambda sandbox: sandbox.id)
        harness.runtime = await harness.reopen()
        after = sorted(await harness.runtime.sandboxes(), key=lambda sandbox: sandbox.id)
        assert [(s.id, s.ready, s.addresses) for s in before] == [
            (s.id, s.ready, s.addresses) for s in after
        ]
        again = await look(harness, runs)
        assert (again.state, again.pid) == (ContainerState.RUNNING, runs.pid)
        assert again.spec_hash == "v1:abc"
        assert (await look(harness, ended)).exit_code == 7
        await harness.runtime.stop_container(runs.id, 0.2)
        assert (await look(harness, runs)).state is ContainerState.EXITED

    # Images

    async def test_a_present_image_is_known_by_name_and_id(self, harness: Harness) -> None:
        image = await harness.runtime.images.resolve(IMAGE)
        assert image is not None
        assert IMAGE in image.tags
        assert await harness.runtime.images.resolve(image.id) == image
        assert image in await harness.runtime.images.list()
        assert await harness.runtime.images.resolve("shepherd.local/absent:1") is None

    async def test_a_malformed_image_name_is_refused(self, harness: Harness) -> None:
        with pytest.raises(SheepError) as refused:
            await harness.runtime.images.pull("No Such//Name")
        assert refused.value.reason == "InvalidImageName"

    async def test_a_removed_image_is_gone(self, harness: Harness) -> None:
        image = await harness.runtime.images.resolve(IMAGE)
        assert image is not None
        await harness.runtime.images.remove(image.id)
        assert await harness.runtime.images.resolve(IMAGE) is None


def sandbox_config(*, host_network: bool = False) -> SandboxConfig:
    """The config of a new pod's sandbox."""
    number = next(_numbers)
    uid = f"00000000-0000-4000-8000-{number:012d}"
    return SandboxConfig(
        id=f"{uid}-0",
        pod_uid=uid,
        pod_name=f"pod-{number}",
        pod_namespace="default",
        hostname=f"pod-{number}",
        host_network=host_network,
    )


def container_config(
    harness: Harness,
    sandbox_id: str,
    script: str,
    *,
    image: str,
    kind: str = "main",
    spec_hash: str = "",
    attempt: int = 0,
) -> ContainerConfig:
    """The config of a container that runs a shell script."""
    container_id = f"{sandbox_id.rsplit('-', 1)[0]}-main-{attempt}"
    return ContainerConfig(
        id=container_id,
        sandbox_id=sandbox_id,
        name="main",
        attempt=attempt,
        image=image,
        image_ref=IMAGE,
        command=("sh", "-c", script),
        log_path=str(harness.logs / f"{container_id}.log"),
        kind=kind,
        spec_hash=spec_hash,
    )


async def prepare(
    harness: Harness, script: str, *, kind: str = "main", spec_hash: str = "", attempt: int = 0
) -> ContainerConfig:
    """A container to start, in a sandbox of its own."""
    image = await harness.runtime.images.resolve(IMAGE)
    assert image is not None, f"the harness must provide {IMAGE}"
    sandbox = await harness.runtime.run_sandbox(sandbox_config())
    return container_config(
        harness, sandbox.id, script, image=image.id, kind=kind, spec_hash=spec_hash, attempt=attempt
    )


async def start(
    harness: Harness, script: str, *, kind: str = "main", spec_hash: str = "", attempt: int = 0
) -> ContainerInfo:
    config = await prepare(harness, script, kind=kind, spec_hash=spec_hash, attempt=attempt)
    return await harness.runtime.start_container(config)


async def look(harness: Harness, container: ContainerInfo | ContainerConfig) -> ContainerInfo:
    """The container as it is now."""
    sandbox = await harness.runtime.sandbox(container.sandbox_id)
    assert sandbox is not None
    return next(c for c in sandbox.containers if c.id == container.id)


async def exited(harness: Harness, container: ContainerInfo) -> ContainerInfo:
    """The container once it has ended."""
    async with asyncio.timeout(20):
        while True:
            container = await look(harness, container)
            if container.state is ContainerState.EXITED:
                return container
            await asyncio.sleep(0.01)


def log_lines(container: ContainerInfo) -> list[str]:
    return Path(container.log_path).read_text().splitlines()
