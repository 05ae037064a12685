"""DaemonSets over the real API, with stand-ins for the nodes, in virtual time."""

from typing import Any

from shepherd.api.kinds import NODE, POD
from shepherd.api.kinds.daemonsets import DAEMON_SET
from shepherd.api.kinds.replicationcontrollers import CONTROLLER_REVISION
from shepherd.api.objects import Pod
from shepherd.api.resource import Object
from shepherd.testing.control_plane import ControlPlane, StandInNodes, play
from shepherd.testing.virtual import eventually

LABELS = {"app": "agent"}
NODES = ("n1", "n2", "n3")


def daemon_set(image: str = "demo:1", pod: Object | None = None, **spec: Any) -> Object:
    containers = [{"name": "agent", "image": image}]
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": containers} | (pod or {})}
    return {
        "kind": "DaemonSet",
        "apiVersion": "apps/v1",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template} | spec,
    }


def with_image(image: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "agent", "image": image}]}}}}


def surge(number: int | str) -> Object:
    rolling = {"maxSurge": number, "maxUnavailable": 0}
    return {"type": "RollingUpdate", "rollingUpdate": rolling}


async def update(plane: ControlPlane, spec: Object) -> None:
    await plane.client.patch(DAEMON_SET, "agent", "default", spec, type="strategic")


async def rollout(plane: ControlPlane, nodes: int = 3, within_seconds: float = 60.0) -> Object:
    """What `kubectl rollout status` waits for, and that no pod is where none should be."""

    def complete(obj: Object) -> bool:
        status = obj["status"]
        return bool(
            status.get("observedGeneration") == obj["metadata"]["generation"]
            and status["desiredNumberScheduled"] == status["currentNumberScheduled"] == nodes
            and status.get("updatedNumberScheduled") == status.get("numberAvailable") == nodes
            and status["numberMisscheduled"] == 0
        )

    return await plane.until(DAEMON_SET, "agent", complete, within_seconds=within_seconds)


async def images(plane: ControlPlane) -> dict[str, str]:
    """By node."""
    pods = await plane.items(POD)
    return {p["spec"]["nodeName"]: p["spec"]["containers"][0]["image"] for p in pods}


async def images_are(plane: ControlPlane, wanted: dict[str, str]) -> None:
    async def so() -> bool:
        pods = await plane.items(POD)
        bound = all(p["spec"].get("nodeName") for p in pods)
        return bound and len(pods) == len(wanted) and await images(plane) == wanted

    await eventually(so, what=f"images {wanted}")


def all_of(image: str) -> dict[str, str]:
    return dict.fromkeys(NODES, image)


class Watch:
    """The most pods that a node had at a time, and the fewest nodes with a ready one."""

    def __init__(self, plane: ControlPlane) -> None:
        self.most_on_a_node = 0
        self.fewest_ready = len(NODES)
        self._pods = plane.manager.informers.pods
        self._pods.on_change(self._changed)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        alive = [p for p in self._pods.all() if not p.finished and p.spec.node_name]
        nodes = [p.spec.node_name for p in alive]
        self.most_on_a_node = max([self.most_on_a_node, *map(nodes.count, nodes)])
        ready = {p.spec.node_name for p in alive if p.ready and not p.metadata.deletion_timestamp}
        self.fewest_ready = min(self.fewest_ready, len(ready))


def test_each_node_gets_a_pod_that_is_bound_by_affinity_and_bears_what_befalls_nodes() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DAEMON_SET, daemon_set())
        agent = await rollout(plane)
        assert await images(plane) == all_of("demo:1")
        status = agent["status"]
        assert (status["numberReady"], status["numberUnavailable"]) == (3, 0)
        pod = (await plane.items(POD))[0]
        [term] = pod["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        name = pod["spec"]["nodeName"]
        assert term == {
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]
        }
        tolerated = {
            f"{t['key'].removeprefix('node.kubernetes.io/')}:{t['effect']}"
            for t in pod["spec"]["tolerations"]
            if t["operator"] == "Exists" and "tolerationSeconds" not in t
        }
        assert tolerated == {
            "not-ready:NoExecute",
            "unreachable:NoExecute",
            "disk-pressure:NoSchedule",
            "memory-pressure:NoSchedule",
            "pid-pressure:NoSchedule",
            "unschedulable:NoSchedule",
        }
        [revision] = await plane.items(CONTROLLER_REVISION)
        found = pod["metadata"]["labels"]["controller-revision-hash"]
        assert revision["metadata"]["name"] == f"agent-{found}"
        await nodes.register("n4")
        await nodes.revive("n4")
        await rollout(plane, nodes=4)

    play(story)


def test_nodes_are_chosen_by_labels_and_taints_and_may_change_their_minds() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        async def patch(name: str, body: Object) -> None:
            await plane.client.patch(NODE, name, None, body, type="merge")

        await patch("n1", {"metadata": {"labels": {"disk": "ssd"}}})
        await patch("n2", {"metadata": {"labels": {"disk": "ssd"}}})
        await plane.client.create(DAEMON_SET, daemon_set(pod={"nodeSelector": {"disk": "ssd"}}))
        await rollout(plane, nodes=2)
        assert sorted(await images(plane)) == ["n1", "n2"]
        await patch("n3", {"metadata": {"labels": {"disk": "ssd"}}})
        await rollout(plane, nodes=3)
        taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
        await patch("n3", {"spec": {"taints": [taint]}})
        await plane.until(DAEMON_SET, "agent", lambda o: o["status"]["numberMisscheduled"] == 1)
        assert sorted(await images(plane)) == ["n1", "n2", "n3"], "what runs stays"
        await patch("n3", {"spec": {"taints": [taint | {"effect": "NoExecute"}]}})
        await rollout(plane, nodes=2)
        await patch("n1", {"metadata": {"labels": {"disk": None}}})
        await rollout(plane, nodes=1)
        await patch("n2", {"spec": {"unschedulable": True}})
        await plane.clock.sleep(60)
        await rollout(plane, nodes=1)

    play(story)


