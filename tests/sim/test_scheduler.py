"""The scheduler over the real API, in virtual time; nodes are objects without agents."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shepherd.api.kinds import EVENT, NAMESPACE, NODE, POD
from shepherd.api.kinds.priorities import PRIORITY_CLASS
from shepherd.api.resource import Object
from shepherd.testing.simulation import Simulation, run_simulation
from shepherd.testing.virtual import eventually
from shepherd.testing.wire import Faults


def node(name: str, *, cpu: str = "2", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "110"}},
    }


def pod(name: str, *, cpu: str = "500m", **spec: Any) -> Object:
    container = {"name": "main", "image": "demo:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


class Scene:
    """A cluster of server and scheduler, and what a user does with it."""

    def __init__(self, cluster: Simulation) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def create(self, *objects: Object) -> None:
        for obj in objects:
            await self.client.create(NODE if obj["kind"] == "Node" else POD, obj)

    async def pod(self, name: str) -> Object:
        return await self.client.get(POD, name, "default")

    async def bound(self, name: str, within_seconds: float = 30.0) -> str:
        """The node that the pod is bound to, once it is."""

        async def holds() -> bool:
            return bool((await self.pod(name))["spec"].get("nodeName"))

        await eventually(holds, within_seconds=within_seconds, what=f"binding {name}")
        return str((await self.pod(name))["spec"]["nodeName"])

    async def pending(self, name: str) -> Any:
        """The condition that says why the pod is not scheduled, once it is there."""

        async def holds() -> bool:
            return bool(await self.condition(name))

        await eventually(holds, what=f"a condition of {name}")
        return await self.condition(name)

    async def condition(self, name: str) -> Any:
        for condition in (await self.pod(name))["status"].get("conditions", []):
            if condition["type"] == "PodScheduled":
                return condition
        return None

    async def events(self, name: str) -> list[tuple[str, str, str]]:
        found = await self.client.list(EVENT, "default")
        return [
            (event["type"], event["reason"], event["message"])
            for event in found.items
            if event["involvedObject"]["name"] == name
        ]


Scenario = Callable[[Scene], Awaitable[None]]


def with_scheduler(scenario: Scenario, *, seed: int = 1, faults: Faults | None = None) -> None:
    async def run(cluster: Simulation) -> None:
        await scenario(Scene(cluster))

    run_simulation(run, seed=seed, controllers=False, faults=faults or Faults())


def test_a_pod_is_bound_and_an_event_says_where() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(node("a"), pod("p"))
        assert await scene.bound("p") == "a"
        assert (await scene.condition("p"))["status"] == "True"

        async def told() -> bool:
            message = "Successfully assigned default/p to a"
            return ("Normal", "Scheduled", message) in await scene.events("p")

        await eventually(told, what="the event")

    with_scheduler(scenario)


def test_a_pod_that_fits_nowhere_says_why_once() -> None:
    """hashicorp/nomad#24824: a constraint that no node meets is told, and once."""

    async def scenario(scene: Scene) -> None:
        await scene.create(node("a"), node("b", unschedulable=True), pod("p", cpu="3"))
        condition = await scene.pending("p")
        message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
        assert (condition["status"], condition["reason"], condition["message"]) == (
            "False", "Unschedulable", message,
        )  # fmt: skip
        await scene.cluster.clock.sleep(60.0)
        assert await scene.events("p") == [("Warning", "FailedScheduling", message)]

    with_scheduler(scenario)


async def _room_by_deleting(scene: Scene) -> None:
    await scene.client.delete(POD, "first", "default", grace_seconds=0)


async def _room_by_a_node(scene: Scene) -> None:
    await scene.create(node("b"))


async def _room_by_uncordoning(scene: Scene) -> None:
    await scene.client.patch(NODE, "cordoned", None, {"spec": {"unschedulable": None}})


async def _room_by_growing(scene: Scene) -> None:
    patch = {"status": {"allocatable": {"cpu": "4"}}}
    await scene.client.patch(NODE, "a", None, patch, sub="status")


async def _room_by_finishing(scene: Scene) -> None:
    patch = {"status": {"phase": "Succeeded"}}
    await scene.client.patch(POD, "first", "default", patch, sub="status")


