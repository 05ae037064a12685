"""A full disk stops writes, not the server."""

import asyncio

from shepherd.lib.tasks import cancel_and_wait
from shepherd.server.upkeep import upkeep
from shepherd.store.base import Put, StoreFullError, Write
from shepherd.store.memory import MemoryStore
from shepherd.testing.virtual import VirtualClock, run_virtual

HOUR = 3600.0
EVENT = "events/default/old"


class FullStore(MemoryStore):
    """A store whose disk can be full."""

    full = False

    async def commit(self, *writes: Write) -> int:
        if self.full:
            raise StoreFullError("no space left")
        return await super().commit(*writes)

    async def compact(self, keep_revisions: int) -> int:
        if self.full:
            raise StoreFullError("no space left")
        return await super().compact(keep_revisions)


def test_upkeep_outlives_a_full_disk_and_goes_on_afterwards() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        store = FullStore(clock=clock)
        await store.commit(Put(EVENT, b'{"metadata":{}}'))
        running = asyncio.create_task(upkeep(store, clock))
        store.full = True
        await clock.sleep(1.5 * HOUR)
        assert not running.done()
        assert await store.get(EVENT)
        store.full = False
        await clock.sleep(1.5 * HOUR)
        assert await store.get(EVENT) is None
        assert store.oldest > 0
        await cancel_and_wait(running)

    run_virtual(scenario())
