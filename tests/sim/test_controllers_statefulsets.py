"""StatefulSets over the real API, with stand-ins for the nodes, in virtual time."""

from collections.abc import Callable
from typing import Any

from shepherd.api.kinds import EVENT, NODE, POD
from shepherd.api.kinds.replicationcontrollers import CONTROLLER_REVISION
from shepherd.api.kinds.statefulsets import STATEFUL_SET
from shepherd.api.kinds.storage import PERSISTENT_VOLUME_CLAIM
from shepherd.api.objects import Pod
from shepherd.api.resource import Object
from shepherd.testing.control_plane import ControlPlane, StandInNodes, play
from shepherd.testing.virtual import eventually

LABELS = {"app": "web"}


def template(image: str = "demo:1", **spec: Any) -> Object:
    containers = [{"name": "web", "image": image}]
    return {"metadata": {"labels": LABELS}, "spec": {"containers": containers} | spec}


def stateful_set(image: str = "demo:1", **spec: Any) -> Object:
    return {
        "kind": "StatefulSet",
        "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 3,
            "serviceName": "web",
            "selector": {"matchLabels": LABELS},
            "template": template(image),
        }
        | spec,
    }


def with_image(image: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}}}


async def update(plane: ControlPlane, spec: Object) -> None:
    await plane.client.patch(STATEFUL_SET, "web", "default", spec, type="strategic")


def complete(obj: Object) -> bool:
    """What `kubectl rollout status` waits for, and that all is available."""
    status, wanted = obj.get("status", {}), obj["spec"]["replicas"]
    return bool(
        status.get("observedGeneration") == obj["metadata"]["generation"]
        and status.get("updateRevision") == status.get("currentRevision")
        and status.get("replicas") == wanted
        and status.get("availableReplicas") == status.get("updatedReplicas") == wanted
    )


async def rollout(plane: ControlPlane, within_seconds: float = 60.0) -> Object:
    return await plane.until(STATEFUL_SET, "web", complete, within_seconds=within_seconds)


async def images(plane: ControlPlane) -> dict[str, str]:
    """By pod."""
    pods = await plane.items(POD)
    return {p["metadata"]["name"]: p["spec"]["containers"][0]["image"] for p in pods}


async def images_are(plane: ControlPlane, *wanted: str, within_seconds: float = 60.0) -> None:
    """Of web-0, web-1, and so on."""

    async def so() -> bool:
        return await images(plane) == {f"web-{n}": image for n, image in enumerate(wanted)}

    await eventually(so, what=f"images {wanted}", within_seconds=within_seconds)


class Diary:
    """What happened to pods, in order: `+web-0` came, `-web-0` is gone."""

    def __init__(self, plane: ControlPlane) -> None:
        self.lines: list[str] = []
        self._pods = plane.manager.informers.pods
        self._pods.on_change(self._changed)
        self.lines.clear()

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None:
            pod = new or old
            assert pod is not None
            self.lines.append(f"{'-' if new is None else '+'}{pod.metadata.name}")


def test_pods_of_a_stateful_set_come_and_go_in_order_each_with_its_identity() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        diary = Diary(plane)
        await plane.client.create(STATEFUL_SET, stateful_set(ordinals={"start": 5}))
        web = await rollout(plane)
        assert diary.lines == ["+web-5", "+web-6", "+web-7"]
        pod = await plane.client.get(POD, "web-6", "default")
        revision = web["status"]["updateRevision"]
        assert pod["metadata"]["labels"] == LABELS | {
            "statefulset.kubernetes.io/pod-name": "web-6",
            "apps.kubernetes.io/pod-index": "6",
            "controller-revision-hash": revision,
        }
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-6", "web")
        assert [r["metadata"]["name"] for r in await plane.items(CONTROLLER_REVISION)] == [revision]
        assert web["status"]["collisionCount"] == 0
        await update(plane, {"spec": {"replicas": 1}})
        await rollout(plane)
        assert diary.lines[3:] == ["-web-7", "-web-6"]

    play(story)


