"""ReplicationControllers; and all sets under faults: one pod for each identity, whatever fails."""

from collections.abc import Awaitable, Callable
from typing import Any

from shepherd.api.kinds import POD
from shepherd.api.kinds.replicationcontrollers import REPLICATION_CONTROLLER
from shepherd.api.resource import Object
from shepherd.testing.control_plane import ControlPlane, StandInNodes
from shepherd.testing.virtual import eventually, run_virtual

Story = Callable[[ControlPlane, StandInNodes], Awaitable[None]]
LABELS = {"app": "web"}


def play(story: Story) -> None:
    """Run a story on a cluster of three stand-in nodes."""

    async def main() -> None:
        async with ControlPlane.open() as plane:
            nodes = StandInNodes(plane, "n1", "n2", "n3")
            async with nodes.up():
                await story(plane, nodes)

    run_virtual(main())


def template(image: str = "demo:1", **spec: Any) -> Object:
    containers = [{"name": "web", "image": image}]
    return {"metadata": {"labels": LABELS}, "spec": {"containers": containers} | spec}


async def pods_are(plane: ControlPlane, count: int) -> None:
    async def so() -> bool:
        return len(await plane.items(POD)) == count

    await eventually(so, what=f"{count} pods")


def test_a_replication_controller_keeps_its_number_of_pods() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        meta = {"name": "web", "namespace": "default"}
        spec = {"replicas": 2, "selector": LABELS, "template": template()}
        body = {"kind": "ReplicationController", "apiVersion": "v1"}
        made = await plane.client.create(
            REPLICATION_CONTROLLER, body | {"metadata": meta, "spec": spec}
        )
        await plane.until(
            REPLICATION_CONTROLLER, "web", lambda o: o["status"].get("availableReplicas") == 2
        )
        victim = (await plane.items(POD))[0]["metadata"]
        owner = victim["ownerReferences"][0]
        assert (owner["kind"], owner["uid"]) == ("ReplicationController", made["metadata"]["uid"])
        await plane.client.delete(POD, victim["name"], "default", grace_seconds=0)
        await pods_are(plane, 2)
        scale = {"spec": {"replicas": 0}}
        await plane.client.patch(REPLICATION_CONTROLLER, "web", "default", scale, sub="scale")
        await pods_are(plane, 0)

    play(story)
