"""Pods get other resources while they run, in virtual time."""

from typing import Any

from shepherd.api.kinds import NODE, POD
from shepherd.api.quantity import millis
from shepherd.runtime.base import Resources, SheepError
from shepherd.testing.virtual import eventually

OnNode = Any
Scene = Any


def web(cpu: str, memory: str = "64Mi", name: str = "web", **more: Any) -> dict[str, Any]:
    resources = {"cpu": cpu, "memory": memory}
    return {"name": name, "image": "web:1", **more,
            "resources": {"requests": resources, "limits": resources}}  # fmt: skip


async def resize(node: Scene, cpu: str, memory: str = "64Mi", name: str = "web") -> Any:
    patch = {"spec": {"containers": [{"name": "web", "resources": web(cpu, memory)["resources"]}]}}
    return await node.client.patch(POD, name, "default", patch, type="strategic", sub="resize")


def actual(status: Any) -> tuple[str, str, int]:
    """CPU limit and memory limit that hold, and restarts."""
    (container,) = status["containerStatuses"]
    limits = container["resources"]["limits"]
    return limits["cpu"], limits["memory"], container["restartCount"]


def condition(status: Any, type: str) -> Any:
    return next((c for c in status["conditions"] if c["type"] == type), None)


async def reasons(node: Scene) -> list[str]:
    return [reason for reason, _ in await node.events() if reason.startswith("Resize")]


async def running(node: Scene) -> Any:
    (sandbox,) = await node.runtime.sandboxes()
    return sandbox


def test_in_place(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[web("100m")])
        before = (await node.ready())["containerStatuses"][0]
        assert before["allocatedResources"] == {"cpu": "100m", "memory": "64Mi"}
        pod = await resize(node, "200m", "128Mi")
        assert pod["metadata"]["generation"] == 2
        status = await node.until(lambda s: actual(s) == ("200m", "128Mi", 0))
        assert status["containerStatuses"][0]["containerID"] == before["containerID"]
        assert status["containerStatuses"][0]["allocatedResources"]["cpu"] == "200m"
        await node.until(lambda s: not condition(s, "PodResizeInProgress"))
        assert (await node.status())["observedGeneration"] == 2
        sandbox = await running(node)
        assert sandbox.resources == sandbox.containers[0].resources
        assert sandbox.resources == Resources(200, 128 << 20, 200, 128 << 20)
        await eventually(lambda: _has(node, ["ResizeStarted", "ResizeCompleted"]))

    on_node(scenario)


async def _has(node: Scene, wanted: list[str]) -> bool:
    return await reasons(node) == wanted


def test_a_policy_may_ask_for_a_restart(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        await node.create_pod(containers=[web("100m", resizePolicy=policy)])
        await node.ready()
        await resize(node, "200m")
        await node.until(lambda s: actual(s) == ("200m", "64Mi", 0))
        await resize(node, "200m", "32Mi")
        await node.until(lambda s: "resources" in s["containerStatuses"][0]
                         and actual(s) == ("200m", "32Mi", 1))  # fmt: skip
        await node.ready()
        assert ("Killing", "Container web resize requires restart") in await node.events()
        await eventually(lambda: _has(node, ["ResizeStarted", "ResizeCompleted"] * 2))
        await node.restart_agent()
        await node.clock.sleep(60)
        assert actual(await node.status()) == ("200m", "32Mi", 1)

    on_node(scenario)


def test_what_does_not_fit_waits_for_room(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.node_ready()
        whole = await _cores(node)
        most = f"{whole - 200}m"
        await node.create_pod("other", containers=[web(most)])
        await node.ready("other")
        await node.create_pod(containers=[web("100m")])
        await node.ready()
        await resize(node, "300m")
        status = await node.until(lambda s: condition(s, "PodResizePending"))
        pending = condition(status, "PodResizePending")
        assert (pending["reason"], pending["observedGeneration"]) == ("Deferred", 2)
        assert "Node didn't have enough resource: cpu, requested: 300" in pending["message"]
        assert status["containerStatuses"][0]["allocatedResources"]["cpu"] == "100m"
        assert actual(status) == ("100m", "64Mi", 0)
        await node.restart_agent()
        await node.clock.sleep(30)
        status = await node.status()
        assert actual(status) == ("100m", "64Mi", 0)
        assert condition(status, "PodResizePending")["reason"] == "Deferred"
        await node.client.delete(POD, "other", "default")
        await node.until(lambda s: actual(s) == ("300m", "64Mi", 0))
        await node.until(lambda s: not condition(s, "PodResizePending"))
        assert "ResizeDeferred" in await reasons(node)

    on_node(scenario)


async def _cores(node: Scene) -> int:
    found = await node.client.get(NODE, "n1")
    return millis(found["status"]["allocatable"]["cpu"])


def test_what_never_fits_is_infeasible(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[web("100m")])
        await node.ready()
        await resize(node, "1000")
        status = await node.until(lambda s: condition(s, "PodResizePending"))
        pending = condition(status, "PodResizePending")
        assert pending["reason"] == "Infeasible"
        assert pending["message"].startswith(
            "Node didn't have enough capacity: cpu, requested: 1000000, capacity: "
        )
        assert actual(status) == ("100m", "64Mi", 0)
        await resize(node, "150m")
        await node.until(lambda s: actual(s) == ("150m", "64Mi", 0))
        await node.until(lambda s: not condition(s, "PodResizePending"))

    on_node(scenario)


def test_what_fails_is_told_and_tried_again(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[web("100m")])
        await node.ready()
        fine = node.runtime.resize_container

        async def refuse(container_id: str, resources: Resources) -> None:
            raise SheepError("ResizeError", "too much is in use")

        node.runtime.resize_container = refuse
        await resize(node, "100m", "32Mi")
        status = await node.until(
            lambda s: (condition(s, "PodResizeInProgress") or {}).get("reason") == "Error"
        )
        assert condition(status, "PodResizeInProgress")["message"] == "too much is in use"
        node.runtime.resize_container = fine
        await node.until(lambda s: actual(s) == ("100m", "32Mi", 0), within_seconds=30)
        await node.until(lambda s: not condition(s, "PodResizeInProgress"))

    on_node(scenario)


def test_an_agent_finds_what_its_predecessor_left_undone(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[web("100m")])
        await node.ready()
        await node.stop_agent()
        await resize(node, "200m")
        node.start_agent()
        status = await node.until(lambda s: actual(s) == ("200m", "64Mi", 0))
        assert status["containerStatuses"][0]["containerID"].endswith("-web-0")

    on_node(scenario)
