"""Jobs with real agents over hollow containers, over bad lines, and under controllers that die."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from shepherd.api.kinds import POD
from shepherd.api.kinds.jobs import JOB
from shepherd.api.objects import Pod
from shepherd.api.resource import Object
from shepherd.controllers.manager import ControllerManager
from shepherd.lib.tasks import cancel_and_wait
from shepherd.testing.control_plane import ControlPlane, StandInNodes
from shepherd.testing.simulation import Simulation, run_simulation
from shepherd.testing.virtual import eventually, run_virtual
from shepherd.testing.wire import Faults
from shepherd.testing.world import World

ENDS = ("Succeeded", "Failed")


def script(text: str, policy: str = "Never", **spec: Any) -> Object:
    command = ["sh", "-c", text]
    container = {"name": "main", "image": "demo:1", "command": command}
    pod = {"restartPolicy": policy, "containers": [container]}
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": "work", "namespace": "default"},
        "spec": {"template": {"spec": pod}} | spec,
    }


def reason(obj: Object, kind: str) -> str:
    """Of a condition that is True."""
    found = obj.get("status", {}).get("conditions", ())
    return "".join(c["reason"] for c in found if c["type"] == kind and c["status"] == "True")


def complete(obj: Object) -> bool:
    return bool(reason(obj, "Complete"))


async def simulated_end(cluster: Simulation, how: str) -> Object:
    found: Object = {}

    async def so() -> bool:
        nonlocal found
        found = await cluster.client.get(JOB, "work", "default")
        return bool(reason(found, how))

    await eventually(so, within_seconds=1200, every_seconds=1, what=how)
    return found


def test_54870_restarts_in_place_count_and_end_the_job() -> None:
    """kubernetes/kubernetes#54870, #95433: under OnFailure the job ends when the restarts of its
    pods reach the limit, and the pods end with it."""

    async def scenario(cluster: Simulation) -> None:
        body = script("sleep 1; exit 1", policy="OnFailure", backoffLimit=3)
        await cluster.client.create(JOB, body)
        restarts: list[int] = []

        def watch(world: World) -> None:
            for pod in world.of(POD):
                found = pod.get("status", {}).get("containerStatuses", ())
                restarts.extend(status["restartCount"] for status in found)

        cluster.world.always(watch)
        done = await simulated_end(cluster, "Failed")
        assert reason(done, "Failed") == "BackoffLimitExceeded"
        assert done["status"]["failed"] == 1
        assert max(restarts) == 3

        async def no_pods() -> bool:
            return not await cluster.list(POD, "default")

        await eventually(no_pods)

    run_simulation(scenario, seed=1, nodes=2)


def test_restarts_of_init_containers_count_too() -> None:
    async def scenario(cluster: Simulation) -> None:
        body = script("exit 0", policy="OnFailure", backoffLimit=2)
        container = body["spec"]["template"]["spec"]["containers"][0]
        first = container | {"name": "first", "command": ["sh", "-c", "exit 1"]}
        body["spec"]["template"]["spec"]["initContainers"] = [first]
        await cluster.client.create(JOB, body)
        done = await simulated_end(cluster, "Failed")
        assert reason(done, "Failed") == "BackoffLimitExceeded"

    run_simulation(scenario, seed=1, nodes=1)


def test_67848_without_a_retry_there_is_exactly_one_attempt() -> None:
    """kubernetes/kubernetes#67848."""

    async def scenario(cluster: Simulation) -> None:
        body = script("echo once; exit 1", policy="OnFailure", backoffLimit=0)
        await cluster.client.create(JOB, body)
        done = await simulated_end(cluster, "Failed")
        assert reason(done, "Failed") == "BackoffLimitExceeded"
        assert done["status"]["failed"] == 1
        (pod,) = await cluster.list(POD, "default")
        (status,) = pod["status"]["containerStatuses"]
        assert status["restartCount"] == 0
        assert status["state"]["terminated"]["exitCode"] == 1

    run_simulation(scenario, seed=1, nodes=2)


