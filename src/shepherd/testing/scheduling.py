"""Pods and nodes for scheduler tests, in few words."""

import random
from typing import Any

from shepherd.api.objects import decode
from shepherd.scheduler.cache import Cache
from shepherd.scheduler.cycle import Cycle, Unplaced
from shepherd.scheduler.objects import Node, Pod
from shepherd.scheduler.plugins import DEFAULT_PROFILE
from shepherd.scheduler.shape import PodInfo, Shapes

HOSTNAME = "kubernetes.io/hostname"


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    unschedulable: bool = False,
    more: dict[str, str] | None = None,
) -> Node:
    """A node; `more` is allocatable besides cpu, memory and pods."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    return decode(
        {
            "metadata": {"name": name, "labels": {HOSTNAME: name} | (labels or {})},
            "spec": {"taints": taints or [], "unschedulable": unschedulable},
            "status": {"allocatable": allocatable | (more or {})},
        },
        Node,
    )


def pod(
    name: str,
    *,
    cpu: str = "100m",
    memory: str = "100Mi",
    labels: dict[str, str] | None = None,
    workload: str = "",
    namespace: str = "default",
    **spec: Any,
) -> Pod:
    """A pod with one container; `spec` holds further fields of its spec, as in JSON."""
    requests = {"cpu": cpu, "memory": memory}
    owners = [{"kind": "ReplicaSet", "uid": workload, "controller": True}] if workload else []
    return decode(
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": labels or {},
                "ownerReferences": owners,
            },
            "spec": {"containers": [{"resources": {"requests": requests}}]} | spec,
        },
        Pod,
    )


class Scene:
    """A cache, a cycle over it, and pods placed as they are decided."""

    def __init__(self, *nodes: Node, seed: int = 1) -> None:
        self.cache = Cache(random.Random(seed))
        self.cycle = Cycle(self.cache, DEFAULT_PROFILE)
        self.shapes = Shapes()
        for item in nodes:
            self.cache.set_node(item)

        self.namespaces: dict[str, dict[str, str]] = {}
        """Labels of namespaces."""

    def info(self, item: Pod) -> PodInfo:
        labels = self.namespaces.get(item.metadata.namespace, {})
        return PodInfo(item.metadata.key, item, self.shapes.of(item), labels)

    def put(self, item: Pod, node_name: str) -> None:
        """Place a pod where the test wants it."""
        self.cache.place(self.info(item), node_name)

    def schedule(self, item: Pod) -> str:
        """Decide and place: the node's name, or why there is none."""
        info = self.info(item)
        decision = self.cycle.decide(info)
        if isinstance(decision, Unplaced):
            return decision.message
        self.cache.place(info, decision.name)
        return decision.name
