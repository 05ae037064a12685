"""Budgets, and evictions that ask them first, over the real API in virtual time."""

from typing import Any

import pytest

from shepherd.api.errors import ApiError
from shepherd.api.kinds import DEPLOYMENT, POD
from shepherd.api.kinds.disruption import POD_DISRUPTION_BUDGET
from shepherd.api.objects import Pod
from shepherd.api.resource import Object
from shepherd.testing import control_plane
from shepherd.testing.control_plane import ControlPlane, StandInNodes, Story
from shepherd.testing.virtual import eventually

LABELS = {"app": "web"}
SELECTOR = {"matchLabels": LABELS}


def play(story: Story, *, replicas: int = 4, **budget: Any) -> None:
    """Run a story on a cluster with a Deployment of ready pods and one budget for them."""
    spec = {"containers": [{"name": "web", "image": "web:1"}]}
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    deployment = {"replicas": replicas, "selector": SELECTOR, "template": template}

    async def with_budget(plane: ControlPlane, nodes: StandInNodes) -> None:
        body: Object = {"metadata": {"name": "web"}, "spec": deployment}
        await plane.client.create(DEPLOYMENT, body, "default")
        await plane.until(DEPLOYMENT, "web", lambda obj: available(obj) == replicas)
        body = {"metadata": {"name": "web"}, "spec": {"selector": SELECTOR} | budget}
        await plane.client.create(POD_DISRUPTION_BUDGET, body, "default")
        await story(plane, nodes)

    control_plane.play(with_budget, "n1", "n2")


def available(deployment: Object) -> int:
    count: int = (deployment.get("status") or {}).get("availableReplicas", 0)
    return count


async def status(plane: ControlPlane, **wanted: int) -> Object:
    """The budget's status, once it has these values."""
    found = await plane.until(
        POD_DISRUPTION_BUDGET,
        "web",
        lambda obj: (
            obj["status"].get("observedGeneration") == obj["metadata"]["generation"]
            and wanted.items() <= obj["status"].items()
        ),
    )
    found_status: Object = found["status"]
    return found_status


async def evict(plane: ControlPlane, pod: Object) -> str:
    """What the server says to that; empty = the pod goes."""
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    try:
        await plane.client.create(POD, body, "default", sub="eviction", name=name)
    except ApiError as error:
        return error.message if error.code == 429 else f"not 429: {error}"
    return ""


def test_a_budget_lets_go_what_it_can_spare_and_more_when_others_have_come() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await status(plane, expectedPods=4, desiredHealthy=3, currentHealthy=4)
        first, second, *_ = await plane.items(POD)
        assert await evict(plane, first) == ""
        refusal = await evict(plane, second)
        assert refusal.startswith(
            "Cannot evict pod as it would violate the pod's disruption budget. "
            "The disruption budget web needs 3 healthy pods and has "
        )
        await status(plane, currentHealthy=4, disruptionsAllowed=1)
        assert await evict(plane, second) == ""

    play(story, maxUnavailable=1)


def test_shares_round_up() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await status(plane, expectedPods=3, desiredHealthy=2, disruptionsAllowed=1)

    play(story, replicas=3, minAvailable="50%")


def test_pods_that_are_not_ready_go_when_the_healthy_ones_suffice() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await status(plane, desiredHealthy=2, currentHealthy=2, disruptionsAllowed=0)
        healthy = (await plane.items(POD))[0]
        assert "needs 2 healthy pods and has 2" in await evict(plane, healthy)

        def unready(pod: Pod) -> Object:
            return nodes.running(pod) | {"conditions": [{"type": "Ready", "status": "False"}]}

        nodes.report = unready
        patch = {"spec": {"replicas": 3}}
        await plane.client.patch(DEPLOYMENT, "web", "default", patch)
        known = {healthy["metadata"]["name"]}

        async def third() -> Object:
            while True:
                for pod in await plane.items(POD):
                    conditions = pod["status"].get("conditions") or ()
                    states = {c["type"]: c["status"] for c in conditions}
                    if states.get("Ready") == "False" and pod["metadata"]["name"] not in known:
                        return pod
                await plane.clock.sleep(0.1)

        assert await evict(plane, await third()) == ""

    play(story, replicas=2, minAvailable=2)


def test_a_budget_that_changes_is_judged_anew_before_it_lets_anyone_go() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await status(plane, disruptionsAllowed=2)
        pod = (await plane.items(POD))[0]
        patch = {"spec": {"minAvailable": 4}}
        await plane.client.patch(POD_DISRUPTION_BUDGET, "web", "default", patch)
        assert "still being processed" in await evict(plane, pod)
        await status(plane, disruptionsAllowed=0)
        assert "needs 4 healthy pods and has 4 currently" in await evict(plane, pod)

    play(story, minAvailable=2)


def test_an_empty_selector_means_all_and_none_means_none() -> None:
    """kubernetes/kubernetes#95083, #119731, #6884: the two were taken for each other, and a drain
    evicted all."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await status(plane, expectedPods=3, desiredHealthy=3, disruptionsAllowed=0)
        body: Object = {"metadata": {"name": "none"}, "spec": {"minAvailable": 3}}
        await plane.client.create(POD_DISRUPTION_BUDGET, body, "default")
        none = await plane.until(
            POD_DISRUPTION_BUDGET, "none", lambda obj: "expectedPods" in obj.get("status", {})
        )
        assert none["status"]["expectedPods"] == 0
        pod = (await plane.items(POD))[0]
        assert "The disruption budget web needs 3 healthy pods" in await evict(plane, pod)

    play(story, replicas=3, minAvailable=3, selector={})


@pytest.mark.parametrize(("policy", "goes"), [("AlwaysAllow", True), ("IfHealthyBudget", False)])
def test_a_pod_that_never_gets_ready_does_not_block_a_drain(policy: str, goes: bool) -> None:
    """kubernetes/kubernetes#72320: pods in a crash loop held up the drain of their node for ever.
    The refusal says which budget and how many."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "False"}],
        }  # fmt: skip
        broken = {"spec": {"template": {"metadata": {"labels": {"try": "2"}}}}}
        await plane.client.patch(DEPLOYMENT, "web", "default", broken)
        pods: list[Object] = []

        async def crashing() -> bool:
            pods[:] = [
                pod for pod in await plane.items(POD)
                if pod["metadata"]["labels"].get("try") and pod["status"]["phase"] == "Running"
            ]  # fmt: skip
            return bool(pods)

        await eventually(crashing)
        await status(plane, desiredHealthy=5)
        refusal = await evict(plane, pods[0])
        assert (refusal == "") is goes
        if not goes:
            assert "The disruption budget web needs 5 healthy pods and has " in refusal

    play(story, minAvailable=5, unhealthyPodEvictionPolicy=policy)
