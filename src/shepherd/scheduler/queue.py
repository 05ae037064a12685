"""`SchedulingQueue`: the pods that wait for a node, and what each of them waits for.

A pod is *active* (its turn comes by priority, then in order), *backing off* (it failed lately) or
*parked* (no node can take it: it waits for an event that may help). Nothing is polled; only as a
safety net a parked pod is tried again after five minutes, as upstream does.

Source of the shape: kubernetes pkg/scheduler/backend/queue (PriorityQueue).
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock
from shepherd.lib.tasks import wait_at_most
from shepherd.scheduler.cycle import Unplaced
from shepherd.scheduler.shape import PodInfo, Shape

BACKOFF = Backoff(initial=1.0, cap=10.0)
"""Between two attempts for one pod (upstream podInitialBackoffSeconds, podMaxBackoffSeconds)."""
PARKED_SECONDS = 300.0
"""After this a parked pod is tried even if nothing has happened."""


@dataclass(slots=True, eq=False)
class Entry:
    """A waiting pod. Its attempts count until it is bound or gone."""

    info: PodInfo
    attempts: int = 0
    due: float = 0.0
    """Monotonic time at which it becomes active, if it is not; 0 when it is."""
    not_before: float = 0.0
    """When its back-off ends."""


@dataclass(slots=True)
class _Parked:
    """Pods of one shape: the same things help them all."""

    unplaced: Unplaced
    entries: dict[str, Entry] = field(default_factory=dict)


class SchedulingQueue:
    """Holds each pod once, from `put` until `remove`, also while it is being decided and bound."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, Entry] = {}
        self._active: list[tuple[int, int, Entry]] = []
        """A heap of (-priority, order of arrival); what is not in `_ready` counts no more."""
        self._ready: set[Entry] = set()
        self._timers: list[tuple[float, int, Entry]] = []
        """A heap; an item counts only while the entry's `due` says the same."""
        self._parked: dict[Shape, _Parked] = {}
        self._order = count()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, info: PodInfo) -> None:
        """A pending pod, new or changed. A change of what it asks for gives it a new try."""
        entry = self._entries.get(info.key)
        if entry is None:
            entry = self._entries[info.key] = Entry(info)
            self._activate(entry)
            return
        changed = entry.info.shape is not info.shape or entry.info.labels != info.labels
        if changed and entry.due:
            self._unpark(entry)
            self._activate(entry)
        entry.info = info

    def remove(self, key: str) -> None:
        """The pod is bound or gone."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._ready.discard(entry)
            self._unpark(entry)
            entry.due = 0.0

    async def pop(self) -> Entry:
        """The next active pod; the caller ends with `remove`, `park` or `retry`."""
        while True:
            self._changed.clear()
            until = self._promote()
            while self._active:
                entry = heapq.heappop(self._active)[2]
                if entry in self._ready:
                    self._ready.discard(entry)
                    entry.attempts += 1
                    delay = BACKOFF.delay(entry.attempts)
                    entry.not_before = self._clock.monotonic() + delay
                    return entry
            await wait_at_most(self._changed, until, self._clock)

    def park(self, entry: Entry, unplaced: Unplaced) -> None:
        """No node can take it: it waits to be woken."""
        if self._entries.get(entry.info.key) is entry:
            parked = self._parked.setdefault(entry.info.shape, _Parked(unplaced))
            parked.unplaced = unplaced
            parked.entries[entry.info.key] = entry
            self._set_timer(entry, self._clock.monotonic() + PARKED_SECONDS)

    def retry(self, entry: Entry) -> None:
        """Something else went wrong: it comes again after its back-off."""
        if self._entries.get(entry.info.key) is entry:
            self._set_timer(entry, entry.not_before)

    def wake(self, helps: Callable[[Unplaced], bool]) -> None:
        """Something happened: the parked pods that it may help come again."""
        now = self._clock.monotonic()
        for shape, parked in list(self._parked.items()):
            if helps(parked.unplaced):
                del self._parked[shape]
                for entry in parked.entries.values():
                    if entry.not_before > now:
                        self._set_timer(entry, entry.not_before)
                    else:
                        self._activate(entry)

    def _activate(self, entry: Entry) -> None:
        entry.due = 0.0
        self._ready.add(entry)
        priority = entry.info.pod.spec.priority
        heapq.heappush(self._active, (-priority, next(self._order), entry))
        self._changed.set()

    def _set_timer(self, entry: Entry, due: float) -> None:
        entry.due = due
        heapq.heappush(self._timers, (due, next(self._order), entry))
        if len(self._timers) > 2 * len(self._entries) + 64:  # mostly timers that no longer count
            self._timers = sorted(timer for timer in self._timers if timer[2].due == timer[0])
        self._changed.set()

    def _unpark(self, entry: Entry) -> None:
        parked = self._parked.get(entry.info.shape)
        if parked and parked.entries.pop(entry.info.key, None) and not parked.entries:
            del self._parked[entry.info.shape]

    def _promote(self) -> float | None:
        """Activate what is due; the seconds until the next is, None if nothing waits for a time."""
        now = self._clock.monotonic()
        while self._timers:
            due, _, entry = self._timers[0]
            if entry.due == due and due > now:
                return due - now
            heapq.heappop(self._timers)
            if entry.due == due:
                self._unpark(entry)
                self._activate(entry)
        return None
