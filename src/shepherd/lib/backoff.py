"""Exponential back-off with a cap, and jitter so that many waiters do not return as one herd."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delays, in seconds: `initial * factor**n`, at most `cap`, spread by `jitter` (0..1)."""

    initial: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, random: Random | None = None) -> float:
        """The delay after `failures` failures in a row (1 is the first; 0 gives no delay)."""
        if failures <= 0:
            return 0.0
        # The exponent is bounded so that years of failures do not overflow a float.
        base = min(self.cap, self.initial * self.factor ** min(failures - 1, 64))
        if not self.jitter or random is None:
            return base
        return base * (1.0 - self.jitter * random.random())
