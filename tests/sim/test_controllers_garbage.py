"""What is to go goes: garbage, finished pods, namespaces; and what must be is made again."""

from typing import Any

import pytest

from shepherd.api.errors import ApiError
from shepherd.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
)
from shepherd.api.resource import Object
from shepherd.controllers.manager import ControllerConfig
from shepherd.testing import control_plane
from shepherd.testing.control_plane import ControlPlane, StandInNodes, Story
from shepherd.testing.virtual import eventually

CONFIG = ControllerConfig(ca="-----BEGIN CERTIFICATE-----", finished_pods_limit=5)
POD_SPEC: Object = {"containers": [{"name": "c", "image": "demo"}]}


def play(story: Story) -> None:
    control_plane.play(story, config=CONFIG)


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


def test_finished_pods_beyond_the_limit_are_removed_oldest_first() -> None:
    """kubernetes/kubernetes#55051; canonical/microk8s#3143: pods that failed were kept by the
    thousand."""

    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        nodes.report = lambda pod: {"phase": "Succeeded"}
        for number in range(8):
            spec = POD_SPEC | {"restartPolicy": "Never"}
            body = {"metadata": {"name": f"p{number}"}, "spec": spec}
            await plane.client.create(POD, body, "default")
            await plane.clock.sleep(1)
        await plane.pods_are(5)
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
        await plane.gone(CONFIG_MAP, "child")

    play(story)


def test_a_child_that_comes_after_its_owner_went_is_collected() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        owner = await plane.client.create(CONFIG_MAP, config_map("owner"))
        await plane.client.delete(CONFIG_MAP, "owner", "default")
        await plane.client.create(CONFIG_MAP, config_map("owner"))
        await plane.client.create(CONFIG_MAP, config_map("child", owner))
        await plane.gone(CONFIG_MAP, "child")
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
        await plane.gone(CONFIG_MAP, "owner")
        assert await plane.find(CONFIG_MAP, "child") is None

    play(story)


def test_an_orphaning_deletion_keeps_the_dependents() -> None:
    async def story(plane: ControlPlane, nodes: StandInNodes) -> None:
        owner = await plane.client.create(CONFIG_MAP, config_map("owner"))
        await plane.client.create(CONFIG_MAP, config_map("child", owner))
        await plane.client.delete(CONFIG_MAP, "owner", "default", propagation="Orphan")
        await plane.gone(CONFIG_MAP, "owner")
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
        await plane.gone(SECRET, "child")

        async def told() -> bool:
            return bool(await plane.events("OwnerRefInvalidNamespace"))

        await eventually(told)

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
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": POD_SPEC}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        web = {"metadata": {"name": "web"}, "spec": spec}
        await plane.client.create(DEPLOYMENT, web, "team")
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
        await plane.gone(NAMESPACE, "team")

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
