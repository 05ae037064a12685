"""What a node says of its use: rates over a time that is stated, measured only when asked."""

from random import Random
from typing import Any

from shepherd.agent import machine
from shepherd.agent.stats import NodeStats
from shepherd.runtime.base import ContainerConfig, SandboxConfig
from shepherd.runtime.hollow import HollowRuntime
from shepherd.testing.virtual import VirtualClock, run_virtual

PREFIX = "shepherd.dev/hollow-"


async def start(runtime: HollowRuntime, uid: str, **directives: str) -> None:
    annotations = {PREFIX + name: value for name, value in directives.items()}
    sandbox = SandboxConfig(
        f"{uid}-0", uid, uid, "default", uid, host_network=True, annotations=annotations
    )
    await runtime.run_sandbox(sandbox)
    image = await runtime.images.pull("b")
    await runtime.start_container(
        ContainerConfig(f"{uid}-main-0", sandbox.id, "main", 0, image.id, command=("serve",))
    )


def used(summary: Any) -> dict[str, tuple[int, int]]:
    """By pod: nanocores and bytes of its only container."""
    found = {}
    for pod in summary["pods"]:
        (container,) = pod["containers"]
        assert container["name"] == "main"
        cpu, memory = container["cpu"]["usageNanoCores"], container["memory"]["workingSetBytes"]
        found[pod["podRef"]["uid"]] = (cpu, memory)
    return found


def test_rates_are_of_the_time_since_the_last_question() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        runtime = HollowRuntime(clock=clock, random=Random(1))
        await start(runtime, "a", cpu="250m", memory="64Mi")
        stats = NodeStats("n1", runtime, clock)
        began = clock.now()
        first = await stats.summary()
        assert clock.now() - began == 1.0, "nothing was measured before"
        assert first["windowSeconds"] == 1.0
        assert used(first) == {"a": (250_000_000, 64 << 20)}
        assert first["node"]["nodeName"] == "n1"
        assert first["node"]["cpu"]["usageNanoCores"] == 250_000_000

        assert await stats.summary() is first, "who asks again at once gets the same"
        await clock.sleep(20.0)
        await start(runtime, "b", cpu="none", memory="none")
        await clock.sleep(10.0)
        second = await stats.summary()
        assert second["windowSeconds"] > 30.0
        share = 10.0 / second["windowSeconds"]
        rates = used(second)
        assert rates["a"][0] == 250_000_000
        assert abs(rates["b"][0] - 1_000_000 * share) < 10, "it began within that time"
        assert rates["b"][1] == 1 << 20

        await clock.sleep(3600.0)
        assert (await stats.summary())["windowSeconds"] == 1.0, "an hour says nothing of now"

    run_virtual(scenario())


def test_what_has_ended_uses_nothing() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        runtime = HollowRuntime(clock=clock, random=Random(1))
        await start(runtime, "a", script="sleep 5; exit 0")
        await clock.sleep(6.0)
        (pod,) = (await NodeStats("n1", runtime, clock).summary())["pods"]
        assert pod["containers"] == []

    run_virtual(scenario())


def test_the_machine_tells_what_it_does() -> None:
    found = machine.stats()
    assert found.cpu_nanos > 0
    assert found.memory_bytes > 0
