"""How the health of containers is judged, in virtual time."""

import asyncio
from typing import Any

OnNode = Any
Scene = Any


def web(**more: Any) -> dict[str, Any]:
    return {"name": "web", "image": "web:1", **more}


def test_readiness_is_seen_soon_whatever_the_period(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        probe = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 100}
        await node.create_pod(
            annotations={"shepherd.dev/hollow-ready-seconds": "0.5"},
            containers=[web(readinessProbe=probe)],
        )
        began = node.clock.now()
        await node.ready()
        assert 0.5 <= node.clock.now() - began < 1.5
        assert not [r for r, _ in await node.events() if r == "Unhealthy"][1:]

    on_node(scenario)


def test_a_failing_liveness_probe_restarts(on_node: OnNode) -> None:
    """podman-container-tools/podman#19366, #22864: with a long delay it never ran, and nothing was
    ever restarted."""

    async def scenario(node: Scene) -> None:
        probe = {
            "exec": {"command": ["sh", "-c", "exit 1"]},
            "initialDelaySeconds": 30,
            "periodSeconds": 5,
            "failureThreshold": 3,
        }
        await node.create_pod(containers=[web(livenessProbe=probe)])
        await node.ready()
        began = node.clock.now()
        await node.restarted(1, within_seconds=100)
        assert 40 <= node.clock.now() - began < 42  # 58: the delay, then at the threshold
        events = await node.events()
        assert ("Killing", "Container web failed liveness probe, will be restarted") in events
        assert ("Unhealthy", "Liveness probe failed:") in events

    on_node(scenario)


def test_a_startup_probe_holds_back_the_others(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        startup = {"tcpSocket": {"port": 80}, "periodSeconds": 10, "failureThreshold": 10}
        liveness = {"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1}
        await node.create_pod(
            annotations={"shepherd.dev/hollow-ready-seconds": "25"},
            containers=[web(startupProbe=startup, livenessProbe=liveness)],
        )
        await node.phase("Running")
        await asyncio.sleep(20)
        container = await node.container()
        assert (container["started"], container["ready"], container["restartCount"]) == (
            False, False, 0,
        )  # fmt: skip
        await node.restarted(1)

    on_node(scenario)


def test_a_startup_probe_that_never_succeeds(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        startup = {"exec": {"command": ["sh", "-c", "exit 1"]}, "failureThreshold": 3}
        await node.create_pod(containers=[web(startupProbe=startup)])
        await node.restarted(1)
        events = await node.events()
        assert ("Killing", "Container web failed startup probe, will be restarted") in events

    on_node(scenario)


def test_56_a_probe_that_hangs_fails(on_node: OnNode) -> None:
    """kubernetes/kubernetes#43811, #94080, #107306, #51901."""

    async def scenario(node: Scene) -> None:
        probe = {
            "exec": {"command": ["sh", "-c", "sleep 60"]},
            "timeoutSeconds": 2,
            "periodSeconds": 5,
            "failureThreshold": 2,
        }
        await node.create_pod(containers=[web(livenessProbe=probe)])
        await node.restarted(1)

    on_node(scenario)


def test_readiness_comes_and_goes(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 2}
        await node.create_pod(containers=[web(readinessProbe=probe)])
        await node.ready()
        healthy = node.runtime.exec

        async def failing(container_id: str, command: list[str], **options: Any) -> Any:
            return await healthy(container_id, ["sh", "-c", "exit 1"], **options)

        node.runtime.exec = failing
        await node.until(lambda s: not s["containerStatuses"][0]["ready"])
        node.runtime.exec = healthy
        await node.ready()

    on_node(scenario)