def test_an_update_replaces_one_pod_after_the_other() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DAEMON_SET, daemon_set(minReadySeconds=10))
        await rollout(plane)
        watch, start = Watch(plane), plane.clock.monotonic()
        watch.fewest_ready = 3
        await update(plane, with_image("demo:2"))
        await rollout(plane)
        assert await images(plane) == all_of("demo:2")
        assert (watch.most_on_a_node, watch.fewest_ready) == (1, 2)
        assert plane.clock.monotonic() - start > 30

    play(story)


def test_with_surge_the_new_pod_is_there_before_the_old_one_goes() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DAEMON_SET, daemon_set(updateStrategy=surge(1)))
        await rollout(plane)
        watch = Watch(plane)
        watch.fewest_ready = 3
        await update(plane, with_image("demo:2"))
        await images_are(plane, all_of("demo:2"))
        await rollout(plane)
        assert (watch.most_on_a_node, watch.fewest_ready) == (2, 3)

    play(story)


def test_on_delete_leaves_the_replacing_to_the_user() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DAEMON_SET, daemon_set(updateStrategy={"type": "OnDelete"}))
        await rollout(plane)
        await update(plane, with_image("demo:2"))
        await plane.clock.sleep(100)
        assert await images(plane) == all_of("demo:1")
        [victim] = [p for p in await plane.items(POD) if p["spec"]["nodeName"] == "n2"]
        await plane.client.delete(POD, victim["metadata"]["name"], "default")
        await images_are(plane, all_of("demo:1") | {"n2": "demo:2"})

    play(story)


def test_a_template_that_mends_a_broken_one_replaces_the_broken_pod_at_once() -> None:
    """kubernetes/kubernetes#67250, #60164, for DaemonSets."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        def report(pod: Pod) -> Object | None:
            return None if pod.spec.containers[0].image == "broken" else nodes.running(pod)

        nodes.report = report
        await plane.client.create(DAEMON_SET, daemon_set())
        await rollout(plane)
        await update(plane, with_image("broken"))
        await plane.clock.sleep(100)
        assert sorted((await images(plane)).values()) == ["broken", "demo:1", "demo:1"]
        await update(plane, with_image("demo:2"))
        await rollout(plane)

    play(story)


def test_failed_pods_are_replaced_and_ever_slower() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        made: set[str] = set()

        def note(old: Pod | None, new: Pod | None) -> None:
            if new and new.spec.node_name == "n1":
                made.add(new.metadata.uid)

        plane.manager.informers.pods.on_change(note)
        refused = {"phase": "Failed", "reason": "NodeAffinity"}
        nodes.report = lambda pod: refused if pod.spec.node_name == "n1" else nodes.running(pod)
        await plane.client.create(DAEMON_SET, daemon_set())
        await plane.clock.sleep(600)
        assert 6 < len(made) < 15
        assert await plane.events("FailedDaemonPod")
        nodes.report = nodes.running
        await rollout(plane, within_seconds=1000)

    play(story)


def test_the_pod_of_a_lost_node_stays_until_the_node_is_deleted() -> None:
    """kubernetes/kubernetes#74689, #72226, #64869, #103929."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DAEMON_SET, daemon_set())
        await rollout(plane)
        before = {p["metadata"]["uid"] for p in await plane.items(POD)}
        nodes.kill("n2")
        await plane.until(
            DAEMON_SET, "agent", lambda o: o["status"]["numberReady"] == 2, within_seconds=100
        )
        await plane.clock.sleep(1000)
        pods = await plane.items(POD)
        assert {p["metadata"]["uid"] for p in pods} == before
        assert not any(p["metadata"].get("deletionTimestamp") for p in pods)
        await nodes.revive("n2")
        await rollout(plane)
        nodes.kill("n3")
        await plane.client.delete(NODE, "n3")
        await rollout(plane, nodes=2, within_seconds=200)

    play(story)


def test_orphans_are_adopted_and_a_foreign_pod_is_left_alone() -> None:
    """kubernetes/kubernetes#24152, #30028, #36859, #34466."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DAEMON_SET, daemon_set())
        await rollout(plane)
        before = {p["metadata"]["uid"] for p in await plane.items(POD)}
        await plane.client.delete(DAEMON_SET, "agent", "default", propagation="Orphan")

        async def orphaned() -> bool:
            return await plane.find(DAEMON_SET, "agent") is None

        await eventually(orphaned)
        await plane.client.create(DAEMON_SET, daemon_set())
        await rollout(plane)
        assert {p["metadata"]["uid"] for p in await plane.items(POD)} == before
        rival = daemon_set()
        rival["metadata"] = {"name": "rival", "namespace": "default"}
        await plane.client.create(DAEMON_SET, rival)
        await plane.until(DAEMON_SET, "rival", lambda o: o["status"]["numberReady"] == 3)
        await plane.clock.sleep(300)
        pods = await plane.items(POD)
        assert len(pods) == 6
        assert before < {p["metadata"]["uid"] for p in pods}

    play(story)


def test_revisions_are_numbered_and_those_beyond_the_limit_are_removed() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DAEMON_SET, daemon_set(revisionHistoryLimit=2))
        await rollout(plane)
        for number in (1, 2, 3, 4, 3):
            await update(plane, with_image(f"demo:{number}x"))
            await rollout(plane)

        async def three() -> bool:
            found = await plane.items(CONTROLLER_REVISION)
            return sorted(r["revision"] for r in found) == [3, 5, 6]

        await eventually(three)

    play(story)
