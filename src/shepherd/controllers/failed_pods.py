"""`FailedPods`: how soon a pod that has failed may be replaced.

A pod that its node refuses fails at once, and so does the next: without a pause, controller and
node would make thousands. Source: kubernetes pkg/controller/daemon (failedPodsBackoff).
"""

from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock

_BACKOFF = Backoff(initial=1.0, cap=900.0)
_FORGET_SECONDS = 2 * _BACKOFF.cap
"""A place without failures for this long begins anew."""


class FailedPods:
    """Of each place where pods have failed, how often and when. The first is replaced at once.

    Memory is bounded by the places where pods failed within the last half hour.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._replaced: dict[str, tuple[int, float]] = {}
        """By place: how many were replaced, and when the last was, on the monotonic clock; in the
        order of that."""

    def wait(self, place: str) -> float:
        """The seconds until a failed pod of that place may be replaced."""
        count, last = self._replaced.get(place, (0, 0.0))
        return max(0.0, last + _BACKOFF.delay(count) - self._clock.monotonic())

    def replaced(self, place: str) -> None:
        """Note that one was."""
        now = self._clock.monotonic()
        while self._replaced:
            oldest = next(iter(self._replaced))
            if now - self._replaced[oldest][1] <= _FORGET_SECONDS:
                break
            del self._replaced[oldest]
        count, _ = self._replaced.pop(place, (0, 0.0))
        self._replaced[place] = count + 1, now
