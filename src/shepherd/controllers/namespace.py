"""Namespace: deletes all that a terminating namespace holds, then lets it go.

Source: kubernetes pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from shepherd.api.errors import ApiError, qualified
from shepherd.api.kinds import NAMESPACE
from shepherd.api.objects import Namespace
from shepherd.api.objects.meta import Condition
from shepherd.api.resource import Object, Resource
from shepherd.client.base import Client
from shepherd.client.informer import Informer, PartialObject
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers import conditions
from shepherd.controllers.informers import Informers
from shepherd.lib.clock import Clock
from shepherd.lib.tasks import all_of

FINALIZER = "kubernetes"
_AGAIN_SECONDS = 5.0
_COALESCE_SECONDS = 0.05


def on_namespaces(informers: Informers, queue: WorkQueue) -> None:
    """Add the name of each namespace that changes."""

    def changed(old: Namespace | None, new: Namespace | None) -> None:
        if new:
            queue.add(new.metadata.name)

    informers.namespaces.on_change(changed)


@dataclass(slots=True)
class Remains:
    """What is still in a namespace after everything was asked to go."""

    objects: Counter[str] = field(default_factory=Counter)
    """By resource (`pods`, `deployments.apps`)."""
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def count(self, resource: Resource, metadata: list[Object]) -> None:
        """Take in what a list of one kind says."""
        if metadata:
            self.objects[qualified(resource.group, resource.plural)] += len(metadata)
        for meta in metadata:
            self.finalizers.update(meta.get("finalizers") or [])


def deletion_conditions(present: list[Condition], remains: Remains, now: float) -> list[Condition]:
    """The conditions that tell what holds a namespace, in upstream's words."""
    kinds = ", ".join(
        f"{name} has {count} resource instances" for name, count in sorted(remains.objects.items())
    )
    held = ", ".join(
        f"{name} in {count} resource instances"
        for name, count in sorted(remains.finalizers.items())
    )
    failed = "; ".join(remains.failures)
    table = [
        ("NamespaceDeletionDiscoveryFailure", "", "ResourcesDiscovered",
         "All resources successfully discovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "", "ParsedGroupVersions",
         "All legacy kube types successfully parsed"),
        ("NamespaceDeletionContentFailure",
         failed and f"Failed to delete all resource types, {len(remains.failures)} remaining: "
         f"{failed}", "ContentDeleted",
         "All content successfully deleted, may be waiting on finalization"),
        ("NamespaceContentRemaining", kinds and f"Some resources are remaining: {kinds}",
         "ContentRemoved", "All content successfully removed"),
        ("NamespaceFinalizersRemaining",
         held and f"Some content in the namespace has finalizers remaining: {held}",
         "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    ]  # fmt: skip
    reasons = {
        "NamespaceDeletionContentFailure": "ContentDeletionFailed",
        "NamespaceContentRemaining": "SomeResourcesRemain",
        "NamespaceFinalizersRemaining": "SomeFinalizersRemain",
    }
    for kind, problem, fine_reason, fine in table:
        reason = reasons[kind] if problem else fine_reason
        present = conditions.with_condition(
            present, kind, bool(problem), reason, problem or fine, now
        )
    return present


class NamespaceController:
    """Empties terminating namespaces: everything is asked to go, what remains is named in the
    conditions, and when nothing does the namespace's own finalizer is taken off."""

    name = "namespace"

    def __init__(
        self, client: Client, informers: Informers, namespaces: Writer[Namespace], *, clock: Clock
    ) -> None:
        self._client = client
        self._informers = informers
        self._namespaces = namespaces
        self._clock = clock

    def connect(self, queue: WorkQueue) -> None:
        on_namespaces(self._informers, queue)

        def content_changed(old: PartialObject | None, new: PartialObject | None) -> None:
            """Something went: perhaps it was the last."""
            if old and not new:
                namespace = self._informers.namespaces.get(old.metadata.namespace)
                if namespace and namespace.metadata.deletion_timestamp:
                    queue.add_after(namespace.metadata.name, _COALESCE_SECONDS)

        def follow(informer: Informer[Any]) -> None:
            if informer.resource.namespaced:
                informer.on_change(content_changed)

        self._informers.on_kind(follow)

    async def reconcile(self, key: str) -> float | None:
        namespace = self._informers.namespaces.get(key)
        if namespace is None or not namespace.metadata.deletion_timestamp:
            return None
        if FINALIZER not in namespace.spec.finalizers:
            return None
        remains = Remains()
        resources = [r for r in self._informers.resources if r.namespaced and "delete" in r.verbs]
        await all_of(self._empty(key, resource, remains) for resource in resources)
        if remains.objects or remains.failures:
            await self._write_conditions(namespace, remains)
            return _AGAIN_SECONDS
        await self._finalize(namespace)
        return None

    async def _empty(self, name: str, resource: Resource, remains: Remains) -> None:
        """Delete all objects of one kind, and count what stays."""
        try:
            left = await self._list(name, resource)
            if any(not meta.get("deletionTimestamp") for meta in left):
                await self._client.delete_collection(resource, name, propagation="Background")
                left = await self._list(name, resource)
        except ApiError as error:
            if error.code not in (404, 405):
                remains.failures.append(f"{resource.plural}: {error}")
        else:
            remains.count(resource, left)

    async def _list(self, name: str, resource: Resource) -> list[Object]:
        """The metadata of all objects of one kind, from the server itself."""
        found: list[Object] = []
        token = ""
        while True:
            page = await self._client.list(resource, name, limit=500, continue_token=token)
            found += [item["metadata"] for item in page.items]
            token = page.continue_token
            if not token:
                return found

    async def _write_conditions(self, namespace: Namespace, remains: Remains) -> None:
        present = namespace.status.conditions
        found = deletion_conditions(present, remains, self._clock.now())
        if found != present:
            body = {"conditions": [conditions.as_json(item) for item in found]}
            await self._namespaces.patch(namespace.metadata, {"status": body}, sub="status")

    async def _finalize(self, namespace: Namespace) -> None:
        live: dict[str, Any] = await self._client.get(NAMESPACE, namespace.metadata.name)
        if live["metadata"]["uid"] != namespace.metadata.uid:
            return
        kept = [item for item in live["spec"].get("finalizers", []) if item != FINALIZER]
        live["spec"] = live["spec"] | {"finalizers": kept}
        await self._client.update(NAMESPACE, live, sub="finalize")
