"""Job: pods that run to their end, as many as it takes.

`job_plan` decides what to do, `job_status` what has become of it. Source: kubernetes
pkg/controller/job.
"""

from shepherd.api.errors import ApiError
from shepherd.api.kinds import JOB
from shepherd.api.objects import Pod
from shepherd.api.objects.batch import Job
from shepherd.api.selectors import selector_of
from shepherd.client.recorder import Recorder, reference
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.informers import Informers
from shepherd.controllers.job_plan import Scaling, Seen, deadline, observe, scaling, verdict
from shepherd.controllers.job_pods import TRACKING, UNTRACK, tracked
from shepherd.controllers.job_status import Account, account, status_json
from shepherd.controllers.ownership import Claims, claims, settle
from shepherd.controllers.pod_control import PodControl
from shepherd.controllers.pods import ready_since, restarts
from shepherd.lib.clock import Clock
from shepherd.lib.tasks import all_of

_COALESCE_SECONDS = 0.1
"""Pods that change within this are looked at together."""
MANAGER = "kubernetes.io/job-controller"
"""`spec.managedBy` of the jobs that are ours; others are left to whom they name."""


def managed(job: Job) -> bool:
    return job.spec.managed_by in ("", MANAGER)


def _relevant(pod: Pod) -> tuple[object, ...]:
    """All of a pod's changing state that counts here."""
    meta = pod.metadata
    return (
        meta.labels, meta.owner_references, meta.finalizers, meta.deletion_timestamp,
        pod.status.phase, ready_since(pod), restarts(pod),
    )  # fmt: skip


class JobController:
    """Makes pods until enough of them have succeeded or too many have failed, and counts both."""

    name = "job"

    def __init__(self, informers: Informers, pods: Writer[Pod], jobs: Writer[Job],
                 recorder: Recorder, *, clock: Clock) -> None:  # fmt: skip
        self._informers = informers
        self._pods = pods
        self._jobs = jobs
        self._recorder = recorder
        self._control = PodControl(JOB, pods, recorder)
        self._clock = clock

    def connect(self, queue: WorkQueue) -> None:
        def job_changed(old: Job | None, new: Job | None) -> None:
            # Its status is our own writing.
            if new and (old is None or old.metadata.generation != new.metadata.generation):
                queue.add(new.metadata.key)

        def pod_changed(old: Pod | None, new: Pod | None) -> None:
            if old and new and _relevant(old) == _relevant(new):
                return
            for pod in (old, new):
                if pod and (owner := pod.metadata.controller) and owner.kind == JOB.kind:
                    queue.add_after(f"{pod.metadata.namespace}/{owner.name}", _COALESCE_SECONDS)
            if new and not new.metadata.controller and new.metadata.labels:
                for job in self._informers.jobs.by_index("namespace", new.metadata.namespace):
                    if selector_of(job.spec.selector).matches(new.metadata.labels):
                        queue.add(job.metadata.key)

        self._informers.jobs.on_change(job_changed)
        self._informers.pods.on_change(pod_changed)

    async def reconcile(self, key: str) -> float | None:
        job = self._informers.jobs.get(key)
        if job is None or job.finish or not managed(job):
            return None
        await self._control.make_sure(job.metadata)
        found = self._claims(job)
        pods = await settle(JOB, job.metadata, found, self._pods, finalizer=TRACKING)
        now = self._clock.now()
        seen = observe(job, pods)
        end = verdict(seen, now)
        plan = scaling(seen, end, now)
        error = await self._scale(job, plan)
        seen = observe(job, self._claims(job).owned)
        await self._write(seen, account(seen, end, now))
        if error:
            raise error
        waits = (plan.again, deadline(job, now) if not end else None)
        return min((wait for wait in waits if wait is not None), default=None)

    def _claims(self, job: Job) -> Claims[Pod]:
        meta, pods = job.metadata, self._informers.pods
        candidates = pods.by_index("owner", meta.uid) + pods.by_index("orphan", meta.namespace)
        return claims(meta, selector_of(job.spec.selector), candidates)

    async def _scale(self, job: Job, plan: Scaling) -> Exception | None:
        if plan.uncounted:
            await self._free(pod for pod in plan.delete if tracked(pod))
        await self._control.delete(job.metadata, plan.delete)
        return await self._control.create(job.metadata, plan.create)

    async def _write(self, seen: Seen, found: Account) -> None:
        """In this order, so that nothing is lost: the status, under the version that it was made
        from; then the finalizers."""
        job, status = seen.job, status_json(found.status)
        if status != status_json(job.status):
            version = {"resourceVersion": job.metadata.resource_version}
            patch = {"metadata": version, "status": status}
            await self._jobs.patch(job.metadata, patch, sub="status")
        for event in found.events:
            self._recorder.event(reference(JOB, job.metadata), *event)
        await self._free(found.free)
