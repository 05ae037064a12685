"""Whole clusters in virtual time: what holds at every step, whatever the seed and the network.

In all of them `World` holds that no pod changes its node and that no node is overcommitted, and at
the end that every write which was acknowledged is in the store's history.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from shepherd.api.kinds import DEPLOYMENT, EVENT, NODE, POD, REPLICA_SET
from shepherd.api.resource import Object
from shepherd.testing.simulation import Simulation, run_simulation
from shepherd.testing.virtual import eventually
from shepherd.testing.wire import Faults
from shepherd.testing.world import World

LOSSY = Faults(lost_request=0.05, lost_response=0.05, delay_seconds=0.3)
DOUBLING = Faults(doubled=0.2, delay_seconds=0.3)
"""A doubled create with generateName makes two pods, as in Kubernetes: it may pass a bound for the
moment that the controller needs to notice, so this network is for what must come right in the end.
"""
SEEDS = (3, 4, 6, 11)
IMAGE = "shepherd.local/demo:1"


def deployment(name: str, replicas: int, *, image: str = IMAGE, **spec: Any) -> Object:
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "10m"}}}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **spec,
        },
    }


async def rolled_out(cluster: Simulation, name: str, within_seconds: float = 300.0) -> None:
    """Wait until all pods of a deployment are of its newest template and available."""

    async def holds() -> bool:
        found = await cluster.client.get(DEPLOYMENT, name, "default")
        status, wanted = found.get("status", {}), found["spec"]["replicas"]
        counts = [status.get(f"{kind}eplicas", 0) for kind in ("r", "updatedR", "availableR")]
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return current and counts == [wanted] * 3

    await eventually(
        holds, within_seconds=within_seconds, every_seconds=0.5, what=f"rolling out {name}"
    )


async def new_image(cluster: Simulation, name: str, image: str) -> None:
    container = {"name": "main", "image": image}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    await cluster.client.patch(DEPLOYMENT, name, "default", patch, type="strategic")


def living(world: World) -> list[Object]:
    return [pod for pod in world.of(POD) if "deletionTimestamp" not in pod["metadata"]]


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def available(least: int) -> Callable[[World], None]:
    """At least so many pods are ready, those not counted that are being deleted."""

    def check(world: World) -> None:
        ready = sum(map(is_ready, living(world)))
        assert ready >= least, f"{ready} pods ready at revision {world.revision}"

    return check


def pods_at_most(most: int) -> Callable[[World], None]:
    def check(world: World) -> None:
        pods = len(living(world))
        assert pods <= most, f"{pods} pods at revision {world.revision}"

    return check


def asked_at_most(most: int) -> Callable[[World], None]:
    """The ReplicaSets together ask for no more. (Pods can be more for the moment that a lost
    deletion takes to be repeated, in Kubernetes too.)"""

    def check(world: World) -> None:
        asked = sum(item["spec"]["replicas"] for item in world.of(REPLICA_SET))
        assert asked <= most, f"{asked} pods asked for at revision {world.revision}"

    return check


def nodes_of(world: World) -> Counter[str]:
    return Counter(pod["spec"].get("nodeName", "") for pod in living(world))


def test_every_part_owns_what_it_writes() -> None:
    def owners(obj: Object) -> set[tuple[str, str]]:
        entries = obj["metadata"]["managedFields"]
        return {(entry["manager"], entry.get("subresource", "")) for entry in entries}

    async def scenario(cluster: Simulation) -> None:
        manifest = deployment("web", 2)
        params = {"fieldManager": "me"}
        await cluster.client.create(DEPLOYMENT, manifest, params=params)
        await rolled_out(cluster, "web")
        found = await cluster.client.get(DEPLOYMENT, "web", "default")
        controllers = "kube-controller-manager"
        assert owners(found) == {("me", ""), (controllers, ""), (controllers, "status")}
        for pod in (await cluster.client.list(POD, "default")).items:
            assert owners(pod) >= {(controllers, ""), ("shepherd-agent", "status")}

    run_simulation(scenario, seed=1, nodes=1)


def test_fifty_replicas_become_ready_evenly_spread() -> None:
    async def scenario(cluster: Simulation) -> None:
        await cluster.client.create(DEPLOYMENT, deployment("web", 50))
        await rolled_out(cluster, "web", within_seconds=10.0)
        assert nodes_of(cluster.world) == {f"n{number}": 10 for number in range(1, 6)}

    run_simulation(scenario, seed=1, nodes=5)


@pytest.mark.parametrize("faults", [Faults(), LOSSY], ids=["sound", "lossy"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_rolling_update_keeps_its_bounds_at_every_step(seed: int, faults: Faults) -> None:
    async def scenario(cluster: Simulation) -> None:
        strategy = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
        await cluster.client.create(DEPLOYMENT, deployment("web", 8, strategy=strategy))
        await rolled_out(cluster, "web")
        cluster.world.always(available(least=7))
        cluster.world.always(asked_at_most(10))
        if faults is not LOSSY:
            cluster.world.always(pods_at_most(10))
        await new_image(cluster, "web", "shepherd.local/demo:2")
        await rolled_out(cluster, "web")
        images = {pod["spec"]["containers"][0]["image"] for pod in living(cluster.world)}
        assert images == {"shepherd.local/demo:2"}

    run_simulation(scenario, seed=seed, nodes=3, faults=faults)


@pytest.mark.parametrize("seed", SEEDS)
def test_doubled_requests_come_right_in_the_end(seed: int) -> None:
    async def scenario(cluster: Simulation) -> None:
        await cluster.client.create(DEPLOYMENT, deployment("web", 8))
        await rolled_out(cluster, "web")
        await new_image(cluster, "web", "shepherd.local/demo:2")
        await rolled_out(cluster, "web")
        await eventually(lambda: len(living(cluster.world)) == 8, what="exactly eight pods")

    run_simulation(scenario, seed=seed, nodes=3, faults=DOUBLING)


@pytest.mark.parametrize(
    ("container", "cause"),
    [
        ({"resources": {"requests": {"cpu": "5"}}}, "1 Insufficient cpu."),
        (
            {"ports": [{"containerPort": 80, "hostPort": 80}]},
            "1 node(s) didn't have free ports for the requested pod ports.",
        ),
    ],
)
def test_a_rollout_without_room_says_so_and_goes_through_with_less_surge(
    container: Object, cause: str
) -> None:
    """JiRaska/open-bank-oss#3545: the node is full. kubernetes/ingress-nginx#4626,
    rancher/rancher#14048: the old pod holds the host port. kubernetes/kubernetes#126879: no new
    pod after the other meanwhile."""

    async def scenario(cluster: Simulation) -> None:
        body = deployment("web", 1)
        body["spec"]["template"]["spec"]["containers"][0] |= container
        await cluster.client.create(DEPLOYMENT, body)
        await rolled_out(cluster, "web")
        await new_image(cluster, "web", "shepherd.local/demo:2")

        async def told() -> Object | None:
            found = await cluster.client.get(DEPLOYMENT, "web", "default")
            conditions = found["status"]["conditions"]
            return next((c for c in conditions if c["type"] == "PodsScheduled"), None)

        async def stuck() -> bool:
            return await told() is not None

        async def event() -> bool:
            events = (await cluster.client.list(EVENT, "default")).items
            return "NoRoomForSurge" in {event["reason"] for event in events}

        await eventually(stuck, what="the condition")
        await eventually(event, what="the event")
        await cluster.clock.sleep(3600.0)
        condition = await told()
        assert condition
        assert (condition["status"], condition["reason"]) == ("False", "NoRoomForSurge")
        assert condition["message"] == (
            f"1 of 1 new pods fit on no node: 0/1 nodes are available: {cause} The rollout needs "
            "room for 1 more beside the old ones, or a lower "
            "spec.strategy.rollingUpdate.maxSurge: with 0 old pods make room first."
        )
        assert len(living(cluster.world)) == 2
        less = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
        await cluster.client.patch(DEPLOYMENT, "web", "default", {"spec": {"strategy": less}})
        await rolled_out(cluster, "web")
        assert await told() is None

    run_simulation(scenario, seed=1, nodes=1)


def test_a_node_that_refuses_its_pods_is_not_flooded() -> None:
    """kubernetes/kubernetes#94245, #55051; canonical/microk8s#3143: the template names a node that
    takes no such pod, and its controller made thousands of them."""

    async def scenario(cluster: Simulation) -> None:
        body = deployment("web", 1)
        body["spec"]["template"]["spec"] |= {"nodeName": "n1", "nodeSelector": {"disk": "ssd"}}
        await cluster.client.create(DEPLOYMENT, body)
        await cluster.clock.sleep(4 * 3600.0)
        pods = (await cluster.client.list(POD, "default")).items
        assert {pod["status"].get("reason") for pod in pods} == {"NodeAffinity"}
        assert 10 < len(pods) < 4 * 12 + 10  # one in five minutes, in the end
        events = (await cluster.client.list(EVENT, "default")).items
        told = [event for event in events if event["involvedObject"]["kind"] == "ReplicaSet"]
        assert len(told) <= 12
        assert any(event["message"].startswith("(combined") for event in told)

    run_simulation(scenario, seed=1, nodes=1)


def test_pods_of_a_lost_node_are_replaced_after_their_toleration() -> None:
    """kubernetes/kubernetes#74689, #103929: a node stops without a word."""

    async def scenario(cluster: Simulation) -> None:
        await cluster.client.create(DEPLOYMENT, deployment("web", 9))
        await rolled_out(cluster, "web")
        await cluster.lose_node("n1")
        lost_at = cluster.clock.monotonic()

        async def unreachable() -> bool:
            conditions = (await cluster.client.get(NODE, "n1"))["status"]["conditions"]
            return ("Ready", "Unknown") in [(c["type"], c["status"]) for c in conditions]

        await eventually(unreachable, within_seconds=60.0, what="noticing the loss")
        assert nodes_of(cluster.world)["n1"] == 3
        await eventually(
            lambda: "n1" not in nodes_of(cluster.world), within_seconds=400.0, what="evictions"
        )
        assert cluster.clock.monotonic() - lost_at > 300.0
        await rolled_out(cluster, "web", within_seconds=30.0)
        assert sorted(nodes_of(cluster.world)) == ["n2", "n3"]

    run_simulation(scenario, seed=1, nodes=3)


