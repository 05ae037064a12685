"""`explain`: what each node has against a pod, by the scheduler's own rules.

The scheduler tells of a pod that fits nowhere how many nodes fail on which ground; this tells of
every node all the grounds, with names and figures. It is a function of lists that anybody may read,
so that `sheepctl why` can ask it anywhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from shepherd.scheduler.cache import Cache
from shepherd.scheduler.objects import Node, Pod
from shepherd.scheduler.plugins import DEFAULT_PROFILE
from shepherd.scheduler.shape import PodInfo, Shapes


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a node cannot take a pod."""

    plugin: str
    reason: str
    """In the scheduler's words."""
    detail: str = ""
    """Who holds it, or how much is missing, where the plugin can say."""


def explain(
    pod: Pod,
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    namespaces: dict[str, dict[str, str]],
) -> dict[str, list[Objection]]:
    """By node name, in order: all that stands against `pod` there; an empty list where it fits.

    `pods` are those of the whole cluster, `namespaces` the labels of each namespace. The first
    objection of a node is the one that the scheduler counts.
    """
    cache, shapes = Cache(Random(0)), Shapes()

    def info(item: Pod) -> PodInfo:
        meta = item.metadata
        return PodInfo(meta.key, item, shapes.of(item), namespaces.get(meta.namespace, {}))

    for node in nodes:
        cache.set_node(node)
    for other in pods:
        if other.spec.node_name and not other.finished:
            cache.place(info(other), other.spec.node_name)
    checks = DEFAULT_PROFILE.checks(info(pod), cache)
    found: dict[str, list[Objection]] = {}
    for name, node_info in sorted(cache.nodes.items()):
        found[name] = []
        for check in checks:
            if unfit := check.test(node_info):
                detail = check.detail(node_info) if check.detail else ""
                found[name].append(Objection(unfit.plugin, unfit.reason, detail))
    return found
