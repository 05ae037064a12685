"""Who a pod of a StatefulSet is: its name, labels, host name and claims. Pure.

Source: kubernetes pkg/controller/statefulset/stateful_set_utils.go.
"""

from collections.abc import Iterator

import msgspec

from shepherd.api.kinds import POD
from shepherd.api.kinds.statefulsets import STATEFUL_SET
from shepherd.api.objects import ObjectMeta, Pod, StatefulSet
from shepherd.api.resource import Object
from shepherd.controllers.history import POD_REVISION
from shepherd.controllers.ownership import controller_reference, owners_patch
from shepherd.controllers.templates import pod_of

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{stateful_set.metadata.name}-{ordinal}"


def ordinal_of(stateful_set: StatefulSet, name: str) -> int | None:
    """The number in the name of a pod; None if the set has no pod of that name."""
    set_name, _, number = name.rpartition("-")
    digits = number.isascii() and number.isdecimal() and number == str(int(number))
    return int(number) if digits and set_name == stateful_set.metadata.name else None


def revision_of(pod: Pod) -> str:
    """The name of the revision that a pod was made from."""
    return pod.metadata.labels.get(POD_REVISION, "")


def identity_labels(name: str, ordinal: int) -> dict[str, str]:
    return {POD_NAME: name, POD_INDEX: str(ordinal)}


def new_pod(stateful_set: StatefulSet, template: Object, revision: str, ordinal: int) -> Object:
    """The pod of that number, of a template and its revision."""
    name = pod_name(stateful_set, ordinal)
    pod = pod_of(template, STATEFUL_SET, stateful_set.metadata, name=name)
    meta, spec = pod["metadata"], pod["spec"]
    own = identity_labels(name, ordinal) | {POD_REVISION: revision}
    meta["labels"] = meta.get("labels", {}) | own
    spec["hostname"] = name
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    claimed = [
        {"name": template_name, "persistentVolumeClaim": {"claimName": claim}}
        for template_name, claim in claim_names(stateful_set, ordinal)
    ]
    if claimed:
        names = {volume["name"] for volume in claimed}
        others = [v for v in spec.get("volumes") or () if v.get("name") not in names]
        spec["volumes"] = claimed + others
    return pod


def claim_names(stateful_set: StatefulSet, ordinal: int) -> Iterator[tuple[str, str]]:
    """Of each claim template its name, and that of the claim of the pod with that number."""
    for claim in stateful_set.spec.volume_claim_templates:
        name = claim["metadata"]["name"]
        yield name, f"{name}-{pod_name(stateful_set, ordinal)}"


def new_claims(stateful_set: StatefulSet, ordinal: int) -> Iterator[Object]:
    """The claims of the pod with that number."""
    selector, templates = stateful_set.spec.selector, stateful_set.spec.volume_claim_templates
    labels = selector.match_labels if selector else {}
    owner = claim_owner(stateful_set, None, condemned=False)
    for template, (_, name) in zip(templates, claim_names(stateful_set, ordinal), strict=True):
        given = template["metadata"]
        meta = {
            "name": name,
            "namespace": stateful_set.metadata.namespace,
            "labels": (given.get("labels") or {}) | labels,
            "annotations": given.get("annotations") or {},
            "ownerReferences": [owner] if owner else [],
        }
        yield {"metadata": meta, "spec": template.get("spec") or {}}


def claim_owner(stateful_set: StatefulSet, pod: Pod | None, *, condemned: bool) -> Object | None:
    """With whom a claim is to go, by persistentVolumeClaimRetentionPolicy: with its pod, when that
    goes for good; with the set; or with nobody (None)."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    if condemned and pod and policy.when_scaled == "Delete":
        return controller_reference(POD, pod.metadata)
    if policy.when_deleted == "Delete":
        return controller_reference(STATEFUL_SET, stateful_set.metadata)
    return None


def retention_patch(
    stateful_set: StatefulSet, pod: Pod, claim: ObjectMeta, *, condemned: bool
) -> Object | None:
    """What makes the claim of a pod go with whom it is to go; None if that is so, or if somebody
    else controls it."""
    ours = [
        owner
        for owner in claim.owner_references
        if owner.uid == stateful_set.metadata.uid or _is_pod(owner.kind, owner.name, pod)
    ]
    controller = claim.controller
    if controller is not None and controller not in ours:
        return None
    wanted = claim_owner(stateful_set, pod, condemned=condemned)
    if [msgspec.to_builtins(owner) for owner in ours] == ([wanted] if wanted else []):
        return None
    add = [wanted] if wanted else []
    return owners_patch(claim, add=add, drop=[owner.uid for owner in ours])


def stale(claim: ObjectMeta, name: str) -> bool:
    """The claim is about to go with an earlier pod of this name: a new one must not take it up."""
    gone = any(o.kind == POD.kind and o.name == name for o in claim.owner_references)
    return gone or claim.deletion_timestamp is not None


def _is_pod(kind: str, name: str, pod: Pod) -> bool:
    return kind == POD.kind and name == pod.metadata.name
