"""Deletes Jobs when `ttlSecondsAfterFinished` is over. Source: kubernetes
pkg/controller/ttlafterfinished."""

from shepherd.api.meta import parse_time
from shepherd.api.objects.batch import Job
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.informers import Informers
from shepherd.lib.clock import Clock


def expires_at(job: Job) -> float | None:
    """When it is to go (epoch seconds); None: not by itself, or not yet known."""
    ttl, end = job.spec.ttl_seconds_after_finished, job.finish
    if ttl is None or end is None or job.metadata.deletion_timestamp:
        return None
    return parse_time(end.last_transition_time or job.metadata.creation_timestamp or "") + ttl


class TtlAfterFinished:
    """Deletes them with their pods, in the foreground."""

    name = "ttl-after-finished"

    def __init__(self, informers: Informers, jobs: Writer[Job], *, clock: Clock) -> None:
        self._informers = informers
        self._jobs = jobs
        self._clock = clock

    def connect(self, queue: WorkQueue) -> None:
        def changed(old: Job | None, new: Job | None) -> None:
            if new and expires_at(new) is not None:
                queue.add(new.metadata.key)

        self._informers.jobs.on_change(changed)

    async def reconcile(self, key: str) -> float | None:
        job = self._informers.jobs.get(key)
        due = expires_at(job) if job else None
        if job is None or due is None:
            return None
        wait = due - self._clock.now()
        if wait > 0:
            return wait
        # Under its version: the time that it was given may have been changed just now.
        await self._jobs.delete(job.metadata, propagation="Foreground", unchanged=True)
        return None
