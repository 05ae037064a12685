"""ControllerRevisions: the templates that a StatefulSet or DaemonSet has had, to return to.

Source: kubernetes pkg/controller/history, pkg/controller/daemon/update.go.
"""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from shepherd.api.errors import ApiError
from shepherd.api.objects import ControllerRevision, ObjectMeta
from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import Selector
from shepherd.client.writer import Writer
from shepherd.controllers.ownership import candidates, claims, controller_reference, settle
from shepherd.controllers.templates import labels_of, name_hash

POD_REVISION = "controller-revision-hash"
"""The label by which a pod tells its revision: of a StatefulSet the revision's name, of a DaemonSet
the hash in it."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def patch_of(template: Object) -> Object:
    """What a revision keeps: the strategic merge patch that brings the template back, for `kubectl
    rollout undo` to send as it is. Keys are in order, since kubectl compares it as text."""
    patch = {"spec": {"template": template | {"$patch": "replace"}}}
    found: Object = msgspec.json.decode(msgspec.json.encode(patch, order="deterministic"))
    return found


def template_of(revision: ControllerRevision) -> Object:
    """The template that a revision keeps; empty if it is none of ours."""
    spec: Any = revision.data.get("spec") or {}
    return {key: value for key, value in (spec.get("template") or {}).items() if key != "$patch"}


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """The oldest first."""
    return sorted(
        revisions,
        key=lambda r: (r.revision, r.metadata.creation_timestamp or "", r.metadata.name),
    )


def surplus(
    revisions: Iterable[ControllerRevision], live: Collection[str], limit: int
) -> list[ControllerRevision]:
    """The revisions beyond the limit, oldest first; those named in `live` neither go nor count."""
    past = [revision for revision in in_order(revisions) if revision.metadata.name not in live]
    return past[: max(len(past) - limit, 0)]


class History:
    """Keeps the revisions of workloads of one kind.

    `label` is the one that a revision has its hash in.
    """

    def __init__(
        self, owners: Resource, revisions: Writer[ControllerRevision], *, label: str
    ) -> None:
        self._owners = owners
        self._revisions = revisions
        self._label = label

    async def owned(self, owner: ObjectMeta, selector: Selector) -> list[ControllerRevision]:
        """The revisions of a workload; orphans that match are adopted."""
        found = claims(owner, selector, candidates(owner, self._revisions.informer))
        return await settle(self._owners, owner, found, self._revisions)

    async def keep(
        self,
        owner: ObjectMeta,
        template: Object,
        revisions: list[ControllerRevision],
        collisions: int,
    ) -> tuple[ControllerRevision, int]:
        """The revision of the present template, and how many names were found taken up to now.

        It is made if it is new. One that comes back (an undo) gets a number above all others.
        """
        patch = patch_of(template)
        same = [revision for revision in revisions if revision.data == patch]
        number = max((r.revision for r in revisions if r not in same), default=0) + 1
        if not same:
            return await self._create(owner, template, number, collisions)
        present = in_order(same)[-1]
        if present.revision < number:
            present = await self._revisions.patch(present.metadata, {"revision": number})
        return present, collisions

    async def _create(
        self, owner: ObjectMeta, template: Object, number: int, collisions: int
    ) -> tuple[ControllerRevision, int]:
        while True:
            suffix = name_hash(template, collisions)
            body = self._body(owner, template, suffix, number)
            try:
                return await self._revisions.create(body), collisions
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
            name = body["metadata"]["name"]
            live = await self._revisions.client.get(self._revisions.resource, name, owner.namespace)
            found = self._revisions.informer.observe(live)
            controller = found.metadata.controller
            if controller and controller.uid == owner.uid and found.data == body["data"]:
                return found, collisions  # An earlier try of ours, whose answer was lost.
            collisions += 1

    def _body(self, owner: ObjectMeta, template: Object, suffix: str, number: int) -> Object:
        annotations = {k: v for k, v in owner.annotations.items() if k != _LAST_APPLIED}
        return {
            "metadata": {
                "name": f"{owner.name[:223]}-{suffix}",
                "namespace": owner.namespace,
                "labels": labels_of(template) | {self._label: suffix},
                "annotations": annotations,
                "ownerReferences": [controller_reference(self._owners, owner)],
            },
            "data": patch_of(template),
            "revision": number,
        }

    async def trim(
        self, revisions: list[ControllerRevision], live: Collection[str], limit: int
    ) -> None:
        """Remove what `surplus` names."""
        for revision in surplus(revisions, live, limit):
            await self._revisions.delete(revision.metadata)
