"""The life of pods on a node, in virtual time."""

import asyncio
from typing import Any

import pytest

from shepherd.api.kinds import EVENT, LEASE, NODE, POD
from shepherd.runtime.base import SheepError
from shepherd.testing.virtual import eventually

OnNode = Any
Scene = Any


def test_a_pod_runs(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod()
        status = await node.ready(within_seconds=1.0)
        assert status["phase"] == "Running"
        assert status["podIP"] == "10.42.0.2"
        assert status["hostIP"] == "192.0.2.1"
        (container,) = status["containerStatuses"]
        assert container["containerID"].startswith("hollow://")
        reasons = [reason for reason, _ in await node.events()]
        assert reasons == ["Pulling", "Pulled", "Created", "Started"]

    on_node(scenario)


def test_the_node_is_registered(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        found = await node.client.get(NODE, "n1")
        assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
        assert found["status"]["nodeInfo"]["containerRuntimeVersion"] == "hollow://1"
        assert {c["type"]: c["status"] for c in found["status"]["conditions"]}["Ready"] == "True"
        lease = await node.client.get(LEASE, "n1", "kube-node-lease")
        assert lease["spec"]["holderIdentity"] == "n1"

    on_node(scenario)


def test_a_crash_loop_backs_off(on_node: OnNode) -> None:
    """kubernetes/kubernetes#21008."""

    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[sh("echo bye; exit 3")])
        first = node.clock.now()

        status = await node.waiting("CrashLoopBackOff")
        (container,) = status["containerStatuses"]
        assert container["restartCount"] == 1
        assert container["lastState"]["terminated"]["exitCode"] == 3
        assert status["phase"] == "Running"
        told = [message for reason, message in await node.events() if reason == "BackOff"]
        assert len(told) == 1
        assert told[0].startswith("Back-off restarting failed container web in pod web_default(")
        await node.restarted(5, within_seconds=300)
        took = node.clock.now() - first
        assert 10 + 20 + 40 + 80 <= took <= 10 + 20 + 40 + 80 + 5

    on_node(scenario)


def test_a_container_that_ran_for_ten_minutes_is_restarted_at_once(on_node: OnNode) -> None:
    """kubernetes/kubernetes#21008, #57291: one that ends well and often is backed off as one that
    fails; what ran for long begins anew."""

    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[sh("sleep 601; exit 0")])
        first = node.clock.now()
        await node.restarted(4, within_seconds=2500)
        assert node.clock.now() - first < 4 * 601 + 20

    on_node(scenario)


def sh(script: str, name: str = "web", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "web:1", "command": ["sh", "-c", script], **more}


