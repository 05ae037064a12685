"""Time enters through a constructor, so that a whole cluster can run in virtual time.

Rule: *domain* time (back-off, probe periods, leases, deadlines, TTLs, time stamps) goes through a
`Clock`; time-outs of real I/O use `asyncio.timeout`.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Where a component learns the time and how it waits."""

    def now(self) -> float:
        """Wall-clock time in seconds since the Unix epoch. May jump; never measure with it."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary origin; never goes back. Measure durations with it."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of this clock's time."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
