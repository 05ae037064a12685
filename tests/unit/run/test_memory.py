"""What is freed goes back to the system."""

import asyncio
import gc

import pytest

from shepherd.lib.tasks import background
from shepherd.run import memory


async def test_what_is_let_go_while_nothing_else_happens_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """History that became too old stayed resident for as long as the program was idle."""
    trimmed = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(memory, "TRIM_SECONDS", 0.001)
    monkeypatch.setattr(gc, "get_stats", lambda: [{"collections": 0}])
    monkeypatch.setattr(memory, "_malloc_trim", lambda: loop.call_soon_threadsafe(trimmed.set))
    held = [b"%d" % number for number in range(200_000)]
    async with background(memory.keep_trim()):
        await asyncio.sleep(0)  # it has seen what is held
        trimmed.clear()
        held.clear()
        await trimmed.wait()