def test_25908_a_helper_that_never_exits_does_not_keep_the_job_open() -> None:
    """kubernetes/kubernetes#25908, #73118: native sidecars are stopped after the main ones."""

    async def scenario(cluster: Simulation) -> None:
        body = script("sleep 5; exit 0")
        helper = {"name": "helper", "image": "demo:1", "restartPolicy": "Always"}
        body["spec"]["template"]["spec"]["initContainers"] = [helper]
        await cluster.client.create(JOB, body)
        done = await simulated_end(cluster, "Complete")
        assert done["status"]["succeeded"] == 1
        (pod,) = await cluster.list(POD, "default")
        assert "terminated" in pod["status"]["initContainerStatuses"][0]["state"]

    run_simulation(scenario, seed=1, nodes=2)


# Faults


def no_more_than(most: int) -> Callable[[World], None]:
    def check(world: World) -> None:
        pods = [pod for pod in world.of(POD) if "deletionTimestamp" not in pod["metadata"]]
        phases = [pod.get("status", {}).get("phase") for pod in pods]
        running = [phase for phase in phases if phase not in ENDS]
        assert len(running) <= most, f"{len(running)} pods at revision {world.revision}"

    return check


@pytest.mark.parametrize("seed", range(3))
def test_doubled_requests_make_no_double_counts(seed: int) -> None:
    async def scenario(cluster: Simulation) -> None:
        body = script("sleep 1; exit 0", completions=9, parallelism=3, completionMode="Indexed")
        await cluster.client.create(JOB, body)
        done = await simulated_end(cluster, "Complete")
        assert (done["status"]["succeeded"], done["status"]["completedIndexes"]) == (9, "0-8")
        assert "failed" not in done["status"]

    run_simulation(scenario, seed=seed, nodes=2, faults=Faults(doubled=0.2, delay_seconds=0.3))


LOSSY = Faults(lost_request=0.05, lost_response=0.05, delay_seconds=0.2, conflict=0.05)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", ["Indexed", "NonIndexed"])
def test_over_bad_lines_every_pod_is_counted_once(mode: str, seed: int) -> None:
    async def scenario(cluster: Simulation) -> None:
        cluster.world.always(no_more_than(4))
        body = script("sleep 1; exit 0", completions=12, parallelism=4, completionMode=mode)
        await cluster.client.create(JOB, body)
        done = await simulated_end(cluster, "Complete")
        assert done["status"]["succeeded"] == 12
        pods = await cluster.list(POD, "default")
        assert sum(pod["status"]["phase"] == "Succeeded" for pod in pods) == 12
        assert not any(pod["metadata"].get("finalizers") for pod in pods)

    run_simulation(scenario, seed=seed, nodes=2, faults=LOSSY)


@asynccontextmanager
async def controllers(plane: ControlPlane, seed: int) -> AsyncIterator[None]:
    """Controllers that begin anew, and end in whatever they were doing."""
    manager = ControllerManager(plane.client, clock=plane.clock, random=Random(seed))
    task = asyncio.ensure_future(manager.run())
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        await cancel_and_wait(task)


@pytest.mark.parametrize("seed", range(6))
def test_a_controller_that_is_stopped_at_any_instant_loses_no_count(seed: int) -> None:
    """Pods fail, succeed and are deleted, while controllers come and go: each is counted once."""

    async def main() -> None:
        random = Random(seed)
        async with ControlPlane.open(controllers=False) as plane:
            nodes = StandInNodes(plane, "n1", "n2")
            nodes.start_seconds = 0.05
            ends: dict[str, str] = {}

            def report(pod: Pod) -> Object:
                bad = random.random() < 0.3
                ends[pod.metadata.uid] = "failed" if bad else "succeeded"
                return {"phase": "Failed" if bad else "Succeeded"}

            nodes.report = report
            async with nodes.up():
                body = script("exit 0", completions=20, parallelism=6, backoffLimit=1000)
                await plane.client.create(JOB, body)
                for step in range(30):
                    async with controllers(plane, seed * 100 + step):
                        await asyncio.sleep(random.random() * 0.6)
                    pods = await plane.items(POD)
                    phases = [pod.get("status", {}).get("phase") for pod in pods]
                    assert sum(phase not in ENDS for phase in phases) <= 6
                    if random.random() < 0.3 and pods:
                        victim = random.choice(pods)["metadata"]["name"]
                        await plane.client.delete(POD, victim, "default")
                async with controllers(plane, seed):
                    done = await plane.until(JOB, "work", complete, within_seconds=3000)
            status, counts = done["status"], Counter(ends.values())
            assert status["succeeded"] == counts["succeeded"]
            assert status.get("failed", 0) >= counts["failed"]

    run_virtual(main())
