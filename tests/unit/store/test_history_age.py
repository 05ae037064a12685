"""`run` keeps the history within its age."""

import asyncio

from shepherd.lib.tasks import cancel_and_wait
from shepherd.store.base import Put
from shepherd.store.feed import History
from shepherd.store.memory import MemoryStore


class SteppedClock:
    """Stands still until told."""

    def __init__(self) -> None:
        self.time = 0.0
        self._turn = asyncio.Condition()

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        until = self.time + seconds
        async with self._turn:
            await self._turn.wait_for(lambda: self.time >= until)

    async def advance(self, seconds: float) -> None:
        async with self._turn:
            self.time += seconds
            self._turn.notify_all()
        for _ in range(5):
            await asyncio.sleep(0)


async def test_history_older_than_its_age_is_forgotten_and_younger_is_kept() -> None:
    clock = SteppedClock()
    store = MemoryStore(clock=clock, history=History(age_seconds=100))
    running = asyncio.create_task(store.run())
    await clock.advance(0)
    oldest = []
    for _ in range(8):
        await store.commit(Put("n", b""))
        await clock.advance(30)
        oldest.append(store.oldest)
    # At 30 n seconds there are n revisions; the last that is 100 seconds old counts.
    assert oldest == [0, 0, 0, 0, 1, 2, 3, 4]
    await cancel_and_wait(running)
