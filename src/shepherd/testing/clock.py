"""Clocks that a test moves: `MovableClock` goes with real time and can be advanced.

All domain time of a cluster comes from one clock. To advance it is to let everything happen that
would have happened meanwhile, in its order: the clock goes from one sleeper's hour to the next,
and each time waits until the loop is idle. Time-outs of real input and output stay in real time,
so sockets work all along.
"""

import asyncio
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from shepherd.lib.clock import Clock

T = TypeVar("T")

_TICK_SECONDS = 0.001
"""Sleepers that are due within this of each other wake together."""


class _IdleSelector(selectors.DefaultSelector):
    """Asks `idle` before it would wait; if that has made work, it does not wait."""

    def __init__(self, idle: Callable[[], bool]) -> None:
        super().__init__()
        self._idle = idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            if ready := super().select(0):
                return ready
            if self._idle():
                timeout = 0
        return super().select(timeout)


class IdleLoop(asyncio.SelectorEventLoop):
    """An event loop that can say when it has nothing left to do but wait."""

    def __init__(self) -> None:
        super().__init__(_IdleSelector(self._on_idle))
        self._waiters: list[asyncio.Future[None]] = []
        self._jobs = 0
        """Functions that threads are working on."""

    async def idle(self) -> None:
        """Return once nothing is left to do: only timers and sockets could bring more."""
        waiter = self.create_future()
        self._waiters.append(waiter)
        await waiter

    def _on_idle(self) -> bool:
        if not self._waiters or self._jobs:
            return False
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        return True

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_done)
        return future

    def _job_done(self, future: asyncio.Future[Any]) -> None:
        self._jobs -= 1


@dataclass(eq=False, slots=True)
class _Sleeper:
    due: float
    future: asyncio.Future[None]
    timer: asyncio.TimerHandle

    def wake(self) -> None:
        self.timer.cancel()
        if not self.future.done():
            self.future.set_result(None)


class MovableClock:
    """The machine's time, ahead of it by as much as it was advanced. Lives in one `IdleLoop`."""

    def __init__(self, loop: IdleLoop) -> None:
        self._loop = loop
        self._ahead = 0.0
        self._sleepers: dict[_Sleeper, None] = {}  # in the order of their coming

    def now(self) -> float:
        return time.time() + self._ahead

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = self._loop.create_future()
        timer = self._loop.call_later(seconds, _finish, future)
        sleeper = _Sleeper(self.monotonic() + seconds, future, timer)
        self._sleepers[sleeper] = None
        try:
            await future
        finally:
            sleeper.timer.cancel()
            del self._sleepers[sleeper]

    async def advance(self, seconds: float) -> None:
        """Move time forward and let all happen that was due meanwhile, in order."""
        target = self._ahead + seconds
        while True:
            await self._loop.idle()
            due = min((sleeper.due for sleeper in self._sleepers), default=float("inf"))
            step = max(0.0, due - self.monotonic())
            if self._ahead + step > target:
                break
            self._ahead += step
            self._wake()
        self._ahead = max(target, self._ahead)
        for sleeper in self._sleepers:
            sleeper.timer.cancel()
            left = max(0.0, sleeper.due - self.monotonic())
            sleeper.timer = self._loop.call_later(left, _finish, sleeper.future)

    def _wake(self) -> None:
        now = self.monotonic() + _TICK_SECONDS
        for sleeper in self._sleepers:
            if sleeper.due <= now:
                sleeper.wake()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class SkewedClock:
    """A clock that is wrong: another one's time and `skew_seconds`. Durations are right."""

    def __init__(self, clock: Clock) -> None:
        self.skew_seconds = 0.0
        self._clock = clock

    def now(self) -> float:
        return self._clock.now() + self.skew_seconds

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
