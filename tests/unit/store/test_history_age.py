"""`run` keeps the history within its age."""

import asyncio

from shepherd.lib.tasks import cancel_and_wait
from shepherd.store.base import Put
from shepherd.store.feed import History
from shepherd.store.memory import MemoryStore
from shepherd.testing.virtual import VirtualClock, run_virtual


def test_history_older_than_its_age_is_forgotten_and_younger_is_kept() -> None:
    async def scenario() -> None:
        store = MemoryStore(clock=VirtualClock(), history=History(age_seconds=100))
        running = asyncio.create_task(store.run())
        for second in range(1, 601):
            await store.commit(Put("n", b""))
            await asyncio.sleep(1)
            assert store.revision - store.oldest >= min(second, 100)
            assert store.revision - store.oldest <= 100 + 2 * 30
        await cancel_and_wait(running)

    run_virtual(scenario())
