"""Watch streams: what informers, kubectl and agents rely on."""

import asyncio
from typing import Any

import pytest

from shepherd.server import hub, watch

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
MERGE = {"content_type": "application/merge-patch+json"}
POD_SPEC = {"containers": [{"name": "a", "image": "b"}]}


async def create(api: Any, name: str, **labels: str) -> Any:
    return await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}})


async def relabel(api: Any, name: str, **labels: str | None) -> Any:
    patch = {"metadata": {"labels": labels}}
    return await api.ok("PATCH", f"{CONFIG_MAPS}/{name}", patch, **MERGE)


async def test_every_write_after_a_list_is_told_once_and_in_order(api: Any) -> None:
    """kubernetes/kubernetes#54075, #135959; kubernetes/client-go#539, #1385: what comes between
    list and watch was lost."""
    await create(api, "before")
    listed = await api.ok("GET", CONFIG_MAPS)
    await create(api, "between")
    version = listed["metadata"]["resourceVersion"]
    events = await api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion={version}")
    await create(api, "after")
    await relabel(api, "after", x="y")
    await api.ok("DELETE", f"{CONFIG_MAPS}/before")
    assert await events.take(4) == [
        ("ADDED", "between"),
        ("ADDED", "after"),
        ("MODIFIED", "after"),
        ("DELETED", "before"),
    ]


async def test_a_deletion_carries_the_last_state_and_its_own_version(api: Any) -> None:
    created = await create(api, "a")
    version = created["metadata"]["resourceVersion"]
    events = await api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion={version}")
    await api.ok("DELETE", f"{CONFIG_MAPS}/a")
    deleted = (await events.next())["object"]
    assert int(deleted["metadata"]["resourceVersion"]) > int(version)
    assert deleted["metadata"]["uid"] == created["metadata"]["uid"]


@pytest.mark.parametrize("version", ["", "0"])
async def test_without_a_version_a_watch_begins_with_what_there_is(api: Any, version: str) -> None:
    await create(api, "a")
    events = await api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={version}")
    assert await events.take(1) == [("ADDED", "a")]
    await create(api, "b")
    assert await events.take(1) == [("ADDED", "b")]


