"""Deployments and ReplicaSets over the real API, with stand-ins for the nodes, in virtual time."""

from typing import Any

from shepherd.api.kinds import DEPLOYMENT, POD, REPLICA_SET
from shepherd.api.objects import Pod
from shepherd.api.resource import Object
from shepherd.testing.control_plane import ControlPlane, StandInNodes, play
from shepherd.testing.virtual import eventually


def deployment(image: str = "demo:1", **spec: Any) -> Object:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": image}]},
    }
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template} | spec,
    }


def image_patch(image: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}}}


def condition(obj: Object, kind: str) -> tuple[str, str]:
    """(status, reason) of a condition."""
    for item in obj["status"].get("conditions", []):
        if item["type"] == kind:
            return item["status"], item["reason"]
    return "", ""


def rolled_out(obj: Object) -> bool:
    """What `kubectl rollout status` waits for."""
    status, wanted = obj.get("status", {}), obj["spec"]["replicas"]
    return bool(
        status.get("observedGeneration") == obj["metadata"]["generation"]
        and status.get("updatedReplicas") == wanted
        and status.get("replicas") == wanted
        and status.get("availableReplicas") == wanted
    )


async def rollout(plane: ControlPlane, within_seconds: float = 60.0) -> Object:
    return await plane.until(DEPLOYMENT, "web", rolled_out, within_seconds=within_seconds)


async def running_images(plane: ControlPlane) -> list[str]:
    pods = await plane.items(POD)
    return sorted(p["spec"]["containers"][0]["image"] for p in pods)


def test_a_deployment_runs_its_pods_and_says_so() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment())
        web = await rollout(plane)
        assert len(await plane.items(POD)) == 3
        assert condition(web, "Available") == ("True", "MinimumReplicasAvailable")
        assert condition(web, "Progressing") == ("True", "NewReplicaSetAvailable")
        [replica_set] = await plane.items(REPLICA_SET)
        name = replica_set["metadata"]["name"]
        assert replica_set["metadata"]["labels"]["pod-template-hash"] == name.removeprefix("web-")
        assert replica_set["status"]["availableReplicas"] == 3
        pods = await plane.items(POD)
        assert {p["metadata"]["ownerReferences"][0]["name"] for p in pods} == {name}

        async def told() -> bool:
            return len(await plane.events("SuccessfulCreate")) == 3

        await eventually(told)
        assert await plane.events("ScalingReplicaSet") == [
            f"Scaled up replica set {name} from 0 to 3"
        ]

    play(story)


def test_a_rolling_update_keeps_enough_pods_available_and_never_too_many() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        strategy = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
        await plane.client.create(DEPLOYMENT, deployment(replicas=6, strategy=strategy))
        await rollout(plane)
        seen: list[tuple[int, int]] = []

        def watch_pods(old: Pod | None, new: Pod | None) -> None:
            pods = [p for p in plane.manager.informers.pods.all() if p.metadata.labels]
            alive = [p for p in pods if not p.metadata.deletion_timestamp]
            seen.append((len(alive), sum(p.ready for p in alive)))

        plane.manager.informers.pods.on_change(watch_pods)
        seen.clear()
        patch = image_patch("demo:2")
        await plane.client.patch(DEPLOYMENT, "web", "default", patch, type="strategic")
        await rollout(plane)
        await eventually(lambda: images_are(plane, ["demo:2"] * 6))
        assert max(total for total, _ in seen) <= 8
        assert min(ready for _, ready in seen) >= 5

    play(story)


async def images_are(plane: ControlPlane, wanted: list[str]) -> bool:
    return await running_images(plane) == wanted


def test_a_rollback_takes_the_old_replica_set_under_a_new_revision() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment())
        first = await rollout(plane)
        for image in ("demo:2", "demo:1"):
            patch = image_patch(image)
            await plane.client.patch(DEPLOYMENT, "web", "default", patch, type="strategic")
            web = await rollout(plane)
        revision = "deployment.kubernetes.io/revision"
        assert first["metadata"]["annotations"][revision] == "1"
        assert web["metadata"]["annotations"][revision] == "3"
        sets = {s["metadata"]["annotations"][revision]: s for s in await plane.items(REPLICA_SET)}
        assert sorted(sets) == ["2", "3"]
        assert sets["3"]["metadata"]["annotations"][f"{revision}-history"] == "1"
        assert sets["3"]["spec"]["replicas"] == 3
        assert sets["2"]["spec"]["replicas"] == 0

    play(story)


