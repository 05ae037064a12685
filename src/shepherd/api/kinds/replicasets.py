"""ReplicaSet."""

from shepherd.api.resource import Resource

REPLICA_SET = Resource(
    group="apps",
    version="v1",
    kind="ReplicaSet",
    plural="replicasets",
    short_names=("rs",),
    categories=("all",),
    status=True,
    scale=True,
    generation=True,
)
