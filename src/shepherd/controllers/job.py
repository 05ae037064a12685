"""Job: pods that run to their end, as many as it takes.

`job_plan` decides what to do, `job_status` what has become of it. Source: kubernetes
pkg/controller/job.
"""

from collections.abc import Iterable

from shepherd.api.errors import ApiError
from shepherd.api.kinds import POD
from shepherd.api.kinds.jobs import JOB
from shepherd.api.objects import Pod
from shepherd.api.objects.batch import Job, managed
from shepherd.api.selectors import selector_of
from shepherd.client.recorder import Recorder
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.informers import Informers
from shepherd.controllers.job_plan import (
    Failures,
    Scaling,
    Seen,
    deadline,
    observe,
    scaling,
    verdict,
)
from shepherd.controllers.job_pods import TRACKING, UNTRACK, restarts, tracked
from shepherd.controllers.job_status import Account, account, status_json
from shepherd.controllers.ownership import Claims, candidates, claims, follow, settle
from shepherd.controllers.pod_control import PodControl
from shepherd.controllers.pods import relevant
from shepherd.lib.clock import Clock
from shepherd.lib.tasks import all_of

_COALESCE_SECONDS = 0.1
"""Pods that change within this are looked at together."""


def _relevant(pod: Pod) -> tuple[object, ...]:
    """What of a pod counts here."""
    return *relevant(pod), pod.metadata.finalizers, pod.metadata.deletion_timestamp, restarts(pod)


class JobController:
    """Makes pods until enough of them have succeeded or too many have failed, and counts both."""

    name = "job"

    def __init__(self, informers: Informers, pods: Writer[Pod], jobs: Writer[Job],
                 recorder: Recorder, *, clock: Clock) -> None:  # fmt: skip
        self._informers = informers
        self._pods = pods
        self._jobs = jobs
        self._control = PodControl(JOB, pods, recorder)
        self._clock = clock
        self._failures: dict[str, Failures] = {}
        """By the UIDs of jobs, for the back-off: pods that failed may have been deleted since."""
        self._unsure: set[str] = set()
        """UIDs of jobs for which a pod may have been made that we do not know of."""

    def connect(self, queue: WorkQueue) -> None:
        def job_changed(old: Job | None, new: Job | None) -> None:
            known = new or old
            if known and (new is None or new.finish):
                self._failures.pop(known.metadata.uid, None)
                self._unsure.discard(known.metadata.uid)
            # Its status is our own writing.
            if new and (old is None or old.metadata.generation != new.metadata.generation):
                queue.add(new.metadata.key)

        jobs, pods = self._informers.jobs, self._informers.pods
        jobs.on_change(job_changed)
        follow(queue, jobs, pods, by=_relevant, delay_seconds=_COALESCE_SECONDS)

    async def reconcile(self, key: str) -> float | None:
        job = self._informers.jobs.get(key)
        if job is None or job.finish or not managed(job):
            return None
        if job.metadata.uid in self._unsure:
            await self._look(job)
        found = self._claims(job)
        pods = await settle(JOB, job.metadata, found, self._pods, finalizer=TRACKING)
        now = self._clock.now()
        seen = observe(job, pods, self._failures.get(job.metadata.uid))
        self._failures[job.metadata.uid] = seen.failures
        end = verdict(seen, now)
        plan = scaling(seen, end, now)
        if end:
            # It is announced first: what is stopped because of it is not to count as its cause.
            await self._write(seen, account(seen, end, now))
        error = await self._scale(job, plan)
        if not end:
            seen = observe(job, self._claims(job).owned)
            await self._write(seen, account(seen, end, now))
        if error:
            raise error
        waits = (plan.again, deadline(job, now) if not end else None)
        return min((wait for wait in waits if wait is not None), default=None)

    def _claims(self, job: Job) -> Claims[Pod]:
        found = candidates(job.metadata, self._informers.pods)
        return claims(job.metadata, selector_of(job.spec.selector), found)

    async def _scale(self, job: Job, plan: Scaling) -> Exception | None:
        if plan.uncounted:
            await self._free(pod for pod in plan.delete if tracked(pod))
        await self._control.delete(job.metadata, plan.delete)
        error = await self._control.create(job.metadata, plan.create)
        if isinstance(error, ConnectionError):
            self._unsure.add(job.metadata.uid)
        return error

    async def _look(self, job: Job) -> None:
        """The answer to a creation was lost, so the pod may be there: see, before another is made
        and the job has more pods than it asked for."""
        selector = str(selector_of(job.spec.selector))
        found = await self._pods.client.list(POD, job.metadata.namespace, label_selector=selector)
        for pod in found.items:
            self._informers.pods.observe(pod)
        self._unsure.discard(job.metadata.uid)

    async def _free(self, pods: Iterable[Pod]) -> None:
        await all_of(self._free_one(pod) for pod in pods)

    async def _free_one(self, pod: Pod) -> None:
        try:
            await self._pods.patch(pod.metadata, UNTRACK, type="strategic")
        except ApiError as error:
            if error.code != 404:
                raise

    async def _write(self, seen: Seen, found: Account) -> None:
        """In this order, so that nothing is lost: the status, under the version that it was made
        from; then the finalizers."""
        job, status = seen.job, status_json(found.status)
        if status != status_json(job.status):
            version = {"resourceVersion": job.metadata.resource_version}
            patch = {"metadata": version, "status": status}
            await self._jobs.patch(job.metadata, patch, sub="status")
        for event in found.events:
            self._control.event(job.metadata, *event)
        await self._free(found.free)
