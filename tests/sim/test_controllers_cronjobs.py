"""CronJobs over the real API, in virtual time; their jobs end when a test says so."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from random import Random
from typing import Any

import pytest

from shepherd.api.kinds.jobs import CRON_JOB, JOB
from shepherd.api.meta import format_time, parse_time
from shepherd.api.resource import Object
from shepherd.controllers.manager import ControllerManager
from shepherd.lib.tasks import cancel_and_wait
from shepherd.testing.control_plane import ControlPlane
from shepherd.testing.virtual import EPOCH, eventually, run_virtual

Story = Callable[[ControlPlane], Awaitable[None]]
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MINUTE = 60.0


def play(story: Story, *, begins: str = "", controllers: bool = True) -> None:
    """Run a story that begins at midnight of 2026-01-01 UTC, or at the time given."""
    epoch = datetime.fromisoformat(begins).timestamp() if begins else EPOCH

    async def main() -> None:
        async with ControlPlane.open(epoch=epoch, controllers=controllers) as plane:
            await story(plane)

    run_virtual(main())


def cron_job(schedule: str = "* * * * *", **spec: Any) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "demo:1"}]}
    template = {
        "metadata": {"labels": {"app": "nightly"}},
        # Whoever it names acts on the job: here that is the test.
        "spec": {"managedBy": "example.com/test", "template": {"spec": pod}},
    }
    return {
        "kind": "CronJob",
        "apiVersion": "batch/v1",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": template} | spec,
    }


async def end(plane: ControlPlane, name: str, how: str = "Complete") -> None:
    """Let a job end."""
    now = format_time(plane.clock.now())
    first = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[how]
    stamp = {"status": "True", "lastTransitionTime": now, "reason": "Test", "message": ""}
    status: Object = {"conditions": [{"type": kind} | stamp for kind in (first, how)]}
    status |= {"startTime": now} | ({"completionTime": now} if how == "Complete" else {})
    await plane.client.patch(JOB, name, "default", {"status": status}, sub="status")


async def scheduled(plane: ControlPlane) -> list[str]:
    """For which times there are jobs."""
    jobs = await plane.items(JOB)
    return sorted(job["metadata"]["annotations"].get(SCHEDULED, "by hand") for job in jobs)


async def names(plane: ControlPlane) -> list[str]:
    return sorted(job["metadata"]["name"] for job in await plane.items(JOB))


async def status(plane: ControlPlane) -> Any:
    found = await plane.find(CRON_JOB, "tick")
    assert found
    return found["status"]


def test_it_starts_a_job_each_time_and_says_so() -> None:
    async def story(plane: ControlPlane) -> None:
        await plane.client.create(CRON_JOB, cron_job("*/10 * * * *"))
        await asyncio.sleep(21 * MINUTE)
        times = ["2026-01-01T00:10:00Z", "2026-01-01T00:20:00Z"]
        assert await scheduled(plane) == times
        assert await names(plane) == [f"tick-{int(parse_time(time) / 60)}" for time in times]
        found = await status(plane)
        assert found["lastScheduleTime"] == times[1]
        assert [item["name"] for item in found["active"]] == await names(plane)
        (first, second) = await plane.items(JOB)
        assert first["metadata"]["labels"] == {"app": "nightly"}
        assert first["metadata"]["ownerReferences"][0]["controller"]
        assert len(await plane.events("SuccessfulCreate")) == 2
        await end(plane, second["metadata"]["name"])
        await asyncio.sleep(1)
        found = await status(plane)
        assert [item["uid"] for item in found["active"]] == [first["metadata"]["uid"]]
        assert found["lastSuccessfulTime"] == format_time(plane.clock.now() - 1)
        (seen,) = await plane.events("SawCompletedJob")
        assert seen == f"Saw completed job: {second['metadata']['name']}, condition: Complete"

    play(story)


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
def test_what_becomes_of_a_job_that_runs_when_the_next_is_due(policy: str) -> None:
    async def story(plane: ControlPlane) -> None:
        await plane.client.create(CRON_JOB, cron_job(concurrencyPolicy=policy))
        await asyncio.sleep(2.5 * MINUTE)
        first, second = (f"tick-{int(EPOCH / 60) + minute}" for minute in (1, 2))
        expected = {"Allow": [first, second], "Forbid": [first], "Replace": [second]}
        assert await names(plane) == expected[policy]
        assert [item["name"] for item in (await status(plane))["active"]] == expected[policy]
        if policy == "Forbid":
            assert await plane.events("JobAlreadyActive")
            await end(plane, first)
            await eventually(lambda: started(plane, second), within_seconds=1)

    play(story)


async def started(plane: ControlPlane, name: str) -> bool:
    return name in await names(plane)


def test_it_keeps_so_many_finished_jobs() -> None:
    async def story(plane: ControlPlane) -> None:
        await plane.client.create(CRON_JOB, cron_job())
        for minute in range(8):
            await asyncio.sleep(MINUTE)
            name = f"tick-{int(EPOCH / 60) + minute + 1}"
            await eventually(lambda name=name: started(plane, name), within_seconds=1)  # type: ignore[misc]
            await end(plane, name, "Failed" if minute % 2 else "Complete")
        await asyncio.sleep(2)
        ends = [job["status"]["conditions"][-1]["type"] for job in await plane.items(JOB)]
        assert sorted(ends) == ["Complete"] * 3 + ["Failed"]

    play(story)


def test_a_suspended_one_starts_nothing_and_catches_up_by_one() -> None:
    async def story(plane: ControlPlane) -> None:
        await plane.client.create(CRON_JOB, cron_job(suspend=True))
        await asyncio.sleep(30 * MINUTE)
        assert await names(plane) == []
        patch = {"spec": {"suspend": False}}
        await plane.client.patch(CRON_JOB, "tick", "default", patch)
        await asyncio.sleep(1)
        assert await scheduled(plane) == ["2026-01-01T00:30:00Z"]

    play(story)


def test_a_new_schedule_counts_from_when_it_was_given() -> None:
    async def story(plane: ControlPlane) -> None:
        await plane.client.create(CRON_JOB, cron_job("0 12 * * *"))
        await asyncio.sleep(20 * MINUTE)
        patch = {"spec": {"schedule": "*/15 * * * *"}}
        await plane.client.patch(CRON_JOB, "tick", "default", patch)
        await asyncio.sleep(5 * MINUTE)
        assert await names(plane) == []
        await asyncio.sleep(6 * MINUTE)
        assert await scheduled(plane) == ["2026-01-01T00:30:00Z"]

    play(story)


def test_78795_times_are_those_of_its_zone() -> None:
    """kubernetes/kubernetes#78795, #47202; kubernetes/website#19003."""

    async def story(plane: ControlPlane) -> None:
        pacific = cron_job("0 12 * * 5", timeZone="America/Los_Angeles")
        await plane.client.create(CRON_JOB, pacific)
        await asyncio.sleep(10 * MINUTE)
        assert await scheduled(plane) == ["2026-01-02T12:00:00-08:00"]
        assert (await status(plane))["lastScheduleTime"] == "2026-01-02T20:00:00Z"

    play(story, begins="2026-01-02T19:55:00Z")