def test_scaling_up_and_down_makes_and_removes_exactly_the_difference() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment())
        await rollout(plane)
        before = {p["metadata"]["uid"] for p in await plane.items(POD)}
        for replicas in (50, 2, 0):
            scale = {"spec": {"replicas": replicas}}
            await plane.client.patch(DEPLOYMENT, "web", "default", scale, sub="scale")
            await rollout(plane)
            await plane.pods_are(replicas)
            if replicas == 50:
                assert before <= {p["metadata"]["uid"] for p in await plane.items(POD)}

    play(story)


def test_recreate_stops_all_old_pods_before_it_starts_a_new_one() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment(strategy={"type": "Recreate"}))
        await rollout(plane)
        mixed: list[set[str]] = []

        def watch_pods(old: Pod | None, new: Pod | None) -> None:
            pods = plane.manager.informers.pods.all()
            mixed.append({p.spec.containers[0].image for p in pods})

        plane.manager.informers.pods.on_change(watch_pods)
        patch = image_patch("demo:2")
        await plane.client.patch(DEPLOYMENT, "web", "default", patch, type="strategic")
        await rollout(plane)
        assert {"demo:1", "demo:2"} not in mixed

    play(story)


def test_a_paused_deployment_waits_and_still_scales() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment())
        await rollout(plane)
        pause = {"spec": {"paused": True, "replicas": 5}}
        await plane.client.patch(DEPLOYMENT, "web", "default", pause)
        patch = image_patch("demo:2")
        await plane.client.patch(DEPLOYMENT, "web", "default", patch, type="strategic")
        await eventually(lambda: images_are(plane, ["demo:1"] * 5))
        web = await plane.until(
            DEPLOYMENT, "web", lambda o: condition(o, "Progressing")[1] == "DeploymentPaused"
        )
        assert len(await plane.items(REPLICA_SET)) == 1
        assert web["status"]["updatedReplicas"] == 0
        await plane.client.patch(DEPLOYMENT, "web", "default", {"spec": {"paused": None}})
        await rollout(plane)
        await eventually(lambda: images_are(plane, ["demo:2"] * 5))

    play(story)


def test_pods_that_never_become_ready_are_reported_at_the_deadline_and_keep_the_old_ones() -> None:
    """kubernetes/kubernetes#44657: the deadline was never reported."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment(progressDeadlineSeconds=120))
        await rollout(plane)
        nodes.report = lambda pod: None
        patch = image_patch("broken")
        await plane.client.patch(DEPLOYMENT, "web", "default", patch, type="strategic")
        start = plane.clock.monotonic()
        stuck = ("False", "ProgressDeadlineExceeded")
        await plane.until(
            DEPLOYMENT, "web", lambda o: condition(o, "Progressing") == stuck, within_seconds=200
        )
        assert 120 <= plane.clock.monotonic() - start < 125
        assert (await running_images(plane)).count("demo:1") == 3
        nodes.report = nodes.running
        patch = image_patch("demo:3")
        await plane.client.patch(DEPLOYMENT, "web", "default", patch, type="strategic")
        web = await rollout(plane)
        assert condition(web, "Progressing") == ("True", "NewReplicaSetAvailable")

    play(story)


def test_min_ready_seconds_delay_availability() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment(minReadySeconds=30))
        await plane.until(DEPLOYMENT, "web", lambda o: o["status"].get("readyReplicas") == 3)
        start = plane.clock.monotonic()
        await rollout(plane)
        assert 25 <= plane.clock.monotonic() - start <= 35

    play(story)


def test_history_beyond_the_limit_is_removed() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment(revisionHistoryLimit=2, replicas=1))
        await rollout(plane)
        for number in range(5):
            patch = image_patch(f"demo:{number}x")
            await plane.client.patch(DEPLOYMENT, "web", "default", patch, type="strategic")
            await rollout(plane)

        async def three() -> bool:
            return len(await plane.items(REPLICA_SET)) == 3

        await eventually(three)

    play(story)


def test_deleting_a_deployment_deletes_its_replica_sets_and_pods() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment())
        await rollout(plane)
        await plane.client.delete(DEPLOYMENT, "web", "default", propagation="Background")
        await plane.pods_are(0)
        assert await plane.items(REPLICA_SET) == []

    play(story)


def test_failed_pods_are_replaced_and_ever_slower_when_all_fail_at_once() -> None:
    """kubernetes/kubernetes#94245: a pod after the other, each refused by its node."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: {"phase": "Failed", "reason": "Evicted"}
        await plane.client.create(DEPLOYMENT, deployment(replicas=1))
        await plane.clock.sleep(600)
        failed = await plane.items(POD)
        assert 5 < len(failed) < 15
        nodes.report = nodes.running
        await rollout(plane, within_seconds=400)

    play(story)


