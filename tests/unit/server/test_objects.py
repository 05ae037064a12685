"""Create, read, change and delete objects, as any client does."""

from typing import Any

import pytest

from shepherd.api.kinds import CUSTOM_RESOURCE_DEFINITION, RESOURCES
from shepherd.api.resource import Object, Resource

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
POD_SPEC = {"containers": [{"name": "a", "image": "b"}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC}
WORKLOAD = {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
SAMPLES: dict[str, Object] = {
    "Pod": {"spec": POD_SPEC},
    "Service": {"spec": {"ports": [{"port": 80}]}},
    "Deployment": {"spec": WORKLOAD},
    "ReplicaSet": {"spec": WORKLOAD},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": []},
    "Event": {
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Started",
        "type": "Normal",
    },
}

ORDINARY = [resource for resource in RESOURCES if resource is not CUSTOM_RESOURCE_DEFINITION]
"""Kinds whose objects may have any name, and go when they are deleted."""


def sample(resource: Resource, name: str = "sample", **metadata: Any) -> Object:
    return {"metadata": {"name": name} | metadata} | SAMPLES.get(resource.kind, {})


@pytest.mark.parametrize("resource", ORDINARY, ids=lambda resource: resource.kind)
async def test_every_kind_can_be_created_read_changed_watched_and_deleted(
    api: Any, resource: Resource
) -> None:
    namespace = "default" if resource.namespaced else None
    collection = resource.path(namespace)
    one = resource.path(namespace, "sample")
    created = await api.ok("POST", collection, sample(resource))
    assert created["kind"] == resource.kind
    assert created["apiVersion"] == resource.api_version
    assert created["metadata"]["uid"]
    assert created["metadata"]["creationTimestamp"]
    assert await api.ok("GET", one) == created
    listed = await api.ok("GET", collection)
    assert listed["kind"] == f"{resource.kind}List"
    assert created in listed["items"]

    events = await api.watch(f"{collection}?watch=1&resourceVersion=0")
    while (await events.next())["object"] != created:
        pass
    patch = {"metadata": {"labels": {"a": "b"}}}
    patched = await api.ok("PATCH", one, patch, content_type="application/merge-patch+json")
    assert patched["metadata"]["labels"]["a"] == "b"
    assert await events.next() == {"type": "MODIFIED", "object": patched}

    await api.ok("DELETE", one)
    if resource.kind != "Namespace":
        await api.fails(404, "GET", one)
        assert (await events.next())["type"] == "DELETED"
