"""DELETE: at once, after a grace period, or when the last finalizer is gone."""

import re
from typing import Any

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"content_type": "application/merge-patch+json"}
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}


async def bound_pod(api: Any) -> None:
    await api.ok("POST", PODS, POD)
    await api.ok("POST", f"{PODS}/p/binding", {"target": {"name": "n1"}})


async def test_most_kinds_go_at_once(api: Any) -> None:
    created = await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    status = await api.ok("DELETE", f"{CONFIG_MAPS}/a", {"propagationPolicy": "Background"})
    assert status["status"] == "Success"
    uid = created["metadata"]["uid"]
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": uid}
    await api.fails(404, "DELETE", f"{CONFIG_MAPS}/a")


async def test_some_kinds_are_shown_a_last_time(api: Any) -> None:
    """Typed clients read the answer as upstream's OpenAPI types it."""
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    await api.ok("POST", classes, {"metadata": {"name": "fast"}, "provisioner": "example.com/d"})
    assert (await api.ok("DELETE", f"{classes}/fast"))["kind"] == "StorageClass"


async def test_an_unscheduled_pod_goes_at_once_and_a_running_one_gets_its_grace(api: Any) -> None:
    await api.ok("POST", PODS, POD)
    assert (await api.ok("DELETE", f"{PODS}/p"))["kind"] == "Pod"
    await api.fails(404, "GET", f"{PODS}/p")

    await bound_pod(api)
    marked = await api.ok("DELETE", f"{PODS}/p")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["deletionTimestamp"]
    shorter = await api.ok("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 5})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = await api.ok("DELETE", f"{PODS}/p?gracePeriodSeconds=60")
    assert longer["metadata"] == shorter["metadata"]
    await api.ok("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    await api.fails(404, "GET", f"{PODS}/p")


async def test_a_pod_that_has_ended_goes_at_once(api: Any) -> None:
    await bound_pod(api)
    await api.ok("PATCH", f"{PODS}/p/status", {"status": {"phase": "Succeeded"}}, **MERGE)
    await api.ok("DELETE", f"{PODS}/p")
    await api.fails(404, "GET", f"{PODS}/p")


async def test_finalizers_hold_an_object_until_the_last_is_gone(api: Any) -> None:
    body = {"metadata": {"name": "a", "finalizers": ["x.io/one", "x.io/two"]}}
    await api.ok("POST", CONFIG_MAPS, body)
    marked = await api.ok("DELETE", f"{CONFIG_MAPS}/a")
    assert marked["metadata"]["deletionTimestamp"]
    again = await api.ok("DELETE", f"{CONFIG_MAPS}/a")
    assert again == marked
    more = {"metadata": {"finalizers": ["x.io/one", "x.io/two", "x.io/three"]}}
    status = await api.fails(422, "PATCH", f"{CONFIG_MAPS}/a", more, **MERGE)
    assert "no new finalizers can be added" in status["message"]
    events = await api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=0")
    assert await events.take(1) == [("ADDED", "a")]
    fewer = {"metadata": {"finalizers": ["x.io/two"]}}
    await api.ok("PATCH", f"{CONFIG_MAPS}/a", fewer, **MERGE)
    await api.ok("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, **MERGE)
    await api.fails(404, "GET", f"{CONFIG_MAPS}/a")
    assert await events.take(2) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_who_deletes_again_is_told_who_holds_it_and_for_how_long(api: Any) -> None:
    """zalando-incubator/kopf#75; ray-project/ray#21684: the operator is gone, its finalizer is
    not, and nothing says so."""
    body = {"metadata": {"name": "a", "finalizers": ["x.io/one"]}}
    await api.ok("POST", CONFIG_MAPS, body)
    first = await api.ask("DELETE", f"{CONFIG_MAPS}/a")
    assert "warning" not in first.headers
    again = await api.ask("DELETE", f"{CONFIG_MAPS}/a")
    text = r'299 - "metadata.deletionTimestamp: set \ds ago; .* finalizers are taken off: x.io/one"'
    assert re.fullmatch(text, again.headers["warning"])


async def test_propagation_leaves_its_finalizer_to_the_garbage_collector(api: Any) -> None:
    for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": policy.lower()}})
        path = f"{CONFIG_MAPS}/{policy.lower()}"
        marked = await api.ok("DELETE", path, {"propagationPolicy": policy})
        assert marked["metadata"]["finalizers"] == [finalizer]
        assert marked["metadata"]["deletionTimestamp"]
        await api.ok("DELETE", path, {"propagationPolicy": "Background"})
        await api.fails(404, "GET", path)


async def test_a_job_leaves_its_pods_to_who_does_not_say_otherwise(api: Any) -> None:
    """As batch/v1 always has: kubernetes pkg/registry/batch/job/strategy.go."""
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    job = {"metadata": {"name": "a"}, "spec": {"template": {"spec": pod}}}
    await api.ok("POST", jobs, job)
    marked = await api.ok("DELETE", f"{jobs}/a")
    assert marked["metadata"]["finalizers"] == ["orphan"]
    assert await api.ok("DELETE", f"{jobs}/a") == marked
    await api.ok("DELETE", f"{jobs}/a", {"propagationPolicy": "Background"})
    await api.fails(404, "GET", f"{jobs}/a")


async def test_preconditions_must_hold(api: Any) -> None:
    created = await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
        status = await api.fails(409, "DELETE", f"{CONFIG_MAPS}/a", {"preconditions": wrong})
        assert "Precondition failed" in status["message"]
    metadata = created["metadata"]
    right = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    await api.ok("DELETE", f"{CONFIG_MAPS}/a", {"preconditions": right})


async def test_bad_options_change_nothing(api: Any) -> None:
    await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    for body in (
        {"propagationPolicy": "Sideways"},
        {"dryRun": ["Some"]},
        {"propagationPolicy": "Orphan", "orphanDependents": True},
    ):
        await api.fails(422, "DELETE", f"{CONFIG_MAPS}/a", body)
    await api.fails(400, "DELETE", f"{CONFIG_MAPS}/a?gracePeriodSeconds=soon")
    await api.ok("GET", f"{CONFIG_MAPS}/a")


async def test_a_collection_is_deleted_by_selector(api: Any) -> None:
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
        body = {"metadata": {"name": name, "labels": {"colour": colour}}}
        await api.ok("POST", CONFIG_MAPS, body)
    deleted = await api.ok("DELETE", f"{CONFIG_MAPS}?labelSelector=colour%3Dred")
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "c"]
    left = await api.ok("GET", CONFIG_MAPS)
    assert [item["metadata"]["name"] for item in left["items"]] == ["b"]