@pytest.mark.parametrize(
    ("begins", "time"),
    [
        ("2026-10-25T01:55:00+02:00", "2026-10-25T02:00:00+02:00"),
        ("2026-03-29T01:55:00+01:00", "2026-03-29T03:00:00+02:00"),
    ],
    ids=["back", "forward"],
)
def test_121594_once_in_the_night_in_which_clocks_are_set(begins: str, time: str) -> None:
    """kubernetes/kubernetes#121594: once for the hour that comes twice, and once, at the next valid
    time, for the one that does not come."""

    async def story(plane: ControlPlane) -> None:
        await plane.client.create(CRON_JOB, cron_job("0 2 * * *", timeZone="Europe/Berlin"))
        await asyncio.sleep(75 * MINUTE)
        assert await scheduled(plane) == [time]

    play(story, begins=begins)


def test_controllers_that_were_away_start_the_last_job_only_and_within_the_deadline() -> None:
    async def story(plane: ControlPlane) -> None:
        await plane.client.create(CRON_JOB, cron_job(startingDeadlineSeconds=300))
        late = cron_job("0 * * * *", startingDeadlineSeconds=300)
        late["metadata"]["name"] = "late"
        await plane.client.create(CRON_JOB, late)
        many = cron_job()
        many["metadata"]["name"] = "many"
        await plane.client.create(CRON_JOB, many)
        await asyncio.sleep(150.5 * MINUTE)
        manager = ControllerManager(plane.client, clock=plane.clock, random=Random(1))
        task = asyncio.ensure_future(manager.run())
        await asyncio.sleep(1)
        minute = int(EPOCH / 60) + 150
        assert await names(plane) == [f"many-{minute}", f"tick-{minute}"]
        (text,) = await plane.events("TooManyMissedTimes")
        assert text.startswith("too many missed start times. Set or decrease")
        (text,) = await plane.events("MissSchedule")
        assert text == "Missed scheduled time to start a job: Thu, 01 Jan 2026 02:00:00 +0000"
        await cancel_and_wait(task)

    play(story, controllers=False)


@pytest.mark.parametrize("seed", range(3))
def test_controllers_that_die_at_any_instant_make_one_job_for_each_time(seed: int) -> None:
    async def story(plane: ControlPlane) -> None:
        random = Random(seed)
        await plane.client.create(CRON_JOB, cron_job())
        while plane.clock.now() < EPOCH + 4.5 * MINUTE:
            manager = ControllerManager(
                plane.client, clock=plane.clock, random=random, resources=()
            )
            task = asyncio.ensure_future(manager.run())
            await asyncio.sleep(random.random() * 30)
            await cancel_and_wait(task)
        assert await scheduled(plane) == [f"2026-01-01T00:{m:02}:00Z" for m in range(1, 5)]

    play(story, controllers=False)
