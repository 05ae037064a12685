"""Services' addresses, nodes that die, and ranges for their pods: over the real API."""

from typing import Any

from shepherd.api.kinds import (
    DEPLOYMENT,
    ENDPOINT_SLICE,
    ENDPOINTS,
    LEASE,
    NODE,
    POD,
    SERVICE,
)
from shepherd.api.resource import Object
from shepherd.controllers.manager import ControllerConfig
from shepherd.testing import control_plane
from shepherd.testing.control_plane import ControlPlane, StandInNodes, Story
from shepherd.testing.virtual import eventually


def play(story: Story, *names: str) -> None:
    control_plane.play(story, *(names or ("n1", "n2")))


def pod(name: str, **spec: Any) -> Object:
    meta: Object = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    containers = [{"name": "c", "image": "demo", "ports": [{"name": "http", "containerPort": 80}]}]
    spec = {"containers": containers} | spec
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec}


def service(**spec: Any) -> Object:
    ports = [{"name": "web", "port": 8080, "targetPort": "http"}]
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": ports} | spec,
    }


def deployment(replicas: int, **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x")["spec"]}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": selector, "template": template} | spec,
    }


async def endpoints(plane: ControlPlane) -> list[Object]:
    """The endpoints of the Service `web`, over all its slices."""
    slices = [
        s
        for s in await plane.items(ENDPOINT_SLICE)
        if s["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    ]
    return [e for s in slices for e in s.get("endpoints") or []]


def ready(items: list[Object]) -> int:
    return sum(item["conditions"]["ready"] for item in items)


async def ready_are(plane: ControlPlane, count: int) -> bool:
    return ready(await endpoints(plane)) == count


def test_a_service_has_the_addresses_of_its_ready_pods() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(SERVICE, service())
        await plane.client.create(DEPLOYMENT, deployment(3))
        await eventually(lambda: ready_are(plane, 3))
        [item] = [s for s in await plane.items(ENDPOINT_SLICE)
                  if s["metadata"]["name"].startswith("web-")]  # fmt: skip
        assert item["ports"] == [{"name": "web", "protocol": "TCP", "port": 80}]
        assert item["metadata"]["ownerReferences"][0]["kind"] == "Service"
        pods = {p["metadata"]["uid"]: p["status"]["podIP"] for p in await plane.items(POD)}
        found = {e["targetRef"]["uid"]: e["addresses"][0] for e in item["endpoints"]}
        assert found == pods
        mirror = await plane.until(ENDPOINTS, "web", lambda o: bool(o.get("subsets")))
        assert len(mirror["subsets"][0]["addresses"]) == 3
        version = item["metadata"]["resourceVersion"]
        await plane.clock.sleep(120)
        again = await plane.find(ENDPOINT_SLICE, item["metadata"]["name"])
        assert again
        assert again["metadata"]["resourceVersion"] == version, "nothing changed, nothing written"

    play(story)


def test_a_pod_under_deletion_leaves_the_service_before_it_stops() -> None:
    """kubernetes/kubernetes#43576, #86280, #123116: requests fail as old pods stop. The address
    is out of use at once, and the pod serves what still comes in its grace time."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.stop_seconds = 20
        await plane.client.create(SERVICE, service())
        await plane.client.create(POD, pod("a"))
        await eventually(lambda: ready_are(plane, 1))
        await plane.client.delete(POD, "a", "default")
        await eventually(lambda: ready_are(plane, 0), within_seconds=1)
        [endpoint] = await endpoints(plane)
        assert endpoint["conditions"] == {"ready": False, "serving": True, "terminating": True}
        await plane.gone(POD, "a")

        async def empty() -> bool:
            return await endpoints(plane) == []

        await eventually(empty)

    play(story)


def test_unready_pods_are_published_only_when_asked_for() -> None:
    """kubernetes/kubernetes#92559, #66234, #58662; kubernetes/dns#472: peers resolve each other
    before they are ready."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: {"phase": "Running", "podIP": "10.42.0.9"}
        await plane.client.create(SERVICE, service())
        await plane.client.create(POD, pod("a"))

        async def listed() -> bool:
            return len(await endpoints(plane)) == 1

        await eventually(listed)
        assert ready(await endpoints(plane)) == 0
        patch = {"spec": {"publishNotReadyAddresses": True}}
        await plane.client.patch(SERVICE, "web", "default", patch)
        await eventually(lambda: ready_are(plane, 1))

    play(story)


def test_many_endpoints_are_spread_over_slices_and_change_only_where_they_must() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(SERVICE, service())
        await plane.client.create(DEPLOYMENT, deployment(150))
        await eventually(lambda: ready_are(plane, 150))
        slices = [s for s in await plane.items(ENDPOINT_SLICE)
                  if s["metadata"]["name"].startswith("web-")]  # fmt: skip
        assert sorted(len(s["endpoints"]) for s in slices) == [50, 100]

    play(story)


def test_a_service_without_selector_is_its_users_own() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(SERVICE, service(selector=None))
        own = {
            "kind": "EndpointSlice",
            "apiVersion": "discovery.k8s.io/v1",
            "addressType": "IPv4",
            "metadata": {
                "name": "own",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "web"},
            },
            "endpoints": [{"addresses": ["192.0.2.1"]}],
            "ports": [],
        }
        await plane.client.create(ENDPOINT_SLICE, own)
        await plane.clock.sleep(60)
        assert len(await endpoints(plane)) == 1
        assert await plane.find(ENDPOINTS, "web") is None

    play(story)


def taints(node: Object) -> set[tuple[str, str]]:
    prefix = "node.kubernetes.io/"
    found = node["spec"].get("taints") or []
    return {(t["key"].removeprefix(prefix), t["effect"]) for t in found}


LOST = {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}


def test_a_dead_node_is_marked_tainted_and_its_pods_replaced_after_their_time() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(SERVICE, service())
        await plane.client.create(DEPLOYMENT, deployment(4))
        await eventually(lambda: ready_are(plane, 4))
        start = plane.clock.monotonic()
        nodes.kill("n1")
        node = await plane.until(NODE, "n1", lambda o: taints(o) == LOST)
        assert 30 <= plane.clock.monotonic() - start <= 52
        condition = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
        assert (condition["status"], condition["reason"]) == ("Unknown", "NodeStatusUnknown")
        await eventually(lambda: ready_are(plane, 2), within_seconds=5)
        lost = next(p for p in await plane.items(POD) if p["spec"]["nodeName"] == "n1")
        states = {c["type"]: c["status"] for c in lost["status"]["conditions"]}
        assert (states["Ready"], states["PodScheduled"]) == ("False", "True")

        async def replaced() -> bool:
            alive = [p for p in await plane.items(POD) if "deletionTimestamp" not in p["metadata"]]
            return {p["spec"].get("nodeName") for p in alive} == {"n2"} and len(alive) == 4

        await plane.clock.sleep(250)
        assert not await replaced(), "pods stay for their tolerationSeconds of 300"
        await eventually(replaced, within_seconds=100)
        await eventually(lambda: ready_are(plane, 4))
        await plane.client.delete(NODE, "n1")

        await plane.pods_are(4, within_seconds=90)

    play(story)


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment(4))
        await plane.clock.sleep(10)
        before = {p["metadata"]["uid"] for p in await plane.items(POD)}
        nodes.kill("n1")
        await plane.until(NODE, "n1", lambda o: taints(o) == LOST)
        await nodes.revive("n1")
        await plane.until(NODE, "n1", lambda o: taints(o) == set())
        await plane.clock.sleep(600)
        assert {p["metadata"]["uid"] for p in await plane.items(POD)} == before

    play(story)


