"""`PodControl`: how a workload creates and deletes its pods, and tells of it.

Source: kubernetes pkg/controller/controller_utils.go (RealPodControl, slowStartBatch).
"""

import asyncio
from collections.abc import Iterable, Sequence

from shepherd.api.errors import ApiError
from shepherd.api.objects import ObjectMeta, Pod
from shepherd.api.resource import Object, Resource
from shepherd.client.recorder import Recorder, reference
from shepherd.client.writer import Writer
from shepherd.lib.tasks import all_of


class PodControl:
    """Writes pods on behalf of owners of one kind, with an Event about the owner for each."""

    def __init__(self, owners: Resource, pods: Writer[Pod], recorder: Recorder) -> None:
        self._owners = owners
        self._pods = pods
        self._recorder = recorder

    async def create(self, owner: ObjectMeta, bodies: Sequence[Object]) -> Exception | None:
        """Create pods in batches that double as long as all goes well, so that a quota or an
        outage is met by one request and not by hundreds. The first error ends it, and is given
        back; that the namespace is on its way out is none."""
        done, batch = 0, 1
        while done < len(bodies):
            results = await asyncio.gather(
                *(self._pods.create(body) for body in bodies[done : done + batch]),
                return_exceptions=True,
            )
            failures = [item for item in results if isinstance(item, BaseException)]
            for item in results:
                if isinstance(item, Pod):
                    text = f"Created pod: {item.metadata.name}"
                    self._event(owner, "Normal", "SuccessfulCreate", text)
            if failures:
                return self._creation_failed(owner, failures[0])
            done += batch
            batch *= 2
        return None

    def _creation_failed(self, owner: ObjectMeta, error: BaseException) -> Exception | None:
        if not isinstance(error, ApiError | ConnectionError):
            raise error
        if isinstance(error, ApiError):
            causes = [cause.get("reason") for cause in error.details.get("causes") or []]
            if "NamespaceTerminating" in causes:
                return None
            self._event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
        return error

    async def delete(self, owner: ObjectMeta, pods: Iterable[Pod]) -> None:
        """Delete pods; those that are gone already are left at that."""
        await all_of(self._delete_one(owner, pod) for pod in pods)

    async def _delete_one(self, owner: ObjectMeta, pod: Pod) -> None:
        if await self._pods.delete(pod.metadata):
            text = f"Deleted pod: {pod.metadata.name}"
            self._event(owner, "Normal", "SuccessfulDelete", text)

    def _event(self, owner: ObjectMeta, type: str, reason: str, message: str) -> None:
        self._recorder.event(reference(self._owners, owner), type, reason, message)
