"""How many pods the pure cycle decides a second of CPU time: no API, no events, one process.

The nodes differ in size, zone and taints; the pods are of 50 shapes in turn, each shape a workload
that is spread over nodes and zones. A first round gives every shape its ranking and is timed apart.
"""

import gc
import random
import time

from bench.report import Row
from shepherd.api.objects import decode
from shepherd.scheduler.cache import Cache
from shepherd.scheduler.cycle import Cycle, Unplaced
from shepherd.scheduler.objects import Node, Pod
from shepherd.scheduler.plugins import DEFAULT_PROFILE
from shepherd.scheduler.shape import PodInfo, Shapes

SHAPES = 50
PODS = 10_000


def node(index: int) -> Node:
    """One of the nodes: eight sizes, three zones, every tenth tainted."""
    cores = 8 * (1 + index % 8)
    tainted = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    return decode(
        {
            "metadata": {
                "name": f"node-{index}",
                "labels": {
                    "kubernetes.io/hostname": f"node-{index}",
                    "topology.kubernetes.io/zone": f"zone-{index % 3}",
                    "disk": "ssd" if index % 2 else "hdd",
                },
            },
            "spec": {"taints": tainted if index % 10 == 0 else []},
            "status": {
                "allocatable": {"cpu": str(cores), "memory": f"{cores * 4}Gi", "pods": "110"}
            },
        },
        Node,
    )


def pod(index: int, shapes: int) -> Pod:
    """A pod of one of the shapes."""
    shape = index % shapes
    owner = {"kind": "ReplicaSet", "uid": f"rs-{shape}", "controller": True}
    return decode(
        {
            "metadata": {
                "name": f"pod-{index}",
                "namespace": "default",
                "ownerReferences": [owner],
            },
            "spec": {
                "nodeSelector": {"disk": "ssd"} if shape % 5 == 0 else {},
                "tolerations": [{"key": "dedicated", "operator": "Exists"}]
                if shape % 7 == 0
                else [],
                "containers": [
                    {
                        "resources": {
                            "requests": {
                                "cpu": f"{50 + 25 * (shape % 11)}m",
                                "memory": f"{64 * (1 + shape % 9)}Mi",
                            }
                        }
                    }
                ],
            },
        },
        Pod,
    )


def measure() -> list[Row]:
    rows = []
    for nodes in (1_000, 5_000):
        rows += [_mixed(nodes), _identical(nodes)]
    return rows


def _mixed(nodes: int) -> Row:
    first, rate = _rate(nodes, SHAPES)
    note = f"{SHAPES} shapes; {first * 1000:.1f} ms for the first pod of each"
    target = ">= 5000" if nodes == 5_000 else ""
    return Row(f"decisions, {nodes} nodes, mixed pods", rate, "pods/s", target, note)


def _identical(nodes: int) -> Row:
    _, rate = _rate(nodes, 1)
    return Row(f"decisions, {nodes} nodes, identical pods", rate, "pods/s")


def _rate(nodes: int, shapes: int) -> tuple[float, float]:
    """Seconds for the first pod of a shape, and pods a second after that."""
    cache = Cache(random.Random(1))
    for index in range(nodes):
        cache.set_node(node(index))
    cycle, known = Cycle(cache, DEFAULT_PROFILE), Shapes()
    pods = [pod(index, shapes) for index in range(shapes + PODS)]
    gc.collect()
    gc.freeze()
    began = time.process_time()
    _place(pods[:shapes], cycle, cache, known)
    warm = time.process_time()
    _place(pods[shapes:], cycle, cache, known)
    ended = time.process_time()
    gc.unfreeze()
    return (warm - began) / shapes, PODS / (ended - warm)


def _place(pods: list[Pod], cycle: Cycle, cache: Cache, shapes: Shapes) -> None:
    for item in pods:
        info = PodInfo(item.metadata.key, item, shapes.of(item))
        chosen = cycle.decide(info)
        assert not isinstance(chosen, Unplaced), chosen.message
        cache.place(info, chosen.name)
