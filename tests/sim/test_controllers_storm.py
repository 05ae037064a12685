"""Whatever users and machines do, the controllers settle on what was asked last."""

from random import Random
from typing import Any

import pytest

from shepherd.api.errors import ApiError
from shepherd.api.kinds import DEPLOYMENT, ENDPOINT_SLICE, NODE, POD, REPLICA_SET, SERVICE
from shepherd.api.resource import Object
from shepherd.testing.control_plane import ControlPlane, StandInNodes
from shepherd.testing.virtual import eventually, run_virtual

NAMES = ("red", "green", "blue")
NODES = ("n1", "n2", "n3")
MINUTES = 30


def deployment(name: str, random: Random) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container("v0")]}}
    recreate = random.random() < 0.3
    rolling = {"maxSurge": random.choice([0, 1, "50%"]), "maxUnavailable": random.choice([0, 1, 2])}
    if not rolling["maxSurge"] and not rolling["maxUnavailable"]:
        rolling["maxSurge"] = 1
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": random.randrange(6),
            "selector": {"matchLabels": labels},
            "template": template,
            "minReadySeconds": random.choice([0, 0, 5]),
            "strategy": {"type": "Recreate"} if recreate else {"rollingUpdate": rolling},
        },
    }


def container(image: str) -> Object:
    return {"name": "c", "image": image}


class Storm:
    """Random deeds of users and random failures of nodes."""

    def __init__(self, plane: ControlPlane, nodes: StandInNodes, random: Random) -> None:
        self.plane = plane
        self.nodes = nodes
        self.random = random

    async def blow(self) -> None:
        deeds = (self.scale, self.scale, self.roll, self.roll, self.pause, self.delete_pod,
                 self.remake, self.relabel, self.lose_node, self.return_nodes)  # fmt: skip
        try:
            await self.random.choice(deeds)(self.random.choice(NAMES))
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def patch(self, name: str, spec: Object) -> None:
        patch = {"spec": spec}
        await self.plane.client.patch(DEPLOYMENT, name, "default", patch, type="strategic")

    async def scale(self, name: str) -> None:
        await self.patch(name, {"replicas": self.random.randrange(8)})

    async def roll(self, name: str) -> None:
        image = f"v{self.random.randrange(4)}"
        await self.patch(name, {"template": {"spec": {"containers": [container(image)]}}})

    async def pause(self, name: str) -> None:
        await self.patch(name, {"paused": self.random.random() < 0.5})

    async def delete_pod(self, name: str) -> None:
        pod = await self.some_pod()
        grace = self.random.choice([None, 0])
        await self.plane.client.delete(POD, pod["name"], "default", grace_seconds=grace)

    async def relabel(self, name: str) -> None:
        """A pod is taken out of its set for a look at it, and then thrown away."""
        pod = await self.some_pod()
        labels = {"metadata": {"labels": {"app": "debug"}}}
        await self.plane.client.patch(POD, pod["name"], "default", labels)
        await self.plane.clock.sleep(5)
        await self.plane.client.delete(POD, pod["name"], "default", grace_seconds=0)

    async def remake(self, name: str) -> None:
        way = self.random.choice(["Background", "Foreground", "Orphan"])
        await self.return_nodes(name)  # A foreground deletion waits for pods of lost nodes.
        await self.plane.client.delete(DEPLOYMENT, name, "default", propagation=way)

        async def gone() -> bool:
            return await self.plane.find(DEPLOYMENT, name) is None

        await eventually(gone, within_seconds=200)
        await self.plane.client.create(DEPLOYMENT, deployment(name, self.random))

    async def lose_node(self, name: str) -> None:
        self.nodes.kill(self.random.choice(NODES[1:]))

    async def return_nodes(self, name: str) -> None:
        for node in NODES:
            await self.nodes.revive(node)

    async def some_pod(self) -> Object:
        pods = await self.plane.items(POD)
        if not pods:
            raise ApiError(404, "NotFound", "no pods")
        meta: Object = self.random.choice(pods)["metadata"]
        return meta


async def settled(plane: ControlPlane) -> bool:
    pods = await plane.items(POD)
    slices = await plane.items(ENDPOINT_SLICE)
    wanted: list[tuple[str, str]] = []
    for name in NAMES:
        web = await plane.find(DEPLOYMENT, name)
        assert web
        [used] = web["spec"]["template"]["spec"]["containers"]
        wanted += [(name, used["image"])] * web["spec"]["replicas"]
        status: dict[str, Any] = web.get("status", {})
        counters = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        if {status.get(counter, 0) for counter in counters} != {web["spec"]["replicas"]}:
            return False
        addresses = {
            endpoint["addresses"][0]
            for item in slices
            if item["metadata"]["labels"].get("kubernetes.io/service-name") == name
            for endpoint in item.get("endpoints") or []
            if endpoint["conditions"]["ready"]
        }
        mine = [pod for pod in pods if pod["metadata"]["labels"]["app"] == name]
        if addresses != {pod["status"]["podIP"] for pod in mine}:
            return False
    return sorted(wanted) == sorted(
        (pod["metadata"]["labels"]["app"], pod["spec"]["containers"][0]["image"]) for pod in pods
    )


@pytest.mark.parametrize("seed", [0, 5, 7, 18, 23])
def test_after_a_storm_everything_is_as_asked(seed: int) -> None:
    async def main() -> None:
        random = Random(seed)
        async with (
            ControlPlane.open(seed=seed) as plane,
            StandInNodes(plane, *NODES).up() as nodes,
        ):
            for name in NAMES:
                meta = {"name": name, "namespace": "default"}
                spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
                service = {"kind": "Service", "apiVersion": "v1", "metadata": meta, "spec": spec}
                await plane.client.create(SERVICE, service)
                await plane.client.create(DEPLOYMENT, deployment(name, random))
            storm = Storm(plane, nodes, random)
            while plane.clock.monotonic() < MINUTES * 60:
                await storm.blow()
                await plane.clock.sleep(random.random() * 40)
            await storm.return_nodes("")
            for name in NAMES:
                await storm.patch(name, {"paused": False})
            await eventually(lambda: settled(plane), within_seconds=600, every_seconds=1)
            await plane.clock.sleep(5)
            revision = plane.store.revision
            sets = await plane.items(REPLICA_SET)
            await plane.clock.sleep(100)
            assert await plane.items(REPLICA_SET) == sets
            leases = 3 * 100 / 10 + 3
            assert plane.store.revision - revision <= leases, "at rest only heartbeats are written"
            for name in NODES:
                node = await plane.find(NODE, name)
                assert node
                assert not node["spec"].get("taints")

    run_virtual(main())
