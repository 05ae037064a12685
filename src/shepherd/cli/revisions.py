"""The revisions of a workload: the pod templates that it has had, and how to return to one.

A Deployment keeps them as ReplicaSets, a StatefulSet or DaemonSet as ControllerRevisions. Source:
kubectl polymorphichelpers (history.go, rollback.go).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shepherd.api.kinds import DEPLOYMENT, REPLICA_SET
from shepherd.api.kinds.replicationcontrollers import CONTROLLER_REVISION
from shepherd.api.objects import ControllerRevision, decode
from shepherd.api.resource import Object, Resource
from shepherd.cli.session import Failure
from shepherd.client.base import Client
from shepherd.controllers.deployment_plan import HASH_LABEL, REVISION
from shepherd.controllers.history import template_of

CAUSE = "kubernetes.io/change-cause"
"""The annotation in which a user says what a change is for."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One template that a workload has or had."""

    number: int
    """The higher the later; one that is returned to gets a new number."""
    cause: str
    template: Object

    @property
    def images(self) -> list[str]:
        """Of its containers."""
        return [c.get("image", "") for c in self.template["spec"].get("containers") or ()]


async def revisions(client: Client, resource: Resource, owner: Object) -> list[Revision]:
    """Those of a Deployment, StatefulSet or DaemonSet, the oldest first."""
    kind, read = (
        (REPLICA_SET, _of_replica_set)
        if resource is DEPLOYMENT
        else (CONTROLLER_REVISION, _of_controller_revision)
    )
    items = (await client.list(kind, owner["metadata"]["namespace"])).items
    found = [read(item) for item in items if _controlled(item, owner)]
    return sorted(found, key=lambda revision: revision.number)


def _controlled(obj: Object, owner: Object) -> bool:
    """The owner is the one that manages the object."""
    return any(
        reference.get("controller") and reference["uid"] == owner["metadata"]["uid"]
        for reference in obj["metadata"].get("ownerReferences") or ()
    )


def _of_replica_set(obj: Object) -> Revision:
    annotations = obj["metadata"].get("annotations") or {}
    template = obj["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH_LABEL}
    number = int(annotations.get(REVISION) or 0)
    template = template | {"metadata": metadata | {"labels": labels}}
    return Revision(number, annotations.get(CAUSE, ""), template)


def _of_controller_revision(obj: Object) -> Revision:
    found = decode(obj, ControllerRevision)
    return Revision(found.revision, found.metadata.annotations.get(CAUSE, ""), template_of(found))


def chosen(found: Sequence[Revision], number: int) -> Revision:
    """The revision of that number; for 0 the one before the present. Raises Failure."""
    if number:
        for revision in found:
            if revision.number == number:
                return revision
        there = ", ".join(str(revision.number) for revision in found) or "none"
        raise Failure(f"there is no revision {number}: there are {there}")
    if len(found) < 2:
        raise Failure("there is no earlier revision to return to")
    return found[-2]


def going_back(revision: Revision) -> Object:
    """The strategic merge patch that brings a revision's template back, and its cause."""
    template = revision.template | {"$patch": "replace"}
    cause = {"annotations": {CAUSE: revision.cause or None}}
    return {"metadata": cause, "spec": {"template": template}}
