"""`WorkQueue`: keys that wait for a worker, each at most once, one worker a key at a time.

Source of the shape: client-go util/workqueue.
"""

from random import Random

from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock


class WorkQueue:
    """A deduplicating queue with per-key back-off.

    A key added while a worker holds it is handed out again after `done`. `add_after` keeps the
    earliest due time. Nothing is unbounded: the queue holds each key once.
    """

    def __init__(self, *, clock: Clock, backoff: Backoff, random: Random) -> None:
        raise NotImplementedError

    def add(self, key: str) -> None:
        raise NotImplementedError

    def add_after(self, key: str, seconds: float) -> None:
        raise NotImplementedError

    def retry(self, key: str) -> float:
        """Add after the key's back-off, which grows; the delay in seconds."""
        raise NotImplementedError

    def forget(self, key: str) -> None:
        """Its last attempt succeeded: the back-off starts anew."""
        raise NotImplementedError

    async def get(self) -> str:
        """The next key; the caller must call `done` for it."""
        raise NotImplementedError

    def done(self, key: str) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError
