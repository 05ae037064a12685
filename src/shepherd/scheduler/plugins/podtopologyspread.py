"""PodTopologySpread: pods of a kind spread evenly over nodes, zones or other domains.

A pod with spec.topologySpreadConstraints is held to those. Any other pod of a workload is spread,
softly, over nodes and zones; its kind is then "has the same controller" (upstream derives a
selector from Services and the like, which takes old and new pods of a rolling update for one).
"""

from collections.abc import Callable

from shepherd.api.objects.pod import TopologySpreadConstraint
from shepherd.api.selectors import Selector, selector_of
from shepherd.scheduler.cache import Cache, NodeInfo, Tally
from shepherd.scheduler.framework import MAX_SCORE, Check, Grade, Reach, Unfit
from shepherd.scheduler.plugins.nodeaffinity import NodeAffinity
from shepherd.scheduler.plugins.tainttoleration import TaintToleration
from shepherd.scheduler.shape import PodInfo, with_label_keys

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

_POINTS_OFF = MAX_SCORE // 2
"""For each pod of the kind that a node or domain has (a domain: more than the emptiest). There is
no lower end, so that the fiftieth pod counts as the first does; times the weight, one pod less
outbids any difference in resources."""
_WEIGHT = 2


class PodTopologySpread:
    name = "PodTopologySpread"

    def filter(self, pod: PodInfo, cache: Cache) -> list[Check]:
        return [
            self._check(pod, constraint, cache)
            for constraint in pod.shape.spec.topology_spread_constraints
            if constraint.when_unsatisfiable == "DoNotSchedule"
        ]

    def score(self, pod: PodInfo, cache: Cache) -> list[Grade]:
        constraints = pod.shape.spec.topology_spread_constraints
        if not constraints:
            if not pod.shape.workload:
                return []
            tally = cache.workload(pod.shape.workload)
            return [self._over_nodes(tally), self._over_domains(tally, ZONE, cache)]
        soft = [c for c in constraints if c.when_unsatisfiable == "ScheduleAnyway"]
        return [self._grade(pod, constraint, cache) for constraint in soft]

    def _grade(self, pod: PodInfo, constraint: TopologySpreadConstraint, cache: Cache) -> Grade:
        tally = _alike(pod, constraint, cache)
        if constraint.topology_key == HOSTNAME:
            return self._over_nodes(tally)
        return self._over_domains(tally, constraint.topology_key, cache)

    def _over_nodes(self, tally: Tally) -> Grade:
        def score(node: NodeInfo) -> int:
            return MAX_SCORE - _POINTS_OFF * tally.nodes.get(node.name, 0)

        return Grade(self.name, score, _WEIGHT)

    def _over_domains(self, tally: Tally, key: str, cache: Cache) -> Grade:
        def score(node: NodeInfo) -> int:
            domain = node.labels.get(key)
            if domain is None:
                return 0
            counts = tally.domains(key, cache.nodes)
            emptiest = min(counts.get(name, 0) for name in cache.domains(key))
            return MAX_SCORE - _POINTS_OFF * (counts.get(domain, 0) - emptiest)

        return Grade(self.name, score, _WEIGHT, Reach.DOMAIN, (key,))

    def _check(self, pod: PodInfo, constraint: TopologySpreadConstraint, cache: Cache) -> Check:
        key = constraint.topology_key
        tally = _alike(pod, constraint, cache)
        itself = int(_selector(pod, constraint).matches(pod.labels))
        reason = "node(s) didn't match pod topology spread constraints"
        no_label = Unfit(self.name, f"{reason} (missing required label)")
        skewed = Unfit(self.name, reason)
        emptiest = _emptiest(pod, constraint, tally, cache)

        def test(node: NodeInfo) -> Unfit | None:
            domain = node.labels.get(key)
            if domain is None:
                return no_label
            skew = tally.domains(key, cache.nodes).get(domain, 0) + itself - emptiest()
            return skewed if skew > constraint.max_skew else None

        return Check(self.name, test, Reach.CLUSTER)


def _selector(pod: PodInfo, constraint: TopologySpreadConstraint) -> Selector:
    selector = selector_of(constraint.label_selector)
    return with_label_keys(selector, pod.labels, same=constraint.match_label_keys)


def _alike(pod: PodInfo, constraint: TopologySpreadConstraint, cache: Cache) -> Tally:
    """The pods in the same namespace that a constraint selects."""
    selector, namespace = _selector(pod, constraint), pod.namespace
    return cache.selection(
        (namespace, str(selector)),
        lambda other: other.namespace == namespace and selector.matches(other.labels),
    )


def _emptiest(
    pod: PodInfo, constraint: TopologySpreadConstraint, tally: Tally, cache: Cache
) -> Callable[[], int]:
    """The smallest count of all domains that have a node which counts for the constraint.

    Computed anew only when the cache has changed. Fewer domains than minDomains count as an empty
    one.
    """
    key = constraint.topology_key
    checks: list[Check] = []
    if constraint.node_affinity_policy == "Honor":
        checks += NodeAffinity().filter(pod, cache)
    if constraint.node_taints_policy == "Honor":
        checks += TaintToleration().filter(pod, cache)
    known = (-1, 0)

    def emptiest() -> int:
        nonlocal known
        if known[0] != cache.version:
            domains = {
                node.labels[key]
                for node in cache.nodes.values()
                if key in node.labels and not any(check.test(node) for check in checks)
            }
            counts = tally.domains(key, cache.nodes)
            least = min((counts.get(domain, 0) for domain in domains), default=0)
            known = (cache.version, 0 if len(domains) < (constraint.min_domains or 1) else least)
        return known[1]

    return emptiest