def test_the_next_pod_waits_until_those_before_it_are_available() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: None if pod.metadata.name == "web-1" else nodes.running(pod)
        await plane.client.create(STATEFUL_SET, stateful_set(minReadySeconds=20))
        await plane.clock.sleep(15)
        assert sorted(await images(plane)) == ["web-0"]
        await plane.clock.sleep(300)
        assert sorted(await images(plane)) == ["web-0", "web-1"]
        nodes.report = nodes.running
        await plane.client.delete(POD, "web-1", "default", grace_seconds=0)
        await rollout(plane)

    play(story)


def test_a_parallel_set_makes_and_removes_all_at_once() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: None
        body = stateful_set(podManagementPolicy="Parallel", replicas=5)
        await plane.client.create(STATEFUL_SET, body)
        await plane.pods_are(5)
        await update(plane, {"spec": {"replicas": 0}})
        await plane.pods_are(0)

    play(story)


def test_an_update_replaces_pods_from_the_last_to_the_first() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(STATEFUL_SET, stateful_set())
        before = await rollout(plane)
        diary = Diary(plane)
        await update(plane, with_image("demo:2"))
        web = await rollout(plane)
        assert diary.lines == ["-web-2", "+web-2", "-web-1", "+web-1", "-web-0", "+web-0"]
        assert set((await images(plane)).values()) == {"demo:2"}
        assert web["status"]["currentRevision"] != before["status"]["currentRevision"]
        revisions = {r["metadata"]["name"]: r for r in await plane.items(CONTROLLER_REVISION)}
        assert revisions[web["status"]["currentRevision"]]["revision"] == 2
        await update(plane, with_image("demo:1"))
        web = await rollout(plane)
        assert web["status"]["currentRevision"] == before["status"]["currentRevision"]
        revisions = {r["metadata"]["name"]: r for r in await plane.items(CONTROLLER_REVISION)}
        assert sorted(r["revision"] for r in revisions.values()) == [2, 3]
        assert revisions[web["status"]["currentRevision"]]["revision"] == 3

    play(story)


