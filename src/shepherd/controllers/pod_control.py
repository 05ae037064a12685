"""`PodControl`: makes and removes the pods of workloads, and says so in the workload's Events.

Source: kubernetes pkg/controller/controller_utils.go (RealPodControl, slowStartBatch).
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from shepherd.api.errors import ApiError
from shepherd.api.objects import ObjectMeta, Pod
from shepherd.api.resource import Object, Resource
from shepherd.client.recorder import Recorder, reference
from shepherd.client.writer import Writer
from shepherd.lib.tasks import all_of

T = TypeVar("T")

_MAX_BATCH = 500


async def slow_start(items: Sequence[T], act: Callable[[T], Coroutine[Any, Any, None]]) -> None:
    """Act on all items, in batches that double as long as all goes well, so that a quota or an
    outage is met by one request and not by hundreds. The first error ends it and is raised."""
    done, batch = 0, 1
    while done < len(items):
        await all_of(act(item) for item in items[done : done + batch])
        done += batch
        batch = min(2 * batch, _MAX_BATCH)


def terminating(error: Exception) -> bool:
    """The namespace is on its way out: nothing can be made in it, and nothing needs to be."""
    causes = error.details.get("causes") or [] if isinstance(error, ApiError) else []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


class PodControl:
    """For workloads of the kind `resource`."""

    def __init__(self, resource: Resource, pods: Writer[Pod], recorder: Recorder) -> None:
        self._resource = resource
        self._pods = pods
        self._recorder = recorder

    async def create(self, owner: ObjectMeta, bodies: Sequence[Object]) -> Exception | None:
        """Create pods, with a slow start. The first error ends it and is returned, for the owner's
        status to tell; none, where the namespace is on its way out."""

        async def create(body: Object) -> None:
            made = await self._pods.create(body)
            text = f"Created pod: {made.metadata.name}"
            self.event(owner, "Normal", "SuccessfulCreate", text)

        try:
            await slow_start(bodies, create)
        except (ApiError, ConnectionError) as error:
            if terminating(error):
                return None
            if isinstance(error, ApiError) and error.reason != "AlreadyExists":
                self.event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            return error
        return None

    async def delete(self, owner: ObjectMeta, pods: Iterable[Pod]) -> None:
        """Delete pods, all at once; those that are gone already are left at that."""
        await all_of(self._delete(owner, pod) for pod in pods)

    async def _delete(self, owner: ObjectMeta, pod: Pod) -> None:
        if await self._pods.delete(pod.metadata):
            text = f"Deleted pod: {pod.metadata.name}"
            self.event(owner, "Normal", "SuccessfulDelete", text)

    def event(self, owner: ObjectMeta, type: str, reason: str, message: str) -> None:
        """An Event of the workload."""
        self._recorder.event(reference(self._resource, owner), type, reason, message)
