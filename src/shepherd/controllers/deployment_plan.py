"""The decisions of a Deployment: which ReplicaSet is the new one, and how large each may be.

Source: kubernetes pkg/controller/deployment (rolling.go, sync.go, util/deployment_util.go).
"""

import math
from typing import Any

import msgspec

from shepherd.api.objects import Deployment, ReplicaSet
from shepherd.api.resource import Object
from shepherd.controllers.shares import share

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAXIMUM,
}

Sizes = dict[str, int]
"""Replicas that ReplicaSets are to get, by name; the others stay as they are."""


def same_template(one: Object, other: Object) -> bool:
    """Equal but for the label that we add."""
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Object) -> Object:
    metadata = {k: v for k, v in (template.get("metadata") or {}).items() if v}
    labels = {k: v for k, v in metadata.pop("labels", {}).items() if k != HASH_LABEL}
    return template | {"metadata": metadata | {"labels": labels}}


def by_age(sets: list[ReplicaSet]) -> list[ReplicaSet]:
    """Oldest first."""
    return sorted(sets, key=lambda s: (s.metadata.creation_timestamp or "", s.metadata.name))


def new_set(deployment: Deployment, sets: list[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet of the present template: the oldest, should there be several."""
    template = deployment.spec.template
    return next((s for s in by_age(sets) if same_template(s.spec.template, template)), None)


def bounds(deployment: Deployment) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) as numbers. Both zero would stop all progress, so then one pod may
    be unavailable."""
    spec = deployment.spec
    if spec.strategy.type != "RollingUpdate":
        return 0, 0
    rolling = spec.strategy.rolling_update
    surge = share(rolling.max_surge if rolling else "25%", spec.replicas, up=True)
    unavailable = share(rolling.max_unavailable if rolling else "25%", spec.replicas, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, spec.replicas)


def new_size(deployment: Deployment, new: ReplicaSet | None, sets: list[ReplicaSet]) -> int:
    """How large the new ReplicaSet may be now. `sets` are all, the new one among them."""
    wanted = deployment.spec.replicas
    if deployment.spec.strategy.type != "RollingUpdate":
        return wanted
    present = new.spec.replicas if new else 0
    if present >= wanted:
        return wanted
    surge, _ = bounds(deployment)
    room = wanted + surge - sum(s.spec.replicas for s in sets)
    return present + min(max(room, 0), wanted - present)


def old_sizes(deployment: Deployment, new: ReplicaSet, sets: list[ReplicaSet]) -> Sizes:
    """How far the old ReplicaSets shrink now, so that enough pods stay available.

    First go old pods that are not available anyway, oldest ReplicaSet first: however broken they
    are, they can't block the rollout. Then as many available ones as the new ones make up for.
    """
    _, unavailable = bounds(deployment)
    floor = deployment.spec.replicas - unavailable
    old = by_age([s for s in sets if s is not new and s.spec.replicas])
    sizes = {s.metadata.name: s.spec.replicas for s in old}
    present = dict(sizes)
    new_missing = new.spec.replicas - new.status.available_replicas
    spare = sum(s.spec.replicas for s in sets) - floor - new_missing
    if spare <= 0:
        return {}
    for item in old:
        broken = max(sizes[item.metadata.name] - item.status.available_replicas, 0)
        gone = min(broken, spare)
        sizes[item.metadata.name] -= gone
        spare -= gone
    # A status may still count pods that an earlier, smaller size has doomed.
    staying = sum(min(s.status.available_replicas, s.spec.replicas) for s in sets)
    surplus = staying - floor
    for item in old:
        gone = min(sizes[item.metadata.name], max(surplus, 0))
        sizes[item.metadata.name] -= gone
        surplus -= gone
    return {name: size for name, size in sizes.items() if size != present[name]}


def scaled(deployment: Deployment, sets: list[ReplicaSet]) -> bool:
    """spec.replicas changed since the ReplicaSets were last sized."""
    desired = str(deployment.spec.replicas)
    return any(
        s.spec.replicas and s.metadata.annotations.get(DESIRED, desired) != desired for s in sets
    )


def proportional_sizes(
    deployment: Deployment, new: ReplicaSet | None, sets: list[ReplicaSet]
) -> Sizes:
    """Sizes after a change of spec.replicas, or while paused: in the midst of a rollout every
    ReplicaSet keeps its share, so that the mix of versions stays as it was."""
    wanted = deployment.spec.replicas
    running = [s for s in sets if s.spec.replicas]
    if len(running) <= 1:
        latest = running or ([new] if new else by_age(sets)[-1:])
        return {s.metadata.name: wanted for s in latest if s.spec.replicas != wanted}
    if new and _saturated(deployment, new):
        return {s.metadata.name: 0 for s in running if s is not new}
    if deployment.spec.strategy.type != "RollingUpdate":
        return {}
    surge, _ = bounds(deployment)
    to_add = (wanted + surge if wanted else 0) - sum(s.spec.replicas for s in running)
    ranked = by_age(running)
    if to_add > 0:
        ranked.reverse()
    ranked.sort(key=lambda s: -s.spec.replicas)
    sizes: Sizes = {}
    left = to_add
    for item in ranked:
        share = _proportion(deployment, item, wanted + surge)
        share = min(share, left) if to_add > 0 else max(share, left)
        sizes[item.metadata.name] = item.spec.replicas + share
        left -= share
    first = ranked[0].metadata.name
    sizes[first] = max(sizes[first] + left, 0)
    return {s.metadata.name: sizes[s.metadata.name] for s in ranked
            if sizes[s.metadata.name] != s.spec.replicas}  # fmt: skip


def _saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    wanted = deployment.spec.replicas
    desired = new.metadata.annotations.get(DESIRED)
    return new.spec.replicas == new.status.available_replicas == wanted and desired == str(wanted)


def _proportion(deployment: Deployment, item: ReplicaSet, total: int) -> int:
    """What a ReplicaSet gains or loses to keep its share of `total`."""
    if not deployment.spec.replicas:
        return -item.spec.replicas
    before = _integer(item.metadata.annotations.get(MAXIMUM)) or deployment.status.replicas
    if not before:
        return 0
    return math.floor(item.spec.replicas * total / before + 0.5) - item.spec.replicas


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """What a ReplicaSet remembers of the Deployment's size when its own is set."""
    surge, _ = bounds(deployment)
    wanted = deployment.spec.replicas
    return {DESIRED: str(wanted), MAXIMUM: str(wanted + surge)}


def revision(item: ReplicaSet | Deployment) -> int:
    """The revision that a ReplicaSet stands for; 0 if it has none."""
    return _integer(item.metadata.annotations.get(REVISION)) or 0


def new_annotations(
    deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]
) -> dict[str, str]:
    """The annotations of the new ReplicaSet: the Deployment's, and a revision above all others.

    An old template that becomes the present one again (a rollback) gets a new number; its former
    ones are kept in the history.
    """
    found = {k: v for k, v in deployment.metadata.annotations.items() if k not in _NOT_COPIED}
    above = max((revision(s) for s in old), default=0) + 1
    present = revision(new) if new else 0
    if present >= above:
        return found
    found[REVISION] = str(above)
    if new and present:
        history = new.metadata.annotations.get(REVISION_HISTORY)
        found[REVISION_HISTORY] = f"{history},{present}" if history else str(present)
    return found


def surplus_history(deployment: Deployment, old: list[ReplicaSet]) -> list[ReplicaSet]:
    """Old ReplicaSets beyond the history limit, oldest revision first, that are truly empty."""
    kept = [s for s in old if not s.metadata.deletion_timestamp]
    surplus = len(kept) - deployment.spec.revision_history_limit
    oldest = sorted(kept, key=lambda s: (revision(s), s.metadata.creation_timestamp or ""))
    return [
        s
        for s in oldest[: max(surplus, 0)]
        if not s.spec.replicas
        and not s.status.replicas
        and s.metadata.generation <= s.status.observed_generation
    ]


def new_set_body(deployment: Deployment, hash: str, replicas: int, annotations: Object) -> Object:
    """The ReplicaSet of the present template, but for its ownerReference."""
    spec = deployment.spec
    template = dict(spec.template)
    metadata: dict[str, Any] = dict(template.get("metadata") or {})
    metadata["labels"] = (metadata.get("labels") or {}) | {HASH_LABEL: hash}
    template["metadata"] = metadata
    assert spec.selector is not None
    selector = msgspec.to_builtins(spec.selector)
    selector["matchLabels"] = selector.get("matchLabels", {}) | {HASH_LABEL: hash}
    return {
        "metadata": {
            "name": f"{deployment.metadata.name}-{hash}",
            "namespace": deployment.metadata.namespace,
            "labels": metadata["labels"],
            "annotations": annotations | size_annotations(deployment),
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    }


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
