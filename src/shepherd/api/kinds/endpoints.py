"""Endpoints, EndpointSlice."""

from shepherd.api.resource import Resource

ENDPOINTS = Resource(
    group="",
    version="v1",
    kind="Endpoints",
    plural="endpoints",
    short_names=("ep",),
    singular="endpoints",
)

ENDPOINT_SLICE = Resource(
    group="discovery.k8s.io",
    version="v1",
    kind="EndpointSlice",
    plural="endpointslices",
)
