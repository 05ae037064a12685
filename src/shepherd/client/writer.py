"""`Writer`: writes of one kind, shown to the informer as soon as the server has answered.

So whoever decides from the informer reads its own writes, and a second look at once after a first
never repeats it. Client-go's controllers keep "expectations" to the same end.
"""

from typing import Any, Generic, TypeVar

from shepherd.api.errors import ApiError
from shepherd.api.objects.meta import ObjectMeta
from shepherd.api.resource import Object
from shepherd.client.base import Client, PatchType
from shepherd.client.informer import Identified, Informer

T = TypeVar("T", bound=Identified)


class Writer(Generic[T]):
    """Creates, patches and deletes what `informer` watches. Raises as `Client` does."""

    def __init__(self, client: Client, informer: Informer[T]) -> None:
        self.client = client
        self.informer = informer
        self.resource = informer.resource

    async def create(self, obj: Object) -> T:
        """`kind` and `apiVersion` are filled in."""
        head = {"kind": self.resource.kind, "apiVersion": self.resource.api_version}
        return self.informer.observe(await self.client.create(self.resource, head | obj))

    async def patch(
        self, meta: ObjectMeta, patch: Any, *, type: PatchType = "merge", sub: str = ""
    ) -> T:
        """Patch exactly the object that `meta` describes: a namesake with another UID gets 409."""
        if type != "json":
            patch = patch | {"metadata": patch.get("metadata", {}) | {"uid": meta.uid}}
        return self.informer.observe(
            await self.client.patch(
                self.resource, meta.name, meta.namespace or None, patch, type=type, sub=sub
            )
        )

    async def delete(
        self, meta: ObjectMeta, *, grace_seconds: int | None = None, propagation: str = "",
        unchanged: bool = False,
    ) -> bool:  # fmt: skip
        """Delete exactly the object that `meta` describes, with `unchanged` in exactly the version
        (409 if there is a newer one); False if it is gone already."""
        try:
            answer = await self.client.delete(
                self.resource,
                meta.name,
                meta.namespace or None,
                grace_seconds=grace_seconds,
                propagation=propagation,
                uid=meta.uid,
                resource_version=meta.resource_version if unchanged else "",
            )
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        left = answer.get("metadata", {})
        finalizers = left.get("finalizers") or answer.get("spec", {}).get("finalizers")
        if left.get("deletionTimestamp") and (finalizers or left.get("deletionGracePeriodSeconds")):
            self.informer.observe(answer)
        else:
            self.informer.observe_deleted(meta)
        return True
