"""Garbage collector: an object whose owners are all gone goes too.

Source: kubernetes pkg/controller/garbagecollector; "Owners and Dependents" and "Garbage Collection"
in the Kubernetes documentation. The graph is the `owner` and `uid` indices of the informers of all
kinds. Before anything is deleted, object and owners are asked for at the API itself.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from shepherd.api.errors import ApiError
from shepherd.api.meta import object_key, split_key
from shepherd.api.objects import ObjectMeta, OwnerReference, decode
from shepherd.api.resource import Object, Resource
from shepherd.client.base import Client
from shepherd.client.informer import Informer, PartialObject
from shepherd.client.recorder import Recorder, reference
from shepherd.client.workqueue import WorkQueue
from shepherd.controllers.informers import Informers
from shepherd.controllers.ownership import owners_patch
from shepherd.lib.tasks import all_of

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_ABSENT_LIMIT = 1000


@dataclass(slots=True)
class Owners:
    """An object's owner references, by the state of the owners."""

    solid: list[OwnerReference] = field(default_factory=list)
    """They exist and stay."""
    waiting: list[OwnerReference] = field(default_factory=list)
    """They are being deleted in the foreground and wait for this very object."""
    dangling: list[OwnerReference] = field(default_factory=list)
    """They exist no longer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an object: nothing, fewer references, or deletion."""

    drop: tuple[str, ...] = ()
    """UIDs of owners that it is to name no longer."""
    propagation: str = ""
    """Delete it so; empty: keep it."""


def judge(owners: Owners, finalizers: list[str], *, has_dependents: bool) -> Verdict:
    """One owner that stays is enough to keep an object, but for the references to others."""
    if owners.solid:
        return Verdict(drop=tuple(o.uid for o in owners.dangling + owners.waiting))
    if not owners.waiting and not owners.dangling:
        return Verdict()
    if owners.waiting and has_dependents:
        return Verdict(propagation="Foreground")
    if ORPHAN in finalizers:
        return Verdict(propagation="Orphan")
    return Verdict(propagation="Foreground" if FOREGROUND in finalizers else "Background")


def _is_of(reference: OwnerReference, kind: Resource) -> bool:
    group = reference.api_version.rpartition("/")[0]
    return (group, reference.kind) == (kind.group, kind.kind)