def test_a_partition_holds_back_the_pods_below_it_even_if_they_are_made_anew() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(STATEFUL_SET, stateful_set())
        await rollout(plane)
        partition = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}
        await update(plane, {"spec": partition | with_image("demo:2")["spec"]})
        await images_are(plane, "demo:1", "demo:1", "demo:2")
        await plane.client.delete(POD, "web-0", "default")

        def counted(current: int) -> Callable[[Object], bool]:
            wanted = {"currentReplicas": current, "updatedReplicas": 1, "availableReplicas": 3}
            return lambda o: wanted.items() <= o["status"].items()

        await plane.until(STATEFUL_SET, "web", counted(1))
        web = await plane.until(STATEFUL_SET, "web", counted(2))
        await images_are(plane, "demo:1", "demo:1", "demo:2")
        status = web["status"]
        assert status["currentRevision"] != status["updateRevision"]
        await update(plane, {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
        await rollout(plane)
        await images_are(plane, "demo:2", "demo:2", "demo:2")

    play(story)


def test_max_unavailable_lets_several_pods_be_replaced_at_once() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        rolling = {"rollingUpdate": {"maxUnavailable": "40%"}}
        body = stateful_set(podManagementPolicy="Parallel", replicas=5, updateStrategy=rolling)
        await plane.client.create(STATEFUL_SET, body)
        await rollout(plane)
        seen: list[int] = []
        informer = plane.manager.informers.pods

        def count(old: Pod | None, new: Pod | None) -> None:
            seen.append(sum(p.ready and not p.metadata.deletion_timestamp for p in informer.all()))

        informer.on_change(count)
        seen.clear()
        await update(plane, with_image("demo:2"))
        await rollout(plane)
        assert min(seen) == 3

    play(story)


def test_on_delete_leaves_the_replacing_to_the_user() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        body = stateful_set(updateStrategy={"type": "OnDelete"}, replicas=2)
        await plane.client.create(STATEFUL_SET, body)
        await rollout(plane)
        await update(plane, with_image("demo:2"))
        await plane.clock.sleep(120)
        await images_are(plane, "demo:1", "demo:1")
        await plane.client.delete(POD, "web-0", "default")
        await images_are(plane, "demo:2", "demo:1")

    play(story)


def test_a_template_that_mends_a_broken_one_replaces_the_pods_that_never_were_ready() -> None:
    """kubernetes/kubernetes#67250, #60164. Kubernetes waits for the broken pod for ever."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        def report(pod: Pod) -> Object | None:
            broken = pod.spec.containers[0].image == "broken"
            return {"phase": "Pending"} if broken else nodes.running(pod)

        nodes.report = report
        await plane.client.create(STATEFUL_SET, stateful_set())
        await rollout(plane)
        await update(plane, with_image("broken"))
        await images_are(plane, "demo:1", "demo:1", "broken")
        await plane.clock.sleep(300)
        await images_are(plane, "demo:1", "demo:1", "broken")
        await update(plane, with_image("demo:2"))
        await rollout(plane)
        await images_are(plane, "demo:2", "demo:2", "demo:2")

    play(story)


def test_a_pod_that_was_ready_once_is_waited_for() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(STATEFUL_SET, stateful_set())
        await rollout(plane)
        await plane.clock.sleep(60)
        away = {"type": "Ready", "status": "False", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        status = {"status": {"conditions": [away]}}
        await plane.client.patch(POD, "web-1", "default", status, type="strategic", sub="status")
        await update(plane, with_image("demo:2"))
        await plane.clock.sleep(300)
        await images_are(plane, "demo:1", "demo:1", "demo:1")

    play(story)


def test_pods_of_a_lost_node_are_replaced_when_the_node_is_known_to_be_gone() -> None:
    """kubernetes/kubernetes#74689, #72226, #64869, #103929."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(STATEFUL_SET, stateful_set())
        await rollout(plane)
        pods = {p["metadata"]["name"]: p for p in await plane.items(POD)}
        for name, deed in (("web-1", "taint"), ("web-2", "delete")):
            lost = pods[name]["spec"]["nodeName"]
            nodes.kill(lost)
            await plane.until(
                POD, name, lambda o: "deletionTimestamp" in o["metadata"], within_seconds=500
            )
            await plane.clock.sleep(600)
            pod = await plane.client.get(POD, name, "default")
            assert pod["metadata"]["uid"] == pods[name]["metadata"]["uid"]
            if deed == "taint":
                taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
                await plane.client.patch(
                    NODE, lost, None, {"spec": {"taints": [taint]}}, type="strategic"
                )
            else:
                await plane.client.delete(NODE, lost)
            await rollout(plane, within_seconds=200)

    play(story)


def test_a_pod_that_has_ended_is_replaced_and_ever_slower_when_it_ends_again() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        diary = Diary(plane)
        nodes.report = lambda pod: {"phase": "Failed", "reason": "Evicted"}
        await plane.client.create(STATEFUL_SET, stateful_set(replicas=1))
        await plane.clock.sleep(600)
        assert 6 < diary.lines.count("+web-0") < 15
        nodes.report = nodes.running
        await rollout(plane, within_seconds=1000)

    play(story)


CLAIM = {
    "metadata": {"name": "data", "labels": {"tier": "disk"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


async def claims(plane: ControlPlane) -> dict[str, list[str]]:
    """The kinds of their owners, by name."""
    return {
        claim["metadata"]["name"]: [o["kind"] for o in claim["metadata"].get("ownerReferences", [])]
        for claim in await plane.items(PERSISTENT_VOLUME_CLAIM)
    }


async def claims_are(plane: ControlPlane, wanted: dict[str, list[str]]) -> None:
    async def so() -> bool:
        return await claims(plane) == wanted

    await eventually(so, what=f"claims {wanted}")


def test_each_pod_has_claims_of_its_own_that_outlive_it() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(STATEFUL_SET, stateful_set(volumeClaimTemplates=[CLAIM]))
        await rollout(plane)
        pod = await plane.client.get(POD, "web-1", "default")
        [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "data"]
        assert volume["persistentVolumeClaim"] == {"claimName": "data-web-1"}
        found = await plane.client.get(PERSISTENT_VOLUME_CLAIM, "data-web-1", "default")
        assert found["metadata"]["labels"] == LABELS | {"tier": "disk"}
        await update(plane, {"spec": {"replicas": 1}})
        await rollout(plane)
        await plane.client.delete(STATEFUL_SET, "web", "default", propagation="Background")
        await plane.pods_are(0)
        await plane.clock.sleep(60)
        assert await claims(plane) == {f"data-web-{n}": [] for n in range(3)}

    play(story)


def test_claims_go_with_a_pod_that_is_scaled_away_or_with_the_set_if_asked() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        body = stateful_set(
            volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy
        )
        await plane.client.create(STATEFUL_SET, body)
        await rollout(plane)
        assert await claims(plane) == {f"data-web-{n}": ["StatefulSet"] for n in range(3)}
        kept = await plane.client.get(PERSISTENT_VOLUME_CLAIM, "data-web-0", "default")
        await plane.client.delete(POD, "web-0", "default")
        await update(plane, {"spec": {"replicas": 1}})
        await rollout(plane)
        await claims_are(plane, {"data-web-0": ["StatefulSet"]})
        same = await plane.client.get(PERSISTENT_VOLUME_CLAIM, "data-web-0", "default")
        assert same["metadata"]["uid"] == kept["metadata"]["uid"]
        retain = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}
        await update(plane, {"spec": retain})
        await claims_are(plane, {"data-web-0": []})
        await update(plane, {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})
        await claims_are(plane, {"data-web-0": ["StatefulSet"]})
        await plane.client.delete(STATEFUL_SET, "web", "default", propagation="Background")
        await claims_are(plane, {})

    play(story)


def test_orphans_are_adopted_if_their_names_fit_and_no_others() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(STATEFUL_SET, stateful_set())
        await rollout(plane)
        before = {p["metadata"]["uid"] for p in await plane.items(POD)}
        await plane.client.delete(STATEFUL_SET, "web", "default", propagation="Orphan")

        async def orphaned() -> bool:
            return await plane.find(STATEFUL_SET, "web") is None

        await eventually(orphaned)
        stranger = {"metadata": {"name": "other", "labels": LABELS}, "spec": template()["spec"]}
        await plane.client.create(POD, {"kind": "Pod", "apiVersion": "v1"} | stranger, "default")
        await plane.client.create(STATEFUL_SET, stateful_set())
        await rollout(plane)
        pods = {p["metadata"]["name"]: p for p in await plane.items(POD)}
        assert not pods.pop("other")["metadata"].get("ownerReferences")
        assert {p["metadata"]["uid"] for p in pods.values()} == before
        [revision] = await plane.items(CONTROLLER_REVISION)
        owners = [p["metadata"]["ownerReferences"][0]["uid"] for p in pods.values()]
        assert {*owners, revision["metadata"]["ownerReferences"][0]["uid"]} == {owners[0]}

    play(story)


def test_two_sets_with_one_selector_do_not_fight() -> None:
    """kubernetes/kubernetes#24152, #30028, #36859, #34466."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        one, two = stateful_set(), stateful_set()
        two["metadata"] = {"name": "web-2", "namespace": "default"}
        await plane.client.create(STATEFUL_SET, one)
        await plane.client.create(STATEFUL_SET, two)
        await plane.pods_are(6)
        uids = {p["metadata"]["uid"] for p in await plane.items(POD)}
        await plane.clock.sleep(300)
        assert {p["metadata"]["uid"] for p in await plane.items(POD)} == uids

    play(story)


def test_revisions_beyond_the_limit_are_removed() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(STATEFUL_SET, stateful_set(revisionHistoryLimit=2, replicas=1))
        await rollout(plane)
        for number in range(5):
            await update(plane, with_image(f"demo:{number}x"))
            await rollout(plane)

        async def three() -> bool:
            found = await plane.items(CONTROLLER_REVISION)
            return sorted(r["revision"] for r in found) == [4, 5, 6]

        await eventually(three)

    play(story)


def test_what_a_stateful_set_does_is_told_in_its_events() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        body = stateful_set(replicas=1, volumeClaimTemplates=[CLAIM])
        await plane.client.create(STATEFUL_SET, body)
        await rollout(plane)
        await update(plane, {"spec": {"replicas": 0}})
        await plane.pods_are(0)

        async def told() -> bool:
            return {e["message"] for e in await plane.items(EVENT) if "StatefulSet" in str(e)} >= {
                "create Claim data-web-0 Pod web-0 in StatefulSet web success",
                "create Pod web-0 in StatefulSet web successful",
                "delete Pod web-0 in StatefulSet web successful",
            }

        await eventually(told)

    play(story)
