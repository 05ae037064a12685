"""The hollow runtime: the shared suite, and what annotations direct."""

import io
import json
import random
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shepherd.lib.clock import SystemClock
from shepherd.runtime.base import (
    ContainerConfig,
    ContainerInfo,
    ContainerState,
    Runtime,
    SandboxConfig,
    SheepError,
)
from shepherd.runtime.hollow import HollowRuntime
from shepherd.runtime.script import foresee
from shepherd.testing.runtime_suite import IMAGE, Harness, RuntimeSuite
from shepherd.testing.virtual import VirtualClock, run_virtual


class TestHollowRuntime(RuntimeSuite):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[Harness]:
        runtime = HollowRuntime(
            clock=SystemClock(), random=random.Random(1), start_seconds=(0.0, 0.001)
        )
        await runtime.start()
        await runtime.configure_network("10.42.0.0/24")
        await runtime.images.pull(IMAGE)

        async def reopen() -> Runtime:
            await runtime.close()
            await runtime.start()
            return runtime

        yield Harness(runtime, reopen, tmp_path)
        await runtime.close()


class Pod:
    """One container in a hollow runtime of its own, in virtual time."""

    def __init__(self, **annotations: str) -> None:
        self.clock = VirtualClock()
        self.runtime = HollowRuntime(clock=self.clock, random=random.Random(1))
        self.annotations = {
            f"shepherd.dev/hollow-{name.replace('_', '-')}": value
            for name, value in annotations.items()
        }

    async def start(self) -> ContainerInfo:
        image = await self.runtime.images.pull("demo")
        await self.runtime.configure_network("10.42.0.0/24")
        sandbox = SandboxConfig("u-0", "u", "pod", "default", "pod", annotations=self.annotations)
        await self.runtime.run_sandbox(sandbox)
        config = ContainerConfig("u-main-0", "u-0", "main", 0, image.id)
        return await self.runtime.start_container(config)

    async def look(self) -> ContainerInfo:
        sandbox = await self.runtime.sandbox("u-0")
        assert sandbox is not None
        return sandbox.containers[0]

    async def probe(self) -> int:
        command = ["http-get", "http://10.42.0.2:80/"]
        result = await self.runtime.exec("u-main-0", command, timeout_seconds=1.0)
        return result.exit_code


def test_a_script_annotation_ends_the_container_in_time() -> None:
    async def main() -> None:
        pod = Pod(script="sleep 90; exit 4", start_seconds="2")
        started = await pod.start()
        assert started.started_at - started.created_at == pytest.approx(2.0)
        await pod.clock.sleep(89.0)
        assert (await pod.look()).state is ContainerState.RUNNING
        await pod.clock.sleep(2.0)
        ended = await pod.look()
        assert (ended.state, ended.exit_code) == (ContainerState.EXITED, 4)
        assert ended.finished_at - ended.started_at == pytest.approx(90.0)

    run_virtual(main())


def test_probes_fail_until_the_pod_is_ready() -> None:
    async def main() -> None:
        pod = Pod(ready_seconds="10")
        await pod.start()
        assert await pod.probe() == 1
        await pod.clock.sleep(10.0)
        assert await pod.probe() == 0

    run_virtual(main())


def test_a_start_error_is_the_pods_to_read() -> None:
    async def main() -> None:
        pod = Pod(start_error="exec: no such file")
        with pytest.raises(SheepError, match="no such file"):
            await pod.start()

    run_virtual(main())


@pytest.mark.parametrize(("grace", "exit_code"), [(5.0, 143), (2.0, 137)])
def test_a_slow_stop_is_killed_after_its_grace(grace: float, exit_code: int) -> None:
    async def main() -> None:
        pod = Pod(stop_seconds="3")
        started = await pod.start()
        await pod.runtime.stop_container(started.id, grace)
        ended = await pod.look()
        assert ended.exit_code == exit_code
        assert ended.finished_at - started.started_at == pytest.approx(min(grace, 3.0))

    run_virtual(main())


def test_addresses_are_unique_and_come_back() -> None:
    async def main() -> None:
        runtime = HollowRuntime(clock=VirtualClock(), random=random.Random(1))
        await runtime.configure_network("10.9.0.0/30")
        first = SandboxConfig("a-0", "a", "a", "default", "a")
        second = SandboxConfig("b-0", "b", "b", "default", "b")
        made = await runtime.run_sandbox(first)
        assert made.addresses == ("10.9.0.2",)  # the first address is the bridge's
        with pytest.raises(SheepError, match="no address is left"):
            await runtime.run_sandbox(second)
        await runtime.remove_sandbox("a-0")
        assert (await runtime.run_sandbox(second)).addresses == made.addresses

    run_virtual(main())


async def test_an_archive_names_its_images(tmp_path: Path) -> None:
    manifest = json.dumps([{"RepoTags": [IMAGE]}]).encode()
    with tarfile.open(tmp_path / "demo.tar", "w") as archive:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(manifest)
        archive.addfile(entry, io.BytesIO(manifest))
    runtime = HollowRuntime(clock=SystemClock(), random=random.Random(1))
    loaded = await runtime.images.load(str(tmp_path / "demo.tar"))
    assert [image.tags for image in loaded] == [(IMAGE,)]
    with pytest.raises(SheepError, match="no image archive"):
        await runtime.images.load(__file__)


async def test_a_registry_that_does_not_exist_gives_nothing() -> None:
    runtime = HollowRuntime(clock=SystemClock(), random=random.Random(1))
    with pytest.raises(SheepError) as failed:
        await runtime.images.pull("registry.invalid/app:1")
    assert failed.value.reason == "ErrImagePull"


def test_scripts_are_foreseen() -> None:
    outcome = foresee(["/bin/sh", "-c", "echo a; sleep 2 && echo 'b c'\nexit 9; echo never"])
    assert outcome.lines == ((0.0, "a"), (2.0, "b c"))
    assert (outcome.seconds, outcome.exit_code) == (2.0, 9)
    assert foresee(["sh", "-c", "sleep infinity"]).seconds == float("inf")
    assert foresee([]).seconds == float("inf")
    assert foresee(["/bin/echo", "a;", "b"]).lines == ((0.0, "a; b"),)
    assert foresee(["sleep", "3"]).seconds == 3.0
    assert (foresee(["true"]).exit_code, foresee(["false"]).exit_code) == (0, 1)
    assert foresee(["sh", "-c", "false; true"]).exit_code == 0
    assert foresee(["sh", "-c", "false && true; "]).exit_code == 1
    assert foresee(["sh", "-c", "echo 'a;b' \"c && d\";\n\n#x"]).lines == ((0.0, "a;b c && d"),)
    assert foresee(["sh", "-c", "echo 'a"]).exit_code == 2
    assert foresee(["sh", "-c", ""]) == foresee(["true"])
    assert foresee(["nginx"]).seconds == float("inf")
