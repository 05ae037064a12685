"""Who owns what: which objects a workload may count as its own, adopt or let go.

Source: kubernetes pkg/controller/controller_ref_manager.go. Two workloads whose selectors match
each other's objects never fight: an object with another controller is none of our business.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shepherd.api.objects import ObjectMeta
from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import Selector
from shepherd.client.informer import Identified
from shepherd.client.writer import Writer

T = TypeVar("T", bound=Identified)


@dataclass(slots=True)
class Claims(Generic[T]):
    """What to do about each candidate that concerns the owner."""

    owned: list[T] = field(default_factory=list)
    adopt: list[T] = field(default_factory=list)
    release: list[T] = field(default_factory=list)


def claims(owner: ObjectMeta, selector: Selector, candidates: Iterable[T]) -> Claims[T]:
    """Ours is what names us as controller and matches. Orphans that match are adopted; what names
    us and no longer matches is released. An owner that is being deleted takes and gives nothing."""
    found: Claims[T] = Claims()
    for candidate in candidates:
        meta = candidate.metadata
        matches = selector.matches(meta.labels)
        if meta.controller is not None:
            if meta.controller.uid != owner.uid:
                continue
            if matches:
                found.owned.append(candidate)
            elif not owner.deletion_timestamp:
                found.release.append(candidate)
        elif matches and not owner.deletion_timestamp and not meta.deletion_timestamp:
            found.adopt.append(candidate)
    return found


def controller_reference(resource: Resource, owner: ObjectMeta) -> Object:
    """The ownerReference by which a child names its controller."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


async def settle(
    resource: Resource, owner: ObjectMeta, found: Claims[T], writer: Writer[T]
) -> list[T]:
    """Adopt and release as `found` says; everything that is owned then.

    Before it adopts, it asks the server itself whether the owner still exists: a cache may lag.
    """
    owned = list(found.owned)
    if found.adopt:
        live = (await writer.client.get(resource, owner.name, owner.namespace))["metadata"]
        if live["uid"] == owner.uid and not live.get("deletionTimestamp"):
            reference = controller_reference(resource, owner)
            owned += [await _refer(writer, item.metadata, reference) for item in found.adopt]
    for stranger in found.release:
        reference = {"$patch": "delete", "uid": owner.uid}
        await _refer(writer, stranger.metadata, reference)
    return owned


async def _refer(writer: Writer[T], meta: ObjectMeta, reference: Object) -> T:
    patch = {"metadata": {"ownerReferences": [reference]}}
    return await writer.patch(meta, patch, type="strategic")
