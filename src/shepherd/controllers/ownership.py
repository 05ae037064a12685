"""Who owns what: which objects a workload may count as its own, adopt or let go.

Source: kubernetes pkg/controller/controller_ref_manager.go. Two workloads whose selectors match
each other's objects never fight: an object with another controller is none of our business.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from shepherd.api.objects import LabelSelector, ObjectMeta
from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import Selector, selector_of
from shepherd.client.informer import Identified, Informer
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer

T = TypeVar("T", bound=Identified)


class Selecting(Protocol):
    """What a spec with a selector has."""

    @property
    def selector(self) -> LabelSelector | None: ...


class Workload(Identified, Protocol):
    """What owns objects by a selector."""

    @property
    def spec(self) -> Selecting: ...


W = TypeVar("W", bound=Workload)


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


def candidates(owner: ObjectMeta, objects: Informer[T]) -> list[T]:
    """What `claims` is to look at: what names the owner, and the orphans of its namespace."""
    return objects.by_index("owner", owner.uid) + objects.by_index("orphan", owner.namespace)


def concerned(owners: Informer[W], old: Identified | None, new: Identified | None) -> Iterator[str]:
    """The keys of the owners whom the change of an object from `old` to `new` concerns: those that
    it names, and if it names none, all that may adopt it."""
    for version in (old, new):
        owner = version.metadata.controller if version else None
        if version and owner and owner.kind == owners.resource.kind:
            yield f"{version.metadata.namespace}/{owner.name}"
    if new and not new.metadata.controller and new.metadata.labels:
        for workload in owners.by_index("namespace", new.metadata.namespace):
            if selector_of(workload.spec.selector).matches(new.metadata.labels):
                yield workload.metadata.key


def follow(
    queue: WorkQueue, owners: Informer[W], owned: Informer[T], *,
    by: Callable[[T], object] | None = None, delay_seconds: float = 0.0,
) -> None:  # fmt: skip
    """Queue the owners whom a change of an object concerns. With `by`, only if what it tells of the
    object has changed."""

    def changed(old: T | None, new: T | None) -> None:
        if not (by and old and new and by(old) == by(new)):
            for key in concerned(owners, old, new):
                queue.add_after(key, delay_seconds)

    owned.on_change(changed)


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
    resource: Resource, owner: ObjectMeta, found: Claims[T], writer: Writer[T], *,
    finalizer: str = "",
) -> list[T]:  # fmt: skip
    """Adopt and release as `found` says; everything that is owned then. What is adopted gets
    `finalizer`, what is released loses it.

    Before it adopts, it asks the server itself whether the owner still exists: a cache may lag.
    """
    owned = list(found.owned)
    if found.adopt:
        live = (await writer.client.get(resource, owner.name, owner.namespace))["metadata"]
        if live["uid"] == owner.uid and not live.get("deletionTimestamp"):
            reference = controller_reference(resource, owner)
            for orphan in found.adopt:
                patch = owners_patch(orphan.metadata, add=[reference])
                if finalizer:
                    kept = [*orphan.metadata.finalizers, finalizer]
                    patch["metadata"]["finalizers"] = list(dict.fromkeys(kept))
                owned.append(await writer.patch(orphan.metadata, patch))
    for stranger in found.release:
        patch = owners_patch(stranger.metadata, drop=(owner.uid,))
        if finalizer in stranger.metadata.finalizers:
            kept = [name for name in stranger.metadata.finalizers if name != finalizer]
            patch["metadata"]["finalizers"] = kept
        await writer.patch(stranger.metadata, patch)
    return owned


def owners_patch(
    meta: ObjectMeta, *, add: Sequence[Object] = (), drop: Sequence[str] = ()
) -> Object:
    """A merge patch that adds owners and drops those with the given UIDs. It names the version that
    it was made from: the list is replaced as a whole (strategic merge knows no custom kinds)."""
    kept = [msgspec.to_builtins(o) for o in meta.owner_references if o.uid not in drop]
    return {
        "metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "ownerReferences": [*kept, *add],
        }
    }
