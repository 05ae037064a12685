"""Who is next: priority, order, back-off, and waking what an event may help."""

from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

from shepherd.scheduler.cycle import Unplaced
from shepherd.scheduler.queue import SchedulingQueue
from shepherd.testing.scheduling import Scene, pod
from shepherd.testing.virtual import VirtualClock, run_virtual

NOWHERE = Unplaced(0, Counter(), ())


class Bench:
    """A queue in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.queue = SchedulingQueue(self.clock)
        self.scene = Scene()

    def put(self, name: str, **spec: Any) -> None:
        self.queue.put(self.scene.info(pod(name, **spec)))

    async def pop(self) -> tuple[str, float]:
        """The next pod's name, and when it came."""
        entry = await self.queue.pop()
        return entry.info.pod.metadata.name, self.clock.monotonic()


def in_virtual_time(scenario: Callable[[Bench], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await scenario(Bench())

    def test() -> None:
        run_virtual(main())

    return test


@in_virtual_time
async def test_priority_first_then_order(bench: Bench) -> None:
    for name, priority in (("low", 0), ("high", 100), ("low2", 0), ("higher", 1000)):
        bench.put(name, priority=priority)
    assert [(await bench.pop())[0] for _ in range(4)] == ["higher", "high", "low", "low2"]


@in_virtual_time
async def test_retries_back_off_from_one_to_ten_seconds(bench: Bench) -> None:
    bench.put("p")
    came = []
    for _ in range(7):
        entry = await bench.queue.pop()
        came.append(bench.clock.monotonic())
        bench.queue.retry(entry)
    gaps = [round(later - sooner, 3) for sooner, later in pairwise(came)]
    assert gaps == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@in_virtual_time
async def test_a_parked_pod_waits_for_what_helps_and_for_its_back_off(bench: Bench) -> None:
    bench.put("p")
    bench.queue.park(await bench.queue.pop(), NOWHERE)
    bench.queue.wake(lambda unplaced: False)
    bench.queue.wake(lambda unplaced: unplaced is NOWHERE)
    assert await bench.pop() == ("p", 1.0)


@in_virtual_time
async def test_a_parked_pod_is_tried_after_five_minutes_at_the_latest(bench: Bench) -> None:
    bench.put("p")
    bench.queue.park(await bench.queue.pop(), NOWHERE)
    assert await bench.pop() == ("p", 300.0)


@in_virtual_time
async def test_a_pod_that_asks_for_something_else_is_tried_at_once(bench: Bench) -> None:
    bench.put("p", cpu="64")
    bench.queue.park(await bench.queue.pop(), NOWHERE)
    bench.put("p", cpu="64")
    bench.put("p", cpu="1")
    assert await bench.pop() == ("p", 0.0)


@in_virtual_time
async def test_a_removed_pod_does_not_come_back(bench: Bench) -> None:
    bench.put("gone")
    entry = await bench.queue.pop()
    bench.queue.remove("default/gone")
    bench.queue.retry(entry)
    bench.queue.park(entry, NOWHERE)
    bench.put("parked")
    bench.queue.park(await bench.queue.pop(), NOWHERE)
    bench.queue.remove("default/parked")
    bench.queue.wake(lambda unplaced: True)
    bench.put("next")
    assert await bench.pop() == ("next", 0.0)
    assert len(bench.queue) == 1