def test_when_every_node_is_silent_nothing_is_evicted() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.create(DEPLOYMENT, deployment(4))
        await plane.clock.sleep(10)
        nodes.kill("n1")
        nodes.kill("n2")
        await plane.clock.sleep(900)
        for name in ("n1", "n2"):
            node = await plane.find(NODE, name)
            assert node
            assert ("unreachable", "NoSchedule") in taints(node)
        pods = await plane.items(POD)
        assert len(pods) == 4
        assert not any("deletionTimestamp" in p["metadata"] for p in pods)

    play(story)


def test_our_own_absence_is_not_taken_for_theirs() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        loop_time = plane.clock.monotonic

        async def silent(name: str) -> None:
            """As if the process slept for an hour: time has passed, and nobody was heard."""

        await plane.clock.sleep(30)
        nodes.heartbeat = silent  # type: ignore[method-assign]
        plane.clock.monotonic = lambda: loop_time() + 3600  # type: ignore[method-assign]
        await plane.clock.sleep(30)
        for name in ("n1", "n2"):
            node = await plane.find(NODE, name)
            assert node
            assert taints(node) == set()
        await plane.until(NODE, "n1", lambda o: taints(o) != set(), within_seconds=60)

    play(story)


def test_a_cordon_is_a_taint() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.client.patch(NODE, "n1", None, {"spec": {"unschedulable": True}})
        await plane.until(NODE, "n1", lambda o: taints(o) == {("unschedulable", "NoSchedule")})
        await plane.client.patch(NODE, "n1", None, {"spec": {"unschedulable": None}})
        await plane.until(NODE, "n1", lambda o: taints(o) == set())

    play(story)


def test_each_node_has_a_range_of_its_own_that_is_freed_with_it() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        ranges = []
        for name in ("n1", "n2", "n3"):
            node = await plane.until(NODE, name, lambda o: bool(o["spec"].get("podCIDR")))
            assert node["spec"]["podCIDRs"] == [node["spec"]["podCIDR"]]
            ranges.append(node["spec"]["podCIDR"])
        assert len(set(ranges)) == 3
        assert all(r.startswith("10.42.") and r.endswith(".0/24") for r in ranges)

    play(story, "n1", "n2", "n3")


def test_a_node_waits_for_a_range_until_another_one_goes() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.until(NODE, "n1", lambda o: o["spec"].get("podCIDR") == "10.42.0.0/24")

        async def told() -> bool:
            return bool(await plane.events("CIDRNotAvailable"))

        await eventually(told)
        await plane.client.delete(NODE, "n1")
        await plane.until(NODE, "n2", lambda o: o["spec"].get("podCIDR") == "10.42.0.0/24")

    control_plane.play(story, "n1", "n2", config=ControllerConfig(pod_cidr="10.42.0.0/24"))


def test_a_pod_that_comes_to_a_tainted_node_has_its_whole_toleration_time() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        taint = {"key": "maintenance", "effect": "NoExecute"}
        await plane.client.patch(NODE, "n1", None, {"spec": {"taints": [taint]}})
        await plane.clock.sleep(100)
        bears = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
        await plane.client.create(POD, pod("late", nodeName="n1", tolerations=[bears]))
        await plane.clock.sleep(50)
        assert await plane.find(POD, "late")
        await plane.gone(POD, "late")

    play(story)


def test_leases_of_other_namespaces_are_no_heartbeats() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.kill("n1")
        for _ in range(12):
            name = {"name": "n1", "namespace": "default"}
            body = {"kind": "Lease", "apiVersion": LEASE.api_version, "metadata": name}
            await plane.client.create(LEASE, body)
            await plane.clock.sleep(5)
            await plane.client.delete(LEASE, "n1", "default")
        node = await plane.find(NODE, "n1")
        assert node
        assert taints(node) == LOST

    play(story)
