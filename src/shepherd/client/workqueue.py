"""`WorkQueue`: keys that wait for a worker, each at most once, one worker a key at a time.

Source of the shape: client-go util/workqueue.
"""

import asyncio
import heapq
from collections import deque
from random import Random

from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock
from shepherd.lib.tasks import wait_at_most

_EARLY_SECONDS = 1e-6
"""Timers may ring this early (asyncio lets them, by its clock's resolution)."""


class WorkQueue:
    """A deduplicating queue with per-key back-off.

    A key added while a worker holds it is handed out again after `done`. `add_after` keeps the
    earliest due time. Nothing is unbounded: the queue holds each key once.
    """

    def __init__(self, *, clock: Clock, backoff: Backoff, random: Random) -> None:
        self._clock = clock
        self._backoff = backoff
        self._random = random
        self._ready: deque[str] = deque()
        self._waiting: set[str] = set()
        """In `_ready`, or to be put there when the worker that holds it is done."""
        self._held: set[str] = set()
        self._due: dict[str, float] = {}
        self._timers: list[tuple[float, str]] = []
        """A heap; an entry counts only while `_due` says the same."""
        self._failures: dict[str, int] = {}
        self._idle: deque[asyncio.Event] = deque()
        """The workers that wait in `get`."""

    def add(self, key: str) -> None:
        self._due.pop(key, None)
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._held:
            self._ready.append(key)
            self._wake()

    def add_after(self, key: str, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        if seconds <= 0:
            self.add(key)
        elif key not in self._waiting and due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._timers, (due, key))
            if len(self._timers) > 2 * len(self._due) + 64:
                self._timers = sorted((due, key) for key, due in self._due.items())
            if self._timers[0] == (due, key):
                self._wake()

    def retry(self, key: str) -> float:
        """Add after the key's back-off, which grows; the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(failures, self._random)
        self.add_after(key, delay)
        return delay

    def failures(self, key: str) -> int:
        """How many attempts in a row have failed."""
        return self._failures.get(key, 0)

    def forget(self, key: str) -> None:
        """Its last attempt succeeded: the back-off starts anew."""
        self._failures.pop(key, None)

    async def get(self) -> str:
        """The next key; the caller must call `done` for it."""
        while True:
            next_due = self._promote()
            if self._ready:
                break
            await self._pause(next_due)
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._held.add(key)
        if self._ready or self._timers:
            self._wake()  # Someone else must see to the rest and to the next due time.
        return key

    def done(self, key: str) -> None:
        self._held.discard(key)
        if key in self._waiting:
            self._ready.append(key)
            self._wake()

    def __len__(self) -> int:
        """How many keys wait, now or for their time."""
        return len(self._waiting) + len(self._due)

    def _promote(self) -> float | None:
        """Make ready what is due; when the next is due."""
        now = self._clock.monotonic() + _EARLY_SECONDS
        while self._timers:
            due, key = self._timers[0]
            stale = self._due.get(key) != due
            if not stale and due > now:
                return due
            heapq.heappop(self._timers)
            if not stale:
                self.add(key)
        return None

    async def _pause(self, until: float | None) -> None:
        """Wait to be woken, and no longer than `until`."""
        seconds = None if until is None else until - self._clock.monotonic()
        woken = asyncio.Event()
        self._idle.append(woken)
        try:
            await wait_at_most(woken, seconds, self._clock)
        except asyncio.CancelledError:
            if woken.is_set():
                self._wake()
            raise
        finally:
            if not woken.is_set():
                self._idle.remove(woken)

    def _wake(self) -> None:
        """Let one waiting worker look."""
        if self._idle:
            self._idle.popleft().set()
