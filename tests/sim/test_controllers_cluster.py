"""Services' addresses, nodes that die, collection of garbage, namespaces: over the real API."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shepherd.api.errors import ApiError
from shepherd.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    ENDPOINTS,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
)
from shepherd.api.resource import Object, Resource
from shepherd.controllers.manager import ControllerConfig
from shepherd.testing.control_plane import ControlPlane, StandInNodes
from shepherd.testing.virtual import eventually, run_virtual

Story = Callable[[ControlPlane, StandInNodes], Awaitable[None]]
CONFIG = ControllerConfig(ca="-----BEGIN CERTIFICATE-----", finished_pods_limit=5)


def play(story: Story, *names: str) -> None:
    """Run a story on a cluster of stand-in nodes."""

    async def main() -> None:
        async with (
            ControlPlane.open(CONFIG) as plane,
            StandInNodes(plane, *(names or ("n1", "n2"))).up() as nodes,
        ):
            await story(plane, nodes)

    run_virtual(main())


def pod(name: str, **spec: Any) -> Object:
    meta: Object = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    containers = [{"name": "c", "image": "demo", "ports": [{"name": "http", "containerPort": 80}]}]
    spec = {"containers": containers} | spec
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec}


def reference(owner: Object, *, block: bool = True) -> Object:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "blockOwnerDeletion": block,
    }


def config_map(name: str, *owners: Object, namespace: str = "default", **meta: Any) -> Object:
    references = [reference(owner) for owner in owners]
    meta |= {"name": name, "namespace": namespace, "ownerReferences": references}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta}


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


async def gone(plane: ControlPlane, resource: Resource, name: str) -> None:
    async def holds() -> bool:
        return await plane.find(resource, name) is None

    await eventually(holds, what=f"{resource.kind} {name} is gone")


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
        await gone(plane, POD, "a")

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

        async def collected() -> bool:
            return len(await plane.items(POD)) == 4

        await eventually(collected, within_seconds=90)

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
    async def main() -> None:
        config = ControllerConfig(pod_cidr="10.42.0.0/24")
        async with (
            ControlPlane.open(config) as plane,
            StandInNodes(plane, "n1", "n2").up(),
        ):
            await plane.until(NODE, "n1", lambda o: o["spec"].get("podCIDR") == "10.42.0.0/24")

            async def told() -> bool:
                return "CIDRNotAvailable" in [e["reason"] for e in await plane.items(EVENT)]

            await eventually(told)
            await plane.client.delete(NODE, "n1")
            await plane.until(NODE, "n2", lambda o: o["spec"].get("podCIDR") == "10.42.0.0/24")

    run_virtual(main())


def test_finished_pods_beyond_the_limit_are_removed_oldest_first() -> None:
    """kubernetes/kubernetes#55051; canonical/microk8s#3143: pods that failed were kept by the
    thousand."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: {"phase": "Succeeded"}
        for number in range(8):
            await plane.client.create(POD, pod(f"p{number}", restartPolicy="Never"))
            await plane.clock.sleep(1)

        async def removed() -> bool:
            return len(await plane.items(POD)) == 5

        await eventually(removed)
        assert sorted(p["metadata"]["name"] for p in await plane.items(POD))[0] == "p3"

    play(story)


def test_what_is_owned_goes_with_its_last_owner() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        one = await plane.client.create(CONFIG_MAP, config_map("one"))
        two = await plane.client.create(CONFIG_MAP, config_map("two"))
        await plane.client.create(CONFIG_MAP, config_map("child", one, two))
        await plane.client.delete(CONFIG_MAP, "one", "default")
        child = await plane.until(
            CONFIG_MAP, "child", lambda o: len(o["metadata"]["ownerReferences"]) == 1
        )
        assert child["metadata"]["ownerReferences"][0]["uid"] == two["metadata"]["uid"]
        await plane.client.delete(CONFIG_MAP, "two", "default")
        await gone(plane, CONFIG_MAP, "child")

    play(story)


def test_a_child_that_comes_after_its_owner_went_is_collected() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        owner = await plane.client.create(CONFIG_MAP, config_map("owner"))
        await plane.client.delete(CONFIG_MAP, "owner", "default")
        await plane.client.create(CONFIG_MAP, config_map("owner"))
        await plane.client.create(CONFIG_MAP, config_map("child", owner))
        await gone(plane, CONFIG_MAP, "child")
        assert await plane.find(CONFIG_MAP, "owner"), "a namesake is not the owner"

    play(story)


def test_foreground_deletion_waits_for_the_dependents() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        owner = await plane.client.create(CONFIG_MAP, config_map("owner"))
        child = config_map("child", owner, finalizers=["example.com/hold"])
        await plane.client.create(CONFIG_MAP, child)
        await plane.client.delete(CONFIG_MAP, "owner", "default", propagation="Foreground")
        await plane.until(CONFIG_MAP, "child", lambda o: "deletionTimestamp" in o["metadata"])
        await plane.clock.sleep(30)
        assert await plane.find(CONFIG_MAP, "owner")
        await plane.client.patch(CONFIG_MAP, "child", "default", {"metadata": {"finalizers": None}})
        await gone(plane, CONFIG_MAP, "owner")
        assert await plane.find(CONFIG_MAP, "child") is None

    play(story)


