"""ReplicationControllers; and all sets under faults: one pod for each identity, whatever fails."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from shepherd.api.kinds import POD
from shepherd.api.kinds.daemonsets import DAEMON_SET
from shepherd.api.kinds.replicationcontrollers import CONTROLLER_REVISION, REPLICATION_CONTROLLER
from shepherd.api.kinds.statefulsets import STATEFUL_SET
from shepherd.api.objects import Pod, decode
from shepherd.api.resource import Object
from shepherd.controllers.daemonset_pods import node_of
from shepherd.runtime.base import ContainerState
from shepherd.testing.control_plane import ControlPlane, StandInNodes, play
from shepherd.testing.simulation import Simulation, run_simulation
from shepherd.testing.virtual import eventually
from shepherd.testing.wire import Faults
from shepherd.testing.world import World

LABELS = {"app": "web"}


def template(image: str = "demo:1", **spec: Any) -> Object:
    containers = [{"name": "web", "image": image}]
    return {"metadata": {"labels": LABELS}, "spec": {"containers": containers} | spec}


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
        await plane.pods_are(2)
        scale = {"spec": {"replicas": 0}}
        await plane.client.patch(REPLICATION_CONTROLLER, "web", "default", scale, sub="scale")
        await plane.pods_are(0)

    play(story)


TROUBLED = Faults(
    lost_request=0.05, lost_response=0.05, doubled=0.1, delay_seconds=0.3, conflict=0.02, cut=0.01
)


def one_daemon_a_node(world: World) -> None:
    """For no node are there two pods of the DaemonSet that have not ended, bound or not."""
    pods = [decode(pod, Pod) for pod in world.of(POD)]
    daemons = [p for p in pods if p.metadata.labels["app"] == "agent" and not p.finished]
    on = Counter(map(node_of, daemons))
    assert not on or max(on.values()) == 1, on


async def one_body_an_identity(cluster: Simulation, until_seconds: float) -> None:
    """Look again and again at what really runs: nowhere is a second web-0."""
    while cluster.clock.monotonic() < until_seconds:
        running: Counter[str] = Counter()
        for machine in list(cluster.nodes.values()):
            for sandbox in await machine.runtime.sandboxes():
                if any(c.state is ContainerState.RUNNING for c in sandbox.containers):
                    running[sandbox.pod_name] += 1
        assert not running or max(running.values()) == 1, running
        await cluster.clock.sleep(0.2)


def workload(kind: str, name: str, image: str, **spec: Any) -> Object:
    labels = {"app": name}
    container = {"name": "main", "image": image}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 2},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod} | spec,
    }


def image(number: int) -> str:
    return f"shepherd.local/demo:{number}"


class Trouble:
    """What users, machines and networks do to the sets."""

    def __init__(self, cluster: Simulation, random: Random) -> None:
        self.cluster = cluster
        self.random = random

    async def strike(self) -> None:
        deeds = (self.roll, self.scale, self.delete_pod, self.restart, self.cut_off, self.reconnect)
        await self.random.choice(deeds)()

    async def roll(self) -> None:
        kind = self.random.choice([STATEFUL_SET, DAEMON_SET])
        name = "web" if kind is STATEFUL_SET else "agent"
        container = {"name": "main", "image": image(self.random.randrange(4))}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await self.cluster.client.patch(kind, name, "default", patch, type="strategic")

    async def scale(self) -> None:
        patch = {"spec": {"replicas": self.random.randrange(5)}}
        await self.cluster.client.patch(STATEFUL_SET, "web", "default", patch)

    async def delete_pod(self) -> None:
        """As a user should: never by force, while the node may run it."""
        pods = await self.cluster.list(POD, "default")
        if pods:
            name = self.random.choice(pods)["metadata"]["name"]
            await self.cluster.client.delete(POD, name, "default")

    async def restart(self) -> None:
        await self.cluster.restart_control_plane()

    async def cut_off(self) -> None:
        """A node that nobody hears goes on running what it has."""
        self.cluster.nodes[self.random.choice(["n2", "n3"])].wire.cut.set()

    async def reconnect(self) -> None:
        for machine in self.cluster.nodes.values():
            machine.wire.cut.clear()


async def settled(cluster: Simulation) -> bool:
    web = await cluster.client.get(STATEFUL_SET, "web", "default")
    agent = await cluster.client.get(DAEMON_SET, "agent", "default")
    replicas, status = web["spec"]["replicas"], web["status"]
    counters = ("replicas", "availableReplicas", "updatedReplicas")
    if {status.get(counter, 0) for counter in counters} != {replicas}:
        return False
    status = agent["status"]
    counters = ("currentNumberScheduled", "numberAvailable", "updatedNumberScheduled")
    if {status.get(counter, 0) for counter in counters} != {3}:
        return False
    used = {
        name: item["spec"]["template"]["spec"]["containers"][0]["image"]
        for name, item in (("web", web), ("agent", agent))
    }
    found = [
        (pod["metadata"]["labels"]["app"], pod["spec"]["containers"][0]["image"])
        for pod in await cluster.list(POD, "default")
    ]
    wanted = [("web", used["web"])] * replicas + [("agent", used["agent"])] * 3
    return sorted(found) == sorted(wanted)


@pytest.mark.parametrize(
    ("seed", "policy"), [(1, "OrderedReady"), (2, "Parallel"), (5, "OrderedReady")]
)
def test_no_identity_and_no_node_ever_has_two_pods(seed: int, policy: str) -> None:
    async def scenario(cluster: Simulation) -> None:
        random, minutes = Random(seed), 8
        cluster.world.always(one_daemon_a_node)
        web = workload("StatefulSet", "web", image(0), replicas=3, podManagementPolicy=policy)
        await cluster.client.create(STATEFUL_SET, web)
        await cluster.client.create(DAEMON_SET, workload("DaemonSet", "agent", image(0)))
        cluster.run("bodies", one_body_an_identity(cluster, minutes * 60 + 300))
        trouble = Trouble(cluster, random)
        while cluster.clock.monotonic() < minutes * 60:
            await trouble.strike()
            await cluster.clock.sleep(random.random() * 60)
        await trouble.reconnect()
        await eventually(lambda: settled(cluster), within_seconds=600, every_seconds=1)
        kinds = (STATEFUL_SET, DAEMON_SET, CONTROLLER_REVISION, POD)
        await cluster.clock.sleep(10)
        rest = [cluster.world.of(kind) for kind in kinds]
        await cluster.clock.sleep(100)
        assert [cluster.world.of(kind) for kind in kinds] == rest, "at rest nothing is written"

    run_simulation(scenario, seed=seed, nodes=3, faults=TROUBLED)
