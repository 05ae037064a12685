"""`Controller`: runs a `Reconciler`: keys in, `reconcile(key)`, again later if it failed or asks.

Source of the shape: controller-runtime pkg/internal/controller.
"""

import asyncio
import logging
from random import Random
from typing import Protocol

from shepherd.api.errors import ApiError
from shepherd.client.workqueue import WorkQueue
from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock

_BACKOFF = Backoff(initial=0.02, cap=60.0, jitter=0.1)
_SOONEST_SECONDS = 0.001
"""A time that is due but for a rounding error must not spin."""
_ROUTINE = (404, 409)
"""Someone else was faster: tried again, and not worth a line in the log."""


class Reconciler(Protocol):
    """What makes one kind of thing true. It is idempotent and level-triggered: it gets a key, reads
    the present state and does what is missing; what made the key come up does not matter."""

    name: str
    """As upstream names the controller: `deployment`, `replicaset`."""

    def connect(self, queue: WorkQueue) -> None:
        """Once, before the start: register the handlers that add keys."""
        ...

    async def reconcile(self, key: str) -> float | None:
        """The seconds after which to look again, if time alone will change something.

        ApiError and ConnectionError mean: try again after a back-off that grows.
        """
        ...


class Controller:
    """Hands the keys of one reconciler to `workers` tasks, each key to one at a time."""

    def __init__(
        self, reconciler: Reconciler, *, clock: Clock, random: Random, workers: int = 4
    ) -> None:
        self.reconciler = reconciler
        self.queue = WorkQueue(clock=clock, backoff=_BACKOFF, random=random)
        self.reconciles = 0
        self.errors = 0
        self._workers = workers
        self._log = logging.getLogger(f"shepherd.{reconciler.name}")
        reconciler.connect(self.queue)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            self.reconciles += 1
            try:
                again = await self.reconciler.reconcile(key)
            except AssertionError:
                raise
            except Exception as error:
                self._failed(key, error)
            else:
                self.queue.forget(key)
                if again is not None:
                    self.queue.add_after(key, max(again, _SOONEST_SECONDS))
            finally:
                self.queue.done(key)

    def _failed(self, key: str, error: Exception) -> None:
        """Try again later. Says so once per streak; what only an object of odd form could bring
        about (any other exception) comes with its traceback and harms no other key."""
        self.errors += 1
        delay = self.queue.retry(key)
        expected = isinstance(error, ApiError | ConnectionError)
        routine = isinstance(error, ApiError) and error.code in _ROUTINE
        if self.queue.failures(key) == (3 if routine else 1):
            text = "%s: %s; trying again in %.1f s"
            self._log.warning(text, key, error, delay, exc_info=None if expected else error)
