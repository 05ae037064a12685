"""The work queue: once, one at a time, in time."""

import asyncio
from random import Random

from shepherd.client.workqueue import WorkQueue
from shepherd.lib.backoff import Backoff


class ManualClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 0.0
        self.sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.time + seconds, wake))
        await wake

    async def advance(self, seconds: float) -> None:
        self.time += seconds
        for due, wake in self.sleepers:
            if due <= self.time and not wake.done():
                wake.set_result(None)
        await settle()


async def settle() -> None:
    """Let every task run as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def queue_on(clock: ManualClock) -> WorkQueue:
    return WorkQueue(clock=clock, backoff=Backoff(1.0, 60.0), random=Random(1))


class Worker:
    """Takes keys until cancelled and notes them."""

    def __init__(self, queue: WorkQueue) -> None:
        self.queue = queue
        self.taken: list[str] = []
        self.task = asyncio.ensure_future(self.run())

    async def run(self) -> None:
        while True:
            key = await self.queue.get()
            self.taken.append(key)
            self.queue.done(key)


async def test_a_key_waits_once_and_in_order() -> None:
    queue = queue_on(ManualClock())
    for key in "abab":
        queue.add(key)
    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == ["a", "b"]


async def test_a_key_added_while_held_comes_again_after_done_and_not_before() -> None:
    queue = queue_on(ManualClock())
    worker = Worker(queue)
    queue.add("a")
    held = await queue.get()
    queue.add("a")
    await settle()
    assert worker.taken == []
    queue.done(held)
    await settle()
    assert worker.taken == ["a"]
    worker.task.cancel()


async def test_the_earliest_due_time_holds_and_an_add_overrides_it() -> None:
    clock = ManualClock()
    queue = queue_on(clock)
    worker = Worker(queue)
    queue.add_after("a", 10)
    await settle()
    queue.add_after("a", 5)
    queue.add_after("a", 8)
    queue.add_after("b", 7)
    queue.add("b")
    await settle()
    assert worker.taken == ["b"]
    await clock.advance(5)
    assert worker.taken == ["b", "a"]
    await clock.advance(20)
    assert worker.taken == ["b", "a"]
    worker.task.cancel()


async def test_a_due_key_finds_a_worker_though_the_one_that_knew_is_busy() -> None:
    clock = ManualClock()
    queue = queue_on(clock)
    first = asyncio.ensure_future(queue.get())
    other = Worker(queue)
    await settle()
    queue.add_after("later", 5)
    queue.add("now")
    await settle()
    taken = {*other.taken, *([first.result()] if first.done() else [])}
    assert taken == {"now"}
    await clock.advance(5)
    assert "later" in [*other.taken, *([first.result()] if first.done() else [])]
    other.task.cancel()


async def test_back_off_grows_until_forgotten() -> None:
    queue = queue_on(ManualClock())
    assert [queue.retry("a") for _ in range(4)] == [1, 2, 4, 8]
    assert queue.failures("a") == 4
    queue.forget("a")
    assert queue.retry("a") == 1


async def test_a_cancelled_worker_passes_its_wake_up_on() -> None:
    queue = queue_on(ManualClock())
    first = asyncio.ensure_future(queue.get())
    await settle()
    second = Worker(queue)
    await settle()
    queue.add("a")
    first.cancel()
    await settle()
    assert second.taken == ["a"]
    second.task.cancel()
