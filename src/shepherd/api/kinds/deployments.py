"""Deployment."""

from shepherd.api.resource import Resource

DEPLOYMENT = Resource(
    group="apps",
    version="v1",
    kind="Deployment",
    plural="deployments",
    short_names=("deploy",),
    categories=("all",),
    status=True,
    scale=True,
    generation=True,
)
