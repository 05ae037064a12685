"""CronJob: a job whenever its schedule says so. `cronjob_plan` decides.

Source: kubernetes pkg/controller/cronjob.
"""

from shepherd.api.errors import ApiError
from shepherd.api.kinds.cron import time_zone
from shepherd.api.kinds.jobs import CRON_JOB
from shepherd.api.objects.batch import CronJob, Job
from shepherd.client.recorder import Recorder, reference
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.cronjob_plan import Plan, decide, new_job, status_json, status_of
from shepherd.controllers.informers import Informers
from shepherd.controllers.pod_control import terminating
from shepherd.lib.clock import Clock


class CronJobController:
    """Starts jobs in time, and removes those of the past that are more than are to be kept."""

    name = "cronjob"

    def __init__(self, informers: Informers, cron_jobs: Writer[CronJob], jobs: Writer[Job],
                 recorder: Recorder, *, clock: Clock) -> None:  # fmt: skip
        self._informers = informers
        self._cron_jobs = cron_jobs
        self._jobs = jobs
        self._recorder = recorder
        self._clock = clock
        self._changed: dict[str, float] = {}
        """By UID: when we saw the schedule change."""

    def connect(self, queue: WorkQueue) -> None:
        def cron_job_changed(old: CronJob | None, new: CronJob | None) -> None:
            if new is None:
                assert old is not None
                self._changed.pop(old.metadata.uid, None)
            elif old is None or old.metadata.generation != new.metadata.generation:
                if old and _times(old) != _times(new):
                    self._changed[new.metadata.uid] = self._clock.now()
                queue.add(new.metadata.key)

        def job_changed(old: Job | None, new: Job | None) -> None:
            if old and new and old.finish == new.finish:
                return
            job = new or old
            owner = job.metadata.controller if job else None
            if job and owner and owner.kind == CRON_JOB.kind:
                queue.add(f"{job.metadata.namespace}/{owner.name}")

        self._informers.cron_jobs.on_change(cron_job_changed)
        self._informers.jobs.on_change(job_changed)

    async def reconcile(self, key: str) -> float | None:
        cron_job = self._informers.cron_jobs.get(key)
        if cron_job is None:
            return None
        try:
            zone = time_zone(cron_job.spec.time_zone)
        except ValueError as error:
            text = f'invalid timeZone: "{cron_job.spec.time_zone}": {error}'
            self._event(cron_job, "Warning", "UnknownTimeZone", text)
            return None
        changed_at = self._changed.get(cron_job.metadata.uid, 0.0)
        now = self._clock.now()
        plan = decide(cron_job, self._owned(cron_job), zone, now, changed_at=changed_at)
        for event in plan.events:
            self._event(cron_job, *event)
        for job in plan.delete:
            await self._delete(cron_job, job)
        if plan.start and plan.due is not None:
            await self._start(cron_job, new_job(cron_job, plan.due, zone))
        await self._write_status(cron_job, plan)
        return plan.again

    def _owned(self, cron_job: CronJob) -> list[Job]:
        uid = cron_job.metadata.uid
        jobs = self._informers.jobs.by_index("owner", uid)
        return [job for job in jobs if (o := job.metadata.controller) and o.uid == uid]

    async def _delete(self, cron_job: CronJob, job: Job) -> None:
        if await self._jobs.delete(job.metadata, propagation="Background"):
            text = f"Deleted job {job.metadata.name}"
            self._event(cron_job, "Normal", "SuccessfulDelete", text)

    async def _start(self, cron_job: CronJob, body: dict[str, object]) -> None:
        """That there is one of this name means that it was made before, and nobody learned of it,
        or that somebody took the name: in either case this time is dealt with."""
        try:
            made = await self._jobs.create(body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return
            if not terminating(error):
                text = f"Error creating job: {error}"
                self._event(cron_job, "Warning", "FailedCreate", text)
            raise
        text = f"Created job {made.metadata.name}"
        self._event(cron_job, "Normal", "SuccessfulCreate", text)

    async def _write_status(self, cron_job: CronJob, plan: Plan) -> None:
        status = status_json(status_of(cron_job, self._owned(cron_job), plan.due))
        if status != status_json(cron_job.status):
            await self._cron_jobs.patch(cron_job.metadata, {"status": status}, sub="status")

    def _event(self, cron_job: CronJob, type: str, reason: str, message: str) -> None:
        self._recorder.event(reference(CRON_JOB, cron_job.metadata), type, reason, message)


def _times(cron_job: CronJob) -> tuple[str, str]:
    return cron_job.spec.schedule, cron_job.spec.time_zone