ROOM = [
    _room_by_deleting,
    _room_by_a_node,
    _room_by_uncordoning,
    _room_by_growing,
    _room_by_finishing,
]


@pytest.mark.parametrize("make_room", ROOM)
def test_a_pending_pod_is_bound_as_soon_as_there_is_room(make_room: Scenario) -> None:
    async def scenario(scene: Scene) -> None:
        cordoned = node("cordoned", unschedulable=True)
        await scene.create(node("a"), cordoned, pod("first", cpu="2"))
        await scene.bound("first")
        await scene.create(pod("second", cpu="1500m"))
        await scene.pending("second")
        await scene.cluster.clock.sleep(20.0)
        await make_room(scene)
        await scene.bound("second", within_seconds=1.0)

    with_scheduler(scenario)


def test_an_event_that_cannot_help_wakes_nobody() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(node("a"), pod("big", cpu="3"))
        await scene.pending("big")
        await scene.cluster.clock.sleep(20.0)
        before = scene.cluster.store.revision
        await scene.create(node("small", cpu="1"))
        await scene.cluster.clock.sleep(20.0)
        assert scene.cluster.store.revision == before + 1

    with_scheduler(scenario)


def test_gates_hold_a_pod_until_they_are_removed() -> None:
    async def scenario(scene: Scene) -> None:
        gated = pod("p", schedulingGates=[{"name": "example.com/wait"}])
        await scene.create(node("a"), gated)
        condition = await scene.pending("p")
        assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
        patch = [{"op": "remove", "path": "/spec/schedulingGates"}]
        await scene.client.patch(POD, "p", "default", patch, type="json")
        assert await scene.bound("p", within_seconds=1.0) == "a"

    with_scheduler(scenario)


def test_pods_of_other_schedulers_are_left_alone() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(node("a"), pod("theirs", schedulerName="other"), pod("ours"))
        await scene.bound("ours")
        theirs = await scene.pod("theirs")
        assert "nodeName" not in theirs["spec"]
        assert "conditions" not in theirs["status"]

    with_scheduler(scenario)


def test_pods_bound_by_hand_take_their_place() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(node("a"), pod("by-hand", cpu="1500m", nodeName="a"), pod("p", cpu="1"))
        assert "Insufficient cpu" in (await scene.pending("p"))["message"]

    with_scheduler(scenario)


def test_higher_priority_goes_first() -> None:
    async def scenario(scene: Scene) -> None:
        urgent = {"metadata": {"name": "urgent"}, "value": 10}
        await scene.client.create(PRIORITY_CLASS, urgent)
        urgent_pod = pod("high", cpu="2", priorityClassName="urgent")
        await scene.create(pod("low", cpu="2"), urgent_pod)
        await scene.pending("low")
        await scene.pending("high")
        await scene.cluster.clock.sleep(20.0)
        await scene.create(node("a"))
        assert await scene.bound("high") == "a"
        assert "nodeName" not in (await scene.pod("low"))["spec"]

    with_scheduler(scenario)


def test_pod_affinity_sees_the_labels_of_namespaces_change() -> None:
    async def scenario(scene: Scene) -> None:
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {},
            "namespaceSelector": {"matchLabels": {"team": "blue"}},
        }
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        await scene.create(node("a"), pod("first"))
        await scene.bound("first")
        await scene.create(pod("near", affinity={"podAffinity": required}))
        assert "pod affinity rules" in (await scene.pending("near"))["message"]
        await scene.cluster.clock.sleep(20.0)
        patch = {"metadata": {"labels": {"team": "blue"}}}
        await scene.client.patch(NAMESPACE, "default", None, patch)
        assert await scene.bound("near", within_seconds=1.0) == "a"

    with_scheduler(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_every_pod_is_bound_once_though_requests_get_lost_and_doubled(seed: int) -> None:
    """`World` holds that no pod moves and no node is overcommitted."""

    async def scenario(scene: Scene) -> None:
        await scene.create(*(node(f"n{i}") for i in range(6)))
        await scene.create(*(pod(f"p{i}") for i in range(24)))  # exactly what fits
        for i in range(24):
            await scene.bound(f"p{i}", within_seconds=120.0)

    faults = Faults(lost_request=0.1, lost_response=0.1, doubled=0.1, delay_seconds=0.2)
    with_scheduler(scenario, seed=seed, faults=faults)
