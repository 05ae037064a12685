"""NodeMetrics and PodMetrics: what nodes and pods use now. They are served, and never stored.

Source: kubernetes/metrics pkg/apis/metrics/v1beta1; the columns are those of metrics-server.
"""

from collections.abc import Callable, Iterable

from shepherd.api.quantity import Quantity, quantity
from shepherd.api.resource import Column, Object, Resource

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
_READ = ("get", "list")


def _usage(name: str, uses: Callable[[Object], Iterable[Object]]) -> Column:
    def cell(obj: Object, now: float) -> str:
        return str(sum((quantity(use[name]) for use in uses(obj)), Quantity(0)))

    return Column(name, cell, description=f"The {name} that it uses.")


def _columns(uses: Callable[[Object], Iterable[Object]]) -> tuple[Column, ...]:
    window = Column(
        "Window", lambda obj, now: obj["window"], description="How long that was measured."
    )
    return (_usage("cpu", uses), _usage("memory", uses), window)


NODE_METRICS = Resource(
    group=GROUP,
    version=VERSION,
    kind="NodeMetrics",
    plural="nodes",
    namespaced=False,
    verbs=_READ,
    columns=_columns(lambda obj: [obj["usage"]]),
)
POD_METRICS = Resource(
    group=GROUP,
    version=VERSION,
    kind="PodMetrics",
    plural="pods",
    verbs=_READ,
    columns=_columns(lambda obj: [container["usage"] for container in obj["containers"]]),
)
METRICS = (NODE_METRICS, POD_METRICS)
