"""Lets pods go that carry the tracking finalizer and that no Job will count any more.

Source: kubernetes pkg/controller/job/job_controller.go, syncOrphanPod.
"""

from shepherd.api.errors import ApiError
from shepherd.api.kinds.jobs import JOB
from shepherd.api.objects import Pod
from shepherd.api.objects.batch import Job, managed
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.informers import Informers
from shepherd.controllers.job_pods import UNTRACK, tracked


class JobOrphans:
    """Pods whose Job is gone or finished, or that have no controller. Keys are those of pods."""

    name = "job-orphans"

    def __init__(self, informers: Informers, pods: Writer[Pod]) -> None:
        self._informers = informers
        self._pods = pods

    def connect(self, queue: WorkQueue) -> None:
        def job_changed(old: Job | None, new: Job | None) -> None:
            if job := old if new is None else new if new.finish else None:
                for pod in self._informers.pods.by_index("owner", job.metadata.uid):
                    if tracked(pod):
                        queue.add(pod.metadata.key)

        def pod_changed(old: Pod | None, new: Pod | None) -> None:
            # That a job is not known yet says nothing, until its pod is deleted.
            if (
                new
                and tracked(new)
                and (new.metadata.controller is None or new.metadata.deletion_timestamp)
            ):
                queue.add(new.metadata.key)

        self._informers.jobs.on_change(job_changed)
        self._informers.pods.on_change(pod_changed)

    async def reconcile(self, key: str) -> float | None:
        pod = self._informers.pods.get(key)
        if pod and tracked(pod) and await self._orphaned(pod):
            await self._pods.patch(pod.metadata, UNTRACK, type="strategic")
        return None

    async def _orphaned(self, pod: Pod) -> bool:
        owner = pod.metadata.controller
        if owner is None:
            return True
        if (owner.api_version, owner.kind) != (JOB.api_version, JOB.kind):
            return False
        job = self._informers.jobs.get(f"{pod.metadata.namespace}/{owner.name}")
        if job is None or job.metadata.uid != owner.uid:
            return not await self._exists(pod.metadata.namespace, owner.name, owner.uid)
        return job.finish is not None and managed(job)

    async def _exists(self, namespace: str, name: str, uid: str) -> bool:
        """As the server knows it: a cache may lag."""
        try:
            found = await self._pods.client.get(JOB, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        return bool(found["metadata"]["uid"] == uid)
