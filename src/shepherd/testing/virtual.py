"""Virtual time: an asyncio loop whose clock jumps to the next timer instead of waiting for it.

Hours of back-off, leases and probes pass in milliseconds, and the same program with the same seeds
takes the same steps in the same order. There is no real input or output inside: a socket would
need real time to pass. Functions given to threads run at once, in place, for the same reason.

    def test_an_hour() -> None:
        run_virtual(asyncio.sleep(3600))
"""

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH = 1_767_225_600.0
"""When virtual time begins: 2026-01-01T00:00:00Z."""


class StalledError(Exception):
    """Every task waits and no timer is set: nothing could ever happen again."""


class _JumpingSelector(selectors.SelectSelector):
    """Waits for nothing: tells the loop to move its clock on instead."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StalledError("every task waits for something that no task and no timer will do")
        if timeout > 0:
            self._advance(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, which begins at zero."""

    def __init__(self) -> None:
        self._seconds = 0.0
        super().__init__(_JumpingSelector(self._advance))
        # asyncio takes a timer for due within its clock's resolution; as floats, years of seconds
        # are coarser than the nanosecond of the real clock, and no timer would ever be due.
        self._clock_resolution = 1e-6

    def _advance(self, seconds: float) -> None:
        self._seconds += seconds

    def time(self) -> float:
        return self._seconds

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run `func` here and now: a thread would run in real time, in an order of its own."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class VirtualClock:
    """The `Clock` of whatever loop is running; with a `VirtualLoop`, virtual time."""

    def __init__(self, epoch: float = EPOCH) -> None:
        self._epoch = epoch

    def now(self) -> float:
        return self._epoch + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_virtual(main: Coroutine[Any, Any, T], *, within_seconds: float | None = 24 * 3600.0) -> T:
    """Run `main` in a virtual loop of its own.

    Raises TimeoutError after `within_seconds` of virtual time. None sets no limit: then
    StalledError tells when nothing could happen any more.
    """

    async def bounded() -> T:
        async with asyncio.timeout(within_seconds):
            return await main

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(bounded())


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]],
    *,
    within_seconds: float = 60.0,
    every_seconds: float = 0.05,
    what: str = "the condition",
) -> None:
    """Return once `condition` holds; raises AssertionError if it never did in the given time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_seconds
    while True:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        if loop.time() >= deadline:
            raise AssertionError(f"{what} did not hold within {within_seconds:g} s")
        await asyncio.sleep(every_seconds)