async def test_initial_events_end_with_a_bookmark_of_the_right_kind(api: Any) -> None:
    await create(api, "a")
    events = await api.watch(
        f"{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true"
        "&resourceVersionMatch=NotOlderThan"
    )
    assert await events.take(1) == [("ADDED", "a")]
    bookmark = await events.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "ConfigMap"
    assert bookmark["object"]["apiVersion"] == "v1"
    metadata = bookmark["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert metadata["resourceVersion"] == str(api.store.revision)
    await create(api, "b")
    assert await events.take(1) == [("ADDED", "b")]


async def test_a_watch_may_ask_not_to_be_told_of_what_there_is(api: Any) -> None:
    await create(api, "a")
    events = await api.watch(
        f"{CONFIG_MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    )
    await create(api, "b")
    assert await events.take(1) == [("ADDED", "b")]


async def test_objects_enter_and_leave_a_selection(api: Any) -> None:
    events = await api.watch(f"{CONFIG_MAPS}?watch=1&labelSelector=app%3Dweb")
    await create(api, "a")
    await relabel(api, "a", app="web")
    await relabel(api, "a", other="x")
    left = await relabel(api, "a", app=None)
    await create(api, "b", app="web")
    assert await events.take(2) == [("ADDED", "a"), ("MODIFIED", "a")]
    gone = await events.next()
    assert gone["type"] == "DELETED"
    assert gone["object"]["metadata"]["labels"]["app"] == "web"
    assert gone["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
    assert await events.take(1) == [("ADDED", "b")]


async def test_each_node_hears_of_its_own_pods(api: Any) -> None:
    mine = await api.watch("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1")
    other = await api.watch("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn2")
    pending = await api.watch("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3D")
    for name, node in (("p", "n1"), ("q", "n2")):
        await api.ok("POST", PODS, {"metadata": {"name": name}, "spec": POD_SPEC})
        await api.ok("POST", f"{PODS}/{name}/binding", {"target": {"name": node}})
    await api.ok("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert await mine.take(2) == [("ADDED", "p"), ("DELETED", "p")]
    assert await other.take(1) == [("ADDED", "q")]
    assert await pending.take(4) == [
        ("ADDED", "p"),
        ("DELETED", "p"),
        ("ADDED", "q"),
        ("DELETED", "q"),
    ]


async def test_one_object_can_be_watched_by_name(api: Any) -> None:
    await create(api, "a")
    await create(api, "b")
    for path in (
        f"{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Da",
        "/api/v1/watch/namespaces/default/configmaps/a",
    ):
        events = await api.watch(path)
        assert await events.take(1) == [("ADDED", "a")]
        await relabel(api, "b", t=str(len(path)))
        await relabel(api, "a", t=str(len(path)))
        assert await events.take(1) == [("MODIFIED", "a")]


async def test_a_version_that_is_compacted_is_410_before_the_stream(api: Any) -> None:
    """kubernetes/kubernetes#72187; kubernetes/minikube#2585; kubernetes-client/python#700,
    #819, #2223: 410, and not events that are skipped in silence."""
    version = (await create(api, "a"))["metadata"]["resourceVersion"]
    await create(api, "b")
    await api.store.compact(0)
    path = f"{CONFIG_MAPS}?watch=1&resourceVersion={version}"
    status = await api.fails(410, "GET", path)
    assert status["reason"] == "Expired"


async def test_a_slow_reader_is_cut_off_with_410_and_holds_up_nobody(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "PENDING_LIMIT", 3)
    slow = await api.watch(f"{CONFIG_MAPS}?watch=1")
    quick = await api.watch(f"{CONFIG_MAPS}?watch=1")
    await create(api, "first")
    assert await slow.take(1) == await quick.take(1)
    for number in range(5):
        await create(api, f"c{number}")
        assert await quick.take(1) == [("ADDED", f"c{number}")]
    error = await slow.next()
    assert error["type"] == "ERROR"
    assert error["object"]["code"] == 410
    assert await slow.ended()


async def test_a_watch_ends_after_its_time_with_a_fresh_bookmark(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_BEFORE_END_SECONDS", 0.9)
    events = await api.watch(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true")
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    bookmark = await events.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["resourceVersion"] == str(api.store.revision)
    assert await events.ended()


async def test_bookmarks_come_by_themselves(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubernetes/kubernetes#6489; ManageIQ/kubeclient#273: a watcher of quiet objects keeps a
    fresh version."""
    monkeypatch.setattr(watch, "BOOKMARK_SECONDS", 0.01)
    events = await api.watch(f"{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true")
    for _ in range(3):
        assert (await events.next())["type"] == "BOOKMARK"
    without = await api.watch(f"{CONFIG_MAPS}?watch=1")
    await create(api, "a")
    assert await without.take(1) == [("ADDED", "a")]


async def test_a_table_watch_names_its_columns_once(api: Any) -> None:
    await create(api, "a")
    events = await api.watch(f"{CONFIG_MAPS}?watch=1", accept=TABLE)
    first = (await events.next())["object"]
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert first["rows"][0]["cells"][0] == "a"
    await create(api, "b")
    second = (await events.next())["object"]
    assert second["kind"] == "Table"
    assert second["columnDefinitions"] == []
    assert second["rows"][0]["object"]["metadata"]["name"] == "b"


async def test_the_hub_reads_only_while_someone_listens(api: Any) -> None:
    tasks = len(asyncio.all_tasks())
    events = await api.watch(f"{CONFIG_MAPS}?watch=1")
    await create(api, "a")
    await events.take(1)
    assert len(asyncio.all_tasks()) == tasks + 1
    await events.close()
    assert len(asyncio.all_tasks()) == tasks
    again = await api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=1")
    assert await again.take(1) == [("ADDED", "a")]


async def test_closing_the_store_ends_the_streams(api: Any) -> None:
    events = await api.watch(f"{CONFIG_MAPS}?watch=1")
    await create(api, "a")
    await events.take(1)
    await api.store.close()
    assert await events.ended()


async def test_the_version_of_a_list_can_be_watched_from_though_its_objects_are_old(
    api: Any,
) -> None:
    """kubernetes/kubernetes#72187; kubernetes-client/python#819: who watches from an object's own
    version is told that it is too old; the list's version is good."""
    old = (await create(api, "a"))["metadata"]["resourceVersion"]
    await create(api, "b")
    await api.store.compact(0)
    await api.fails(410, "GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={old}")
    listed = await api.ok("GET", CONFIG_MAPS)
    assert listed["items"][0]["metadata"]["resourceVersion"] == old
    version = listed["metadata"]["resourceVersion"]
    events = await api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion={version}")
    await create(api, "c")
    assert await events.take(1) == [("ADDED", "c")]