def test_a_deleted_pod_is_replaced_at_once() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment())
        await rollout(plane)
        victim = (await plane.items(POD))[0]["metadata"]["name"]
        await plane.client.delete(POD, victim, "default")

        async def replaced() -> bool:
            names = [p["metadata"]["name"] for p in await plane.items(POD)]
            return victim not in names and len(names) == 3

        await eventually(replaced, within_seconds=5)

    play(story)


def test_two_replica_sets_with_one_selector_do_not_fight() -> None:
    """kubernetes/kubernetes#24152, #30028, #36859, #34466: endless creating and killing."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        spec = deployment()["spec"]
        for name in ("one", "two"):
            meta = {"name": name, "namespace": "default"}
            body = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": meta, "spec": spec}
            await plane.client.create(REPLICA_SET, body)
        await plane.pods_are(6)
        await plane.clock.sleep(300)
        uids = {p["metadata"]["uid"] for p in await plane.items(POD)}
        await plane.clock.sleep(300)
        assert {p["metadata"]["uid"] for p in await plane.items(POD)} == uids

    play(story)


def test_orphans_are_adopted_and_what_no_longer_matches_is_let_go() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment())
        await rollout(plane)
        pod = (await plane.items(POD))[0]["metadata"]
        labels = {"metadata": {"labels": {"app": "debug"}}}
        await plane.client.patch(POD, pod["name"], "default", labels)
        await plane.pods_are(4)
        released = await plane.until(
            POD, pod["name"], lambda o: not o["metadata"].get("ownerReferences")
        )
        assert released["metadata"]["uid"] == pod["uid"]
        labels = {"metadata": {"labels": {"app": "web"}}}
        await plane.client.patch(POD, pod["name"], "default", labels)
        await plane.pods_are(3)

    play(story)


def test_an_orphaning_deletion_leaves_the_pods_to_their_next_owner() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment())
        await rollout(plane)
        before = {p["metadata"]["uid"] for p in await plane.items(POD)}
        await plane.client.delete(DEPLOYMENT, "web", "default", propagation="Orphan")

        async def orphaned() -> bool:
            gone = await plane.find(DEPLOYMENT, "web") is None
            sets = await plane.items(REPLICA_SET)
            return gone and not any(s["metadata"].get("ownerReferences") for s in sets)

        await eventually(orphaned)
        await plane.client.create(DEPLOYMENT, deployment())
        await rollout(plane)
        assert {p["metadata"]["uid"] for p in await plane.items(POD)} == before

    play(story)


def test_a_replica_set_tells_why_it_can_make_no_pods() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        body = deployment()
        body["spec"]["template"]["spec"]["priorityClassName"] = "no-such-class"
        await plane.client.create(DEPLOYMENT, body)
        web = await plane.until(
            DEPLOYMENT, "web", lambda o: condition(o, "ReplicaFailure")[0] == "True"
        )
        assert condition(web, "ReplicaFailure") == ("True", "FailedCreate")
        [text, *_] = await plane.events("FailedCreate")
        assert "no-such-class" in text

    play(story)
