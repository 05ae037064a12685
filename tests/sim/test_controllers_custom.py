"""Garbage collection and namespace deletion reach custom resources."""

from functools import partial
from typing import Any

from shepherd.api.errors import ApiError
from shepherd.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from shepherd.api.meta import owner_reference
from shepherd.api.resource import Object, Resource
from shepherd.testing.control_plane import ControlPlane
from shepherd.testing.virtual import eventually, run_virtual

TUBES = Resource("example.com", "v1", "Tube", "tubes")
CRD: Object = {
    "metadata": {"name": "tubes.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "tubes", "kind": "Tube"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


async def missing(plane: ControlPlane, resource: Resource, name: str, namespace: Any) -> bool:
    try:
        await plane.client.get(resource, name, namespace)
    except ApiError as error:
        return error.code == 404
    return False


def test_children_of_custom_resources_go_with_them_and_all_with_their_namespace() -> None:
    async def main() -> None:
        async with ControlPlane.open() as plane:
            client = plane.client
            await client.create(CUSTOM_RESOURCE_DEFINITION, CRD)
            tube = await client.create(TUBES, {"metadata": {"name": "t1"}}, "default")
            child = {"metadata": {"name": "c", "ownerReferences": [owner_reference(tube)]}}
            await client.create(CONFIG_MAP, child, "default")
            part = {"metadata": {"name": "t2", "ownerReferences": [owner_reference(tube)]}}
            await client.create(TUBES, part, "default")
            await client.delete(TUBES, "t1", "default", propagation="Foreground")
            for resource, name in ((CONFIG_MAP, "c"), (TUBES, "t2"), (TUBES, "t1")):
                await eventually(partial(missing, plane, resource, name, "default"))
            await client.create(NAMESPACE, {"metadata": {"name": "shop"}})
            await client.create(TUBES, {"metadata": {"name": "t3"}}, "shop")
            await client.delete(NAMESPACE, "shop")
            await eventually(lambda: missing(plane, NAMESPACE, "shop", None))
            assert await missing(plane, TUBES, "t3", "shop")

    run_virtual(main())
