"""For tests, ours and everybody's: an embedded cluster, virtual time, faults, conformance suites.

from shepherd.testing import Cluster

with Cluster(nodes=3) as cluster: ...
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shepherd.testing.cluster import AsyncCluster as AsyncCluster
    from shepherd.testing.cluster import Cluster as Cluster
    from shepherd.testing.settings import Settings as Settings
    from shepherd.testing.wire import Faults as Faults

_HOMES = {
    "AsyncCluster": "cluster",
    "Cluster": "cluster",
    "Faults": "wire",
    "Settings": "settings",
}


def __getattr__(name: str) -> Any:
    # Loaded when first asked for: pytest imports this package in every run of every project in
    # whose environment it is installed.
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