def test_a_finished_pod_stays_finished(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(restartPolicy="Never", containers=[sh("echo hi; sleep 2; exit 0")])
        before = await node.phase("Succeeded")
        terminated = before["containerStatuses"][0]["state"]["terminated"]
        assert (terminated["exitCode"], terminated["reason"]) == (0, "Completed")
        await eventually(lambda: no_sandboxes(node))
        await node.restart_agent()
        await node.agent.ready()
        await asyncio.sleep(60)
        assert (await node.status())["containerStatuses"] == before["containerStatuses"]
        assert await node.runtime.sandboxes() == []
        assert await node.logs() == (200, "hi\n")

    on_node(scenario)


async def no_sandboxes(node: Scene) -> bool:
    return not await node.runtime.sandboxes()


def test_never_and_a_failure(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(restartPolicy="Never", containers=[sh("exit 4")])
        status = await node.phase("Failed")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4

    on_node(scenario)


def test_deletion_is_graceful(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(annotations={"shepherd.dev/hollow-stop-seconds": "5"})
        await node.ready()
        began = node.clock.now()
        await node.client.delete(POD, "web", "default")
        assert (await node.pod())["metadata"]["deletionTimestamp"]
        await node.gone()
        assert 5 <= node.clock.now() - began < 6
        assert await node.runtime.sandboxes() == []
        assert ("Killing", "Stopping container web") in await node.events()
        assert list((node.directory / "agent" / "pods").iterdir()) == []

    on_node(scenario)


def test_what_ignores_its_stop_signal_is_killed(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(
            annotations={"shepherd.dev/hollow-stop-seconds": "1000"},
            terminationGracePeriodSeconds=7,
        )
        await node.ready()
        began = node.clock.now()
        await node.client.delete(POD, "web", "default")
        await node.gone()
        assert 7 <= node.clock.now() - began < 8

    on_node(scenario)


def test_61_hook_and_signal_share_one_budget(on_node: OnNode) -> None:
    """kubernetes/kubernetes#117373, #115817, #65496, #24695."""

    async def scenario(node: Scene) -> None:
        lifecycle = {"preStop": {"sleep": {"seconds": 20}}}
        await node.create_pod(
            annotations={"shepherd.dev/hollow-stop-seconds": "1000"},
            terminationGracePeriodSeconds=20,
            containers=[{"name": "web", "image": "web:1", "lifecycle": lifecycle}],
        )
        await node.ready()
        began = node.clock.now()
        await node.client.delete(POD, "web", "default")
        await node.gone()
        assert 20 <= node.clock.now() - began < 23

    on_node(scenario)


def test_61_the_hook_ends_with_its_container(on_node: OnNode) -> None:
    """kubernetes/kubernetes#117373, #115817, #65496, #24695."""

    async def scenario(node: Scene) -> None:
        lifecycle = {"preStop": {"exec": {"command": ["sh", "-c", "sleep 25"]}}}
        await node.create_pod(
            containers=[sh("sleep 10", lifecycle=lifecycle)], restartPolicy="Never"
        )
        await node.ready()
        began = node.clock.now()
        await node.client.delete(POD, "web", "default")
        await node.gone()
        assert node.clock.now() - began < 11

    on_node(scenario)


def test_a_second_delete_can_shorten_the_grace(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(annotations={"shepherd.dev/hollow-stop-seconds": "1000"})
        await node.ready()
        began = node.clock.now()
        await node.client.delete(POD, "web", "default")
        await asyncio.sleep(2)
        await node.client.delete(POD, "web", "default", grace_seconds=3)
        await node.gone()
        assert 5 <= node.clock.now() - began < 6

    on_node(scenario)


def test_a_forced_delete_still_ends_the_containers(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        ignores_signals = {"shepherd.dev/hollow-stop-seconds": "200"}
        await node.create_pod(annotations=ignores_signals, terminationGracePeriodSeconds=300)
        await node.ready()
        await node.client.delete(POD, "web", "default", grace_seconds=0)
        assert not await node.has(POD, "web")
        await eventually(lambda: no_sandboxes(node), within_seconds=5)

    on_node(scenario)


def test_a_finalizer_holds_the_object_not_the_containers(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod()
        await node.ready()
        await node.client.patch(POD, "web", "default", {"metadata": {"finalizers": ["x.io/y"]}})
        await node.client.delete(POD, "web", "default")
        await eventually(lambda: no_sandboxes(node))
        assert (await node.pod())["metadata"]["finalizers"] == ["x.io/y"]
        await node.client.patch(POD, "web", "default", {"metadata": {"finalizers": None}})
        await node.gone()

    on_node(scenario)


def test_restart_of_the_agent_adopts(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(
            containers=[sh("sleep 3; exit 1", readinessProbe={"exec": {"command": ["true"]}})]
        )
        await node.restarted(1)
        await node.ready()
        before = await node.container()
        await node.restart_agent()
        await node.agent.ready()
        await asyncio.sleep(0.5)
        assert await node.container() == before
        assert len(await node.runtime.sandboxes()) == 1
        await node.restarted(2)

    on_node(scenario)


def test_what_happened_while_the_agent_was_away(on_node: OnNode) -> None:
    """hashicorp/nomad#5883, #5945, #6354: what ended meanwhile stays ended."""

    async def scenario(node: Scene) -> None:
        await node.create_pod("done", restartPolicy="Never", containers=[sh("sleep 5; exit 7")])
        await node.create_pod("deleted")
        await node.create_pod("kept")
        for name in ("done", "deleted", "kept"):
            await node.ready(name)
        await node.stop_agent()
        await node.client.delete(POD, "deleted", "default", grace_seconds=0)
        await asyncio.sleep(60)
        node.start_agent()
        status = await node.phase("Failed", "done")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
        await eventually(lambda: only_pod(node, "kept"))

    on_node(scenario)


async def only_pod(node: Scene, name: str) -> bool:
    return [s.pod_name for s in await node.runtime.sandboxes()] == [name]


def test_a_reboot_starts_anew_and_counts_on(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod("web")
        await node.create_pod("once", restartPolicy="Never")
        await node.ready("web")
        await node.ready("once")
        await node.stop_agent()
        for sandbox in await node.runtime.sandboxes():
            await node.runtime.remove_sandbox(sandbox.id)
        node.start_agent()
        await node.restarted(1)
        container = (await node.ready())["containerStatuses"][0]
        assert container["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
        once = await node.phase("Failed", "once")
        assert once["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137

    on_node(scenario)


def test_59_a_lost_sandbox_runs_all_init_containers_again(on_node: OnNode) -> None:
    """kubernetes/kubernetes#124002, #140309, #137710, #49505, #36485."""

    async def scenario(node: Scene) -> None:
        inits = [sh("exit 0", "first"), sh("exit 0", "second")]
        await node.create_pod(initContainers=inits)
        await node.ready()
        (sandbox,) = await node.runtime.sandboxes()
        await node.runtime.remove_sandbox(sandbox.id)
        await node.restarted(1)
        await node.ready()
        for name in ("first", "second"):
            found = await node.container(container=name)
            assert found["restartCount"] == 1
            assert found["state"]["terminated"]["reason"] == "Completed"

    on_node(scenario)


def test_60_a_pruned_init_container_does_not_run_again(on_node: OnNode) -> None:
    """kubernetes/kubernetes#86531, #62362, #67261."""

    async def scenario(node: Scene) -> None:
        await node.create_pod(initContainers=[sh("exit 0", "first")])
        await node.ready()
        (sandbox,) = await node.runtime.sandboxes()
        first = next(c for c in sandbox.containers if c.name == "first")
        await node.runtime.remove_container(first.id)
        await node.restart_agent()
        await node.agent.ready()
        await asyncio.sleep(30)
        (sandbox,) = await node.runtime.sandboxes()
        assert [c.name for c in sandbox.containers] == ["web"]
        assert (await node.container(container="first"))["ready"]

    on_node(scenario)


def test_5_a_sidecar_ends_with_its_job(on_node: OnNode) -> None:
    """kubernetes/kubernetes#25908, #73118."""

    async def scenario(node: Scene) -> None:
        sidecar = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
        await node.create_pod(
            restartPolicy="Never", initContainers=[sidecar], containers=[sh("sleep 3; exit 0")]
        )
        await node.ready()
        status = await node.phase("Succeeded")
        assert "terminated" in status["initContainerStatuses"][0]["state"]

    on_node(scenario)


def test_the_server_away_disturbs_nothing(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod("web")
        await node.create_pod("job", restartPolicy="Never", containers=[sh("sleep 30; exit 0")])
        await node.ready("web")
        await node.ready("job")
        node.cut = True
        await asyncio.sleep(600)
        running = [c.state.value for s in await node.runtime.sandboxes() for c in s.containers]
        assert running.count("running") == 1
        node.cut = False
        await node.phase("Succeeded", "job")
        assert (await node.container())["restartCount"] == 0

    on_node(scenario)


def test_a_forgotten_node_registers_again(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.client.delete(NODE, "n1")
        await eventually(lambda: node.has(NODE, "n1"))

        async def reported() -> bool:
            found = await node.client.get(NODE, "n1")
            return bool(found.get("status", {}).get("capacity"))

        await eventually(reported)

    on_node(scenario)


def test_the_node_tells_when_it_changes(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.agent.ready()

        async def told() -> bool:
            found = (await node.client.list(EVENT, "default")).items
            texts = [e["message"] for e in found if e["involvedObject"]["kind"] == "Node"]
            return texts == [
                "Node n1 status is now: NodeNotReady",
                "Node n1 status is now: NodeReady",
            ]

        await eventually(told)

    on_node(scenario)


def test_labels_of_others_stay(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        change = {"metadata": {"labels": {"disk": "fast"}}, "spec": {"unschedulable": True}}
        await node.client.patch(NODE, "n1", None, change)
        await node.restart_agent()
        await node.agent.ready()
        found = await node.client.get(NODE, "n1")
        assert found["metadata"]["labels"]["disk"] == "fast"
        assert found["spec"]["unschedulable"]

    on_node(scenario)


def test_a_condition_that_the_server_set_is_set_right(on_node: OnNode) -> None:
    """The node controller marks pods of a node it has lost as not ready."""

    async def scenario(node: Scene) -> None:
        await node.create_pod()
        await node.ready()
        lost = {"conditions": [{"type": "Ready", "status": "False", "reason": "NodeLost"}]}
        await node.client.patch(
            POD, "web", "default", {"status": lost}, type="strategic", sub="status"
        )
        await node.ready()

    on_node(scenario)


def test_a_condition_that_the_server_set_during_a_write_is_set_right(on_node: OnNode) -> None:
    """The node controller's write came in between, and was taken for the agent's own."""

    async def scenario(node: Scene) -> None:
        await node.create_pod()
        await node.ready()
        lost = {"conditions": [{"type": "Ready", "status": "False", "reason": "NodeLost"}]}
        serve = node.server.handle
        struck: list[bool] = []

        async def handle(request: Any) -> Any:
            if request.method == "PATCH" and request.path.endswith("/web/status") and not struck:
                struck.append(True)
                await node.client.patch(
                    POD, "web", "default", {"status": lost}, type="strategic", sub="status"
                )
                await asyncio.sleep(1)  # while the news of it is on its way
            return await serve(request)

        node.server.handle = handle
        deadline = {"spec": {"activeDeadlineSeconds": 999}}  # the status tells its generation
        await node.client.patch(POD, "web", "default", deadline)

        async def told() -> bool:
            return bool(struck)

        await eventually(told)
        await asyncio.sleep(2)
        await node.ready(within_seconds=5)

    on_node(scenario)


def test_a_machine_that_cannot_run_containers_is_told_so(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.stop_agent()

        async def start() -> None:
            raise SheepError("RuntimeNotReady", "containers need root")

        node.runtime.start = start
        node.start_agent()
        with pytest.raises(SheepError, match="containers need root"):
            await node.agent_task

    on_node(scenario)


def test_an_agent_that_is_stopped_while_it_starts_takes_nothing_down(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod()
        await node.ready()
        await node.stop_agent()
        removals = []

        async def start() -> None:
            await asyncio.Event().wait()

        async def close(*, remove: bool = False) -> None:
            removals.append(remove)

        async def sandboxes() -> list[Any]:
            return []  # it has not looked yet

        runtime = node.runtime
        runtime.start, runtime.close, runtime.sandboxes = start, close, sandboxes
        node.start_agent()
        await asyncio.sleep(1)
        await node.stop_agent()
        assert removals == [False]

    on_node(scenario)


def test_a_namesake_is_another_pod(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(annotations={"shepherd.dev/hollow-stop-seconds": "5"})
        first = await node.ready()
        node.cut = True
        await node.client.delete(POD, "web", "default", grace_seconds=0)
        await node.create_pod(containers=[sh("sleep 1000")])
        await asyncio.sleep(20)
        node.cut = False
        second = await node.ready()
        assert second["containerStatuses"][0]["restartCount"] == 0
        assert second["podIP"] != first["podIP"]
        await eventually(lambda: only_pod(node, "web"))

    on_node(scenario)
