"""Events: one set of objects, served as core/v1 and as events.k8s.io/v1; an hour to live."""

import asyncio
from random import Random
from typing import Any

from shepherd.lib.tasks import cancel_and_wait
from shepherd.server.upkeep import EVENT_TTL_SECONDS, EventAges, upkeep
from shepherd.store.base import Item

CORE = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
MERGE = {"content_type": "application/merge-patch+json"}
INVOLVED = {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"}


async def test_both_groups_serve_the_same_events_in_their_own_words(api: Any) -> None:
    body = {
        "metadata": {"name": "a"},
        "involvedObject": INVOLVED,
        "reason": "Started",
        "message": "container started",
        "type": "Normal",
        "count": 2,
        "source": {"component": "agent"},
    }
    await api.ok("POST", CORE, body)
    served = await api.ok("GET", f"{NEW}/a")
    assert served["apiVersion"] == "events.k8s.io/v1"
    assert served["regarding"] == INVOLVED
    assert served["note"] == "container started"
    assert served["deprecatedCount"] == 2
    assert served["deprecatedSource"] == {"component": "agent"}
    assert "involvedObject" not in served
    listed = await api.ok("GET", NEW)
    assert listed["apiVersion"] == "events.k8s.io/v1"
    assert listed["items"] == [served]
    await api.ok("PATCH", f"{NEW}/a", {"note": "again"}, **MERGE)
    assert (await api.ok("GET", f"{CORE}/a"))["message"] == "again"


async def test_an_event_of_the_new_group_is_stored_in_the_old_form(api: Any) -> None:
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "b"},
        "regarding": INVOLVED,
        "note": "hello",
        "reason": "Tested",
        "action": "Test",
        "type": "Normal",
        "reportingController": "x.io/test",
        "reportingInstance": "test-1",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    created = await api.ok("POST", NEW, body)
    assert created["regarding"] == INVOLVED
    stored = await api.ok("GET", f"{CORE}/b")
    assert stored["involvedObject"] == INVOLVED
    assert stored["message"] == "hello"
    assert stored["reportingComponent"] == "x.io/test"


async def test_events_are_selected_by_what_they_are_about(api: Any) -> None:
    for name, about in (("a", "p"), ("b", "q")):
        body = {"metadata": {"name": name}, "involvedObject": INVOLVED | {"name": about}}
        await api.ok("POST", CORE, body)
    for path, selector in (
        (CORE, "involvedObject.name%3Dp,involvedObject.uid%3Du,involvedObject.kind%3DPod"),
        (NEW, "regarding.name%3Dp,regarding.namespace%3Ddefault"),
    ):
        listed = await api.ok("GET", f"{path}?fieldSelector={selector}&limit=500")
        assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
    events = await api.watch(f"{NEW}?watch=1&fieldSelector=regarding.name%3Dq")
    event = await events.next()
    assert event["object"]["apiVersion"] == "events.k8s.io/v1"


class _Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0
        self.moved = asyncio.Condition()

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        until = self.time + seconds
        async with self.moved:
            await self.moved.wait_for(lambda: self.time >= until)

    async def move(self, seconds: float) -> None:
        async with self.moved:
            self.time += seconds
            self.moved.notify_all()


async def test_events_go_an_hour_after_their_last_change(api: Any) -> None:
    clock = _Clock()
    for name in ("old", "kept"):
        await api.ok("POST", CORE, {"metadata": {"name": name}, "involvedObject": INVOLVED})
    events = await api.watch(f"{CORE}?watch=1")
    await events.take(2)
    task = asyncio.create_task(upkeep(api.store, clock))
    await asyncio.sleep(0)
    await clock.move(EVENT_TTL_SECONDS - 1)
    await asyncio.sleep(0)
    await api.ok("PATCH", f"{CORE}/kept", {"count": 2}, **MERGE)
    assert await events.take(1) == [("MODIFIED", "kept")]
    await asyncio.sleep(0)
    await clock.move(120)
    assert await events.take(1) == [("DELETED", "old")]
    await cancel_and_wait(task)
    assert (await api.ok("GET", f"{CORE}/kept"))["count"] == 2


def test_events_of_an_earlier_run_keep_their_age() -> None:
    ages = EventAges()
    value = b'{"metadata":{"name":"a"},"lastTimestamp":"2026-01-01T00:00:00Z"}'
    young = b'{"metadata":{"name":"b"}}'
    now = 1_800_000_000.0
    ages.load([Item("events/d/b", young, 2), Item("events/d/a", value, 1)], now)
    assert ages.expired(now, 10) == [("events/d/a", 1)]
    assert ages.expired(now, 10) == []
    assert ages.expired(now + EVENT_TTL_SECONDS, 10) == [("events/d/b", 2)]


def test_ages_stay_in_order_whatever_changes() -> None:
    random, ages, now = Random(1), EventAges(), 0.0
    for _ in range(500):
        now += random.random() * 100
        ages.changed(f"events/d/{random.randrange(30)}", b"{}", 1, now)
    found = ages.expired(now + EVENT_TTL_SECONDS, 100)
    assert len(found) == 30