class GarbageCollector:
    """Background, foreground and orphaning deletion, over every kind that is served."""

    name = "garbage-collector"

    def __init__(self, client: Client, informers: Informers, recorder: Recorder) -> None:
        self._client = client
        self._informers = informers
        self._recorder = recorder
        self._absent: OrderedDict[tuple[str, str], None] = OrderedDict()
        """(namespace, UID) of owners that were asked for and are gone: UIDs never return."""

    def connect(self, queue: WorkQueue) -> None:
        def follow(informer: Informer[Any]) -> None:
            self._follow(informer, queue)
            self._add_dependents_of_kind(informer.resource, queue)

        self._informers.on_kind(follow)

    def _follow(self, informer: Informer[Any], queue: WorkQueue) -> None:
        resource = informer.resource

        def changed(old: PartialObject | None, new: PartialObject | None) -> None:
            if new is None:
                assert old is not None
                for owner in old.metadata.owner_references:
                    self._add_if_deleting(owner.uid, queue)
                self._add_dependents(old.metadata.uid, queue)
                return
            meta = new.metadata
            if meta.deletion_timestamp:
                if FOREGROUND in meta.finalizers or ORPHAN in meta.finalizers:
                    queue.add(self._key(resource, meta))
                    self._add_dependents(meta.uid, queue)
            elif not all(self._stays(meta, owner) for owner in meta.owner_references):
                queue.add(self._key(resource, meta))

        informer.on_change(changed)

    @staticmethod
    def _key(resource: Resource, meta: ObjectMeta) -> str:
        return object_key(resource, meta.namespace, meta.name)

    def _find(self, uid: str) -> PartialObject | None:
        """What has this UID, of whatever kind."""
        everywhere = self._informers.every.values()
        found: PartialObject | None = next(
            (item for informer in everywhere for item in informer.by_index("uid", uid)), None
        )
        return found

    def _reaches(self, meta: ObjectMeta, owner: OwnerReference) -> bool:
        """The owner is known, and where an owner of this object may be."""
        known = self._find(owner.uid)
        return known is not None and known.metadata.namespace in ("", meta.namespace)

    def _stays(self, meta: ObjectMeta, owner: OwnerReference) -> bool:
        """The owner is known, and does not wait for this object to go first."""
        known = self._find(owner.uid)
        return self._reaches(meta, owner) and not (
            known is not None
            and known.metadata.deletion_timestamp
            and FOREGROUND in known.metadata.finalizers
        )

    def _dependents(self, uid: str) -> list[tuple[Resource, PartialObject]]:
        """The objects that name this UID as an owner."""
        return [
            (informer.resource, found)
            for informer in self._informers.every.values()
            for found in informer.by_index("owner", uid)
        ]

    def _add_dependents(self, uid: str, queue: WorkQueue) -> None:
        for resource, dependent in self._dependents(uid):
            queue.add(self._key(resource, dependent.metadata))

    def _add_if_deleting(self, uid: str, queue: WorkQueue) -> None:
        for informer in self._informers.every.values():
            for owner in informer.by_index("uid", uid):
                if owner.metadata.deletion_timestamp:
                    queue.add(self._key(informer.resource, owner.metadata))

    def _add_dependents_of_kind(self, owner: Resource, queue: WorkQueue) -> None:
        """Owners of a kind that has just come can be looked for from now on."""
        for informer in self._informers.every.values():
            for found in informer.all():
                if any(_is_of(reference, owner) for reference in found.metadata.owner_references):
                    queue.add(self._key(informer.resource, found.metadata))

    async def reconcile(self, key: str) -> float | None:
        storage, namespace, name = split_key(key)
        informer = self._informers.every.get(storage)
        if informer is None:
            return None
        cached = informer.get(f"{namespace}/{name}" if namespace else name)
        if cached is None:
            return None
        resource = informer.resource
        if cached.metadata.deletion_timestamp:
            await self._finish_deletion(resource, cached.metadata)
            return None
        owners = await self._classify(resource, cached.metadata)
        if not owners.waiting and not owners.dangling:
            return None
        live = await self._live(resource, name, namespace)
        if live is None or live.uid != cached.metadata.uid or live.deletion_timestamp:
            return None
        owners = await self._classify(resource, live)
        dependents = bool(self._dependents(live.uid)) if owners.waiting else False
        await self._apply(resource, live, judge(owners, live.finalizers, has_dependents=dependents))
        return None

    async def _apply(self, resource: Resource, meta: ObjectMeta, verdict: Verdict) -> None:
        if verdict.drop:
            await self._drop_owners(resource, meta, verdict.drop)
        if verdict.propagation:
            try:
                await self._client.delete(
                    resource,
                    meta.name,
                    meta.namespace or None,
                    propagation=verdict.propagation,
                    uid=meta.uid,
                    resource_version=meta.resource_version,
                )
            except ApiError as error:
                if error.code != 404:
                    raise

    async def _finish_deletion(self, resource: Resource, meta: ObjectMeta) -> None:
        """Do for an object under deletion what its finalizers of ours wait for."""
        if ORPHAN in meta.finalizers:
            dependents = self._dependents(meta.uid)
            await all_of(
                self._drop_owners(kind, item.metadata, (meta.uid,)) for kind, item in dependents
            )
            await self._drop_finalizer(resource, meta, ORPHAN)
        elif FOREGROUND in meta.finalizers:
            blocking = any(
                owner.uid == meta.uid and owner.block_owner_deletion
                for _, dependent in self._dependents(meta.uid)
                for owner in dependent.metadata.owner_references
            )
            if not blocking:
                await self._drop_finalizer(resource, meta, FOREGROUND)

    async def _classify(self, resource: Resource, meta: ObjectMeta) -> Owners:
        found = Owners()
        for owner in meta.owner_references:
            kind = self._informers.kinds.get((owner.api_version, owner.kind))
            known = self._find(owner.uid)
            if known is not None and not self._reaches(meta, owner):
                self._misplaced(resource, meta, owner)
                known = None
            elif known is None:
                known = await self._ask(owner, meta.namespace)
            if known is None and not self._may_judge(resource, kind):
                found.solid.append(owner)
            elif known is None:
                found.dangling.append(owner)
            elif (
                known.metadata.deletion_timestamp
                and FOREGROUND in known.metadata.finalizers
                and owner.block_owner_deletion
            ):
                found.waiting.append(owner)
            else:
                found.solid.append(owner)
        return found

    @staticmethod
    def _may_judge(resource: Resource, owner: Resource | None) -> bool:
        """Whether an owner that we do not find can be called absent: not if its kind is not served
        here, nor if the dependent belongs to no namespace in which to look for it."""
        return owner is not None and (resource.namespaced or not owner.namespaced)

    async def _ask(self, owner: OwnerReference, namespace: str) -> PartialObject | None:
        """The owner as the server has it now; None if there is none with this UID."""
        kind = self._informers.kinds.get((owner.api_version, owner.kind))
        if kind is None or (namespace, owner.uid) in self._absent:
            return None
        live = await self._live(kind, owner.name, namespace if kind.namespaced else "")
        if live is not None and live.uid == owner.uid:
            return PartialObject(metadata=live)
        self._absent[(namespace, owner.uid)] = None
        if len(self._absent) > _ABSENT_LIMIT:
            self._absent.popitem(last=False)
        return None

    async def _live(self, resource: Resource, name: str, namespace: str) -> ObjectMeta | None:
        try:
            found = await self._client.get(resource, name, namespace or None)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return decode(found, PartialObject).metadata

    def _misplaced(self, resource: Resource, meta: ObjectMeta, owner: OwnerReference) -> None:
        text = (
            f"ownerRef [{owner.api_version}/{owner.kind}, namespace: {meta.namespace}, "
            f"name: {owner.name}, uid: {owner.uid}] does not exist in namespace "
            f'"{meta.namespace}"'
        )
        about = reference(resource, meta)
        self._recorder.event(about, "Warning", "OwnerRefInvalidNamespace", text)

    async def _drop_owners(
        self, resource: Resource, meta: ObjectMeta, uids: tuple[str, ...]
    ) -> None:
        await self._patch(resource, meta, owners_patch(meta, drop=uids))

    async def _drop_finalizer(self, resource: Resource, meta: ObjectMeta, name: str) -> None:
        kept = [item for item in meta.finalizers if item != name]
        patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": kept}}
        await self._patch(resource, meta, patch)

    async def _patch(self, resource: Resource, meta: ObjectMeta, patch: Object) -> None:
        try:
            await self._client.patch(resource, meta.name, meta.namespace or None, patch)
        except ApiError as error:
            if error.code != 404:
                raise
