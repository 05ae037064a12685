"""The states that one object goes through, as they come."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from shepherd.api.errors import ApiError
from shepherd.api.resource import Object, Resource
from shepherd.client.base import Client

_WATCH_SECONDS = 300


async def states(
    client: Client, resource: Resource, name: str, namespace: str | None
) -> AsyncGenerator[Object | None, None]:
    """The object as it is now and after each change; None while there is none. Without end."""
    selector = f"metadata.name={name}"
    while True:
        found = await client.list(resource, namespace, field_selector=selector)
        yield found.items[0] if found.items else None
        events = client.watch(
            resource,
            namespace,
            field_selector=selector,
            resource_version=found.resource_version,
            timeout_seconds=_WATCH_SECONDS,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    if event.type != "BOOKMARK":
                        yield None if event.type == "DELETED" else event.object
        except ApiError as error:
            if error.code != 410:
                raise
