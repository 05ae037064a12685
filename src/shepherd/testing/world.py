"""`World`: a simulated cluster's state as its store tells it, and what must never happen to it."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from shepherd.api.kinds import NODE, POD, RESOURCES
from shepherd.api.meta import object_key, split_key
from shepherd.api.objects import decode
from shepherd.api.resource import Object, Resource
from shepherd.scheduler.objects import Pod
from shepherd.scheduler.shape import Resources, Shapes, resources
from shepherd.store.base import Change, Span, Store

Check = Callable[["World"], None]
"""Raises AssertionError for a state that must not be."""

_EVERYTHING = Span("", chr(0x10FFFF))
_KINDS = {resource.kind: resource for resource in RESOURCES}


class World:
    """Follows the store change by change. `always` adds a scenario's own checks."""

    def __init__(self, store: Store) -> None:
        self.objects: dict[str, Object] = {}
        self.revision = 0
        self._store = store
        self._checks: list[Check] = [nodes_are_not_overcommitted]
        self._revisions: defaultdict[str, set[int]] = defaultdict(set)
        self._acknowledged: list[tuple[str, int]] = []

    def always(self, check: Check) -> None:
        """Hold `check` against the present state and each that follows."""
        check(self)
        self._checks.append(check)

    def of(self, resource: Resource) -> list[Object]:
        """All objects of a kind."""
        prefix = f"{resource.storage}/"
        return [obj for key, obj in self.objects.items() if key.startswith(prefix)]

    def acknowledged(self, obj: dict[str, Any]) -> None:
        """A client was told that `obj` is stored."""
        resource = _KINDS.get(obj.get("kind", ""))
        meta = obj.get("metadata", {})
        if resource and meta.get("resourceVersion"):
            key = object_key(resource, meta.get("namespace", ""), meta["name"])
            self._acknowledged.append((key, int(meta["resourceVersion"])))

    def check_acknowledged(self) -> None:
        """Every acknowledged write is in the store's history."""
        lost = [(key, at) for key, at in self._acknowledged if at not in self._revisions[key]]
        assert not lost, f"acknowledged, but never stored: {lost[:5]}"

    async def run(self) -> None:
        """Follow the store; raises AssertionError when a check fails."""
        async for changes in self._store.watch(_EVERYTHING, since=0):
            for change in changes:
                self._apply(change)

    def _apply(self, change: Change) -> None:
        self.revision = change.revision
        self._revisions[change.key].add(change.revision)
        if change.value is None:
            self.objects.pop(change.key, None)
        else:
            obj = msgspec.json.decode(change.value)
            if split_key(change.key)[0] == POD.storage:
                _stays_bound(self.objects.get(change.key), obj)
            self.objects[change.key] = obj
        for check in self._checks:
            check(self)


def _stays_bound(before: Object | None, after: Object) -> None:
    """A pod is bound once, and to one node."""
    if before and before["metadata"]["uid"] == after["metadata"]["uid"]:
        node = before["spec"].get("nodeName")
        assert node in (None, "", after["spec"].get("nodeName")), after["metadata"]["name"]


def nodes_are_not_overcommitted(world: World) -> None:
    """What the pods of a node request, all together, the node can give."""
    shapes = Shapes()
    used: defaultdict[str, Resources] = defaultdict(dict)
    for obj in world.of(POD):
        pod = decode(obj, Pod)
        if pod.spec.node_name and not pod.finished:
            total = used[pod.spec.node_name]
            for name, amount in (shapes.of(pod).requests | {"pods": 1}).items():
                total[name] = total.get(name, 0) + amount
    for node in world.of(NODE):
        can_give = resources((node.get("status") or {}).get("allocatable") or {})
        for name, amount in used[node["metadata"]["name"]].items():
            assert amount <= can_give.get(name, 0), (node["metadata"]["name"], name, amount)
