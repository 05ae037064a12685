"""`Attention`: since when we have been watching without a break.

Silence says something only while someone listens. A process that was stopped, or whose machine
slept, wakes with its timers long due and the others' heartbeats still unread; it must not take its
own absence for theirs.
"""

from shepherd.lib.clock import Clock

_TICK_SECONDS = 2.0
_BREAK_SECONDS = 6.0


class Attention:
    """Notices when this process did not run for a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()
        self._since = self._last

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_TICK_SECONDS)
            self.since()

    def since(self) -> float:
        """The end of the last break, on the monotonic clock."""
        now = self._clock.monotonic()
        if now - self._last > _BREAK_SECONDS:
            self._since = now
        self._last = now
        return self._since
