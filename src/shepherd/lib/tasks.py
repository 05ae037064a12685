"""Structured concurrency on top of `asyncio.TaskGroup`."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from shepherd.lib.clock import Clock

T = TypeVar("T")


async def cancel_and_wait(task: asyncio.Future[Any]) -> None:
    """Cancel `task` and wait until it has ended, whatever it ends with."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def all_of(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run `parts` side by side, each to its end; their results, or the first one's error.

    Unlike in a task group, one that fails does not cancel the others, and its error is raised bare.
    """
    results = await asyncio.gather(*parts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def wait_at_most(event: asyncio.Event, seconds: float | None, clock: Clock) -> None:
    """Return once `event` is set, or `seconds` of the clock's time have passed (None: no limit)."""
    if seconds is None:
        await event.wait()
        return
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((alarm, waiter), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait(alarm)
        await cancel_and_wait(waiter)


@asynccontextmanager
async def background(*parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `parts` while the context lasts, then cancel them and wait for their end.

    A part that returns is done; a part that raises ends the context, and its error is raised (in
    an `ExceptionGroup`): a bug ends the process instead of leaving half of it running.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
