"""Namespace."""

from shepherd.api.resource import Resource

NAMESPACE = Resource(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    namespaced=False,
    short_names=("ns",),
    status=True,
    name_rule="dns1123label",
)
