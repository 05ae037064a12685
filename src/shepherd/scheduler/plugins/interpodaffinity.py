"""InterPodAffinity: near to, or away from, pods that are placed already.

Required and preferred terms of the pod, and the required anti-affinity of pods that are placed. The
preferences of placed pods are not looked at.
"""

from shepherd.api.objects.pod import PodAffinity
from shepherd.scheduler.cache import Cache, NodeInfo, Tally
from shepherd.scheduler.framework import MAX_SCORE, Check, Grade, Reach, Unfit
from shepherd.scheduler.plugins.podtopologyspread import HOSTNAME
from shepherd.scheduler.shape import PodInfo, PodTerm, pod_term

_OURS = "node(s) didn't match pod anti-affinity rules"
_THEIRS = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinity:
    name = "InterPodAffinity"

    def filter(self, pod: PodInfo, cache: Cache) -> list[Check]:
        theirs = [
            self._keep_off(term.topology_key, tally, _THEIRS, cache)
            for term, tally in cache.anti_affinity(pod).items()
        ]
        ours = [
            self._keep_off(term.topology_key, _tally(term, cache), _OURS, cache)
            for term in pod.shape.anti_affinity
        ]
        return [*self._near(pod, cache), *ours, *theirs]

    def _keep_off(self, key: str, tally: Tally, reason: str, cache: Cache) -> Check:
        """No pod of the tally may be in the node's domain."""
        unfit = Unfit(self.name, reason)

        def test(node: NodeInfo) -> Unfit | None:
            return unfit if node.labels.get(key) in tally.domains(key, cache.nodes) else None

        # A host is a domain of one node, where pods only ever make the answer worse.
        return Check(self.name, test, Reach.NODE if key == HOSTNAME else Reach.CLUSTER)

    def _near(self, pod: PodInfo, cache: Cache) -> list[Check]:
        """In the node's domains there must be a pod for every term.

        If no pod anywhere meets any term, a pod that meets all its terms itself may go first.
        """
        terms = pod.shape.affinity
        if not terms:
            return []
        wanted = [(term.topology_key, _tally(term, cache)) for term in terms]
        selfish = all(term.matches(pod) for term in terms)
        unfit = Unfit(self.name, "node(s) didn't match pod affinity rules")

        def test(node: NodeInfo) -> Unfit | None:
            if any(key not in node.labels for key, _ in wanted):
                return unfit
            if all(node.labels[key] in tally.domains(key, cache.nodes) for key, tally in wanted):
                return None
            first = selfish and not any(tally.total for _, tally in wanted)
            return None if first else unfit

        return [Check(self.name, test, Reach.CLUSTER)]

    def score(self, pod: PodInfo, cache: Cache) -> list[Grade]:
        """What the preferred terms say for a node less what they say against it."""
        affinity = pod.shape.spec.affinity
        if affinity is None:
            return []
        weighted = _preferred(pod, affinity.pod_affinity, 1, cache)
        weighted += _preferred(pod, affinity.pod_anti_affinity, -1, cache)
        total = sum(abs(weight) for weight, _, _ in weighted)
        if not total:
            return []

        def score(node: NodeInfo) -> int:
            said = sum(
                weight
                for weight, key, tally in weighted
                if node.labels.get(key) in tally.domains(key, cache.nodes)
            )
            return MAX_SCORE * (total + said) // (2 * total)

        return [Grade(self.name, score, 2, Reach.CLUSTER)]


def _preferred(
    pod: PodInfo, affinity: PodAffinity | None, sign: int, cache: Cache
) -> list[tuple[int, str, Tally]]:
    """(weight, topology key, the pods meant) of each preferred term."""
    if affinity is None:
        return []
    found = []
    for item in affinity.preferred_during_scheduling_ignored_during_execution:
        term = pod_term(item.pod_affinity_term, pod.pod.metadata)
        found.append((sign * item.weight, term.topology_key, _tally(term, cache)))
    return found


def _tally(term: PodTerm, cache: Cache) -> Tally:
    """The placed pods that a term means."""
    return cache.selection(term, term.matches)