def test_a_node_that_is_cut_off_and_returns_keeps_its_pods() -> None:
    async def scenario(cluster: Simulation) -> None:
        await cluster.client.create(DEPLOYMENT, deployment("web", 6))
        await rolled_out(cluster, "web")
        before = {pod["metadata"]["uid"] for pod in living(cluster.world)}
        cluster.nodes["n1"].wire.cut.set()
        await cluster.clock.sleep(120.0)
        cluster.nodes["n1"].wire.cut.clear()
        await rolled_out(cluster, "web")
        await cluster.clock.sleep(600.0)
        assert {pod["metadata"]["uid"] for pod in living(cluster.world)} == before

    run_simulation(scenario, seed=1, nodes=3)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_server_restarts_in_the_middle_of_a_rollout(seed: int) -> None:
    async def scenario(cluster: Simulation) -> None:
        await cluster.client.create(DEPLOYMENT, deployment("web", 12))
        chance = cluster.random("test")
        for _ in range(3):
            await cluster.clock.sleep(chance.uniform(0.0, 0.5))
            await cluster.restart_server(down_seconds=chance.uniform(0.1, 20.0))
        await rolled_out(cluster, "web")
        assert len(living(cluster.world)) == 12

    run_simulation(scenario, seed=seed, nodes=3)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_part_restarts_in_the_middle_of_a_rollout(seed: int) -> None:
    async def scenario(cluster: Simulation) -> None:
        await cluster.client.create(DEPLOYMENT, deployment("web", 8))
        await rolled_out(cluster, "web")
        cluster.world.always(available(least=6))
        cluster.world.always(asked_at_most(10))
        await new_image(cluster, "web", "shepherd.local/demo:2")
        chance = cluster.random("test")
        for name in ("n1", "n2", "n3"):
            await cluster.clock.sleep(chance.uniform(0.0, 0.5))
            await cluster.restart_control_plane()
            await cluster.clock.sleep(chance.uniform(0.0, 0.5))
            await cluster.stop_agent(name)
            cluster.start_node(name)
        await rolled_out(cluster, "web")

    run_simulation(scenario, seed=seed, nodes=3)


def test_the_same_seed_takes_the_same_steps() -> None:
    def history(seed: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []

        async def scenario(cluster: Simulation) -> None:
            await cluster.client.create(DEPLOYMENT, deployment("web", 10))
            await rolled_out(cluster, "web")
            found.extend(
                (pod["metadata"]["name"], pod["spec"]["nodeName"]) for pod in living(cluster.world)
            )

        run_simulation(scenario, seed=seed, nodes=3, faults=LOSSY)
        return found

    assert history(5) == history(5)
    assert history(5) != history(6)