def test_an_orphaning_deletion_keeps_the_dependents() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        owner = await plane.client.create(CONFIG_MAP, config_map("owner"))
        await plane.client.create(CONFIG_MAP, config_map("child", owner))
        await plane.client.delete(CONFIG_MAP, "owner", "default", propagation="Orphan")
        await gone(plane, CONFIG_MAP, "owner")
        child = await plane.find(CONFIG_MAP, "child")
        assert child
        assert not child["metadata"].get("ownerReferences")

    play(story)


def test_an_owner_in_another_namespace_counts_as_absent_and_is_told() -> None:
    """kubernetes/kubernetes#65200, #88097, #98040; crossplane/crossplane#895; pusher/faros#143:
    what became of the child depended on the order of a restart."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        owner = await plane.client.create(CONFIG_MAP, config_map("owner", namespace="kube-system"))
        await plane.client.create(SECRET, {
            "kind": "Secret", "apiVersion": "v1",
            "metadata": {"name": "child", "namespace": "default",
                         "ownerReferences": [reference(owner)]},
        })  # fmt: skip
        await gone(plane, SECRET, "child")

        async def told() -> bool:
            return "OwnerRefInvalidNamespace" in [e["reason"] for e in await plane.items(EVENT)]

        await eventually(told)

    play(story)


def test_a_pod_that_comes_to_a_tainted_node_has_its_whole_toleration_time() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        taint = {"key": "maintenance", "effect": "NoExecute"}
        await plane.client.patch(NODE, "n1", None, {"spec": {"taints": [taint]}})
        await plane.clock.sleep(100)
        bears = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
        await plane.client.create(POD, pod("late", nodeName="n1", tolerations=[bears]))
        await plane.clock.sleep(50)
        assert await plane.find(POD, "late")
        await gone(plane, POD, "late")

    play(story)


def test_a_cluster_scoped_child_of_a_namespaced_owner_is_told_and_kept() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        owner = await plane.client.create(CONFIG_MAP, config_map("owner"))
        meta = {"name": "child", "ownerReferences": [reference(owner)]}
        body = {"kind": "Namespace", "apiVersion": "v1", "metadata": meta}
        await plane.client.create(NAMESPACE, body)
        await plane.client.delete(CONFIG_MAP, "owner", "default")
        await plane.clock.sleep(60)
        child = await plane.find(NAMESPACE, "child")
        assert child
        assert "deletionTimestamp" not in child["metadata"]

    play(story)


def test_a_namespace_goes_with_all_it_holds() -> None:
    """kubernetes/kubernetes#60807, #19317, #77086: Terminating, and no word of what holds it.
    zalando-incubator/kopf#75: taking the finalizer off works at once."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        head = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "team"}}
        await plane.client.create(NAMESPACE, head)
        await plane.until(SERVICE_ACCOUNT, "default", bool, namespace="team")
        ca = await plane.until(CONFIG_MAP, "kube-root-ca.crt", bool, namespace="team")
        assert ca["data"] == {"ca.crt": CONFIG.ca}
        web = deployment(2)
        web["metadata"]["namespace"] = "team"
        await plane.client.create(DEPLOYMENT, web)
        held = config_map("held", namespace="team", finalizers=["example.com/hold"])
        await plane.client.create(CONFIG_MAP, held)
        await plane.clock.sleep(5)
        await plane.client.delete(NAMESPACE, "team")
        with pytest.raises(ApiError, match="being terminated"):
            await plane.client.create(CONFIG_MAP, config_map("late", namespace="team"))

        def explained(obj: Object) -> bool:
            texts = [c["message"] for c in obj["status"].get("conditions", [])]
            return any("example.com/hold in 1 resource instances" in text for text in texts)

        await plane.until(NAMESPACE, "team", explained)

        async def only_held() -> bool:
            left = [*await plane.items(POD, "team"), *await plane.items(CONFIG_MAP, "team")]
            return [item["metadata"]["name"] for item in left] == ["held"]

        await eventually(only_held)
        patch = {"metadata": {"finalizers": None}}
        await plane.client.patch(CONFIG_MAP, "held", "team", patch)
        await gone(plane, NAMESPACE, "team")

    play(story)


def test_what_a_namespace_must_have_is_made_again() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        await plane.until(SERVICE_ACCOUNT, "default", bool)
        await plane.client.delete(SERVICE_ACCOUNT, "default", "default")
        await plane.until(SERVICE_ACCOUNT, "default", bool)
        name = "kube-root-ca.crt"
        await plane.until(CONFIG_MAP, name, bool)
        wrong = {"data": {"ca.crt": "other", "more": "x"}}
        await plane.client.patch(CONFIG_MAP, name, "default", wrong)
        await plane.until(CONFIG_MAP, name, lambda o: o["data"] == {"ca.crt": CONFIG.ca})

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
