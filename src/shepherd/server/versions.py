"""Versions of custom resources: from what is stored to what a request asks for, and back.

Objects are stored in the storage version of the time when they were written. On the way out they
are brought to the asked version: renamed, or converted by the CRD's webhook, pruned and filled in
anew. What was written since the CRD last changed, and is asked for in the storage version, passes
as it is, as bytes. Source: "Versions in CustomResourceDefinitions"; apiextensions-apiserver
pkg/apiserver/conversion.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import lru_cache

from shepherd.api import errors
from shepherd.api.resource import Object, Resource
from shepherd.server.codec import decode, encode
from shepherd.server.hub import Event
from shepherd.store.base import Change, Item

Convert = Callable[[Object, list[Object], str], Awaitable[list[Object]]]
"""From spec.conversion.webhook, objects and the wanted apiVersion to the objects in that version.
Raises ApiError."""


class Versions:
    """Brings objects of custom resources from version to version. Built-in kinds have but one."""

    def __init__(self, convert: Convert) -> None:
        self._convert_by_webhook = convert

    def current(self, resource: Resource, revision: int) -> bool:
        """Whether what was stored at `revision` is sure to be of the resource's version."""
        custom = resource.custom
        return custom is None or (
            revision >= custom.since and custom.storage == resource.api_version
        )

    async def load(self, resource: Resource, item: Item) -> Object:
        """A stored object as `resource` has it."""
        obj = decode(item.value)
        if self.current(resource, item.revision):
            return obj
        return (await self._served(resource, [obj]))[0]

    async def store(self, resource: Resource, obj: Object) -> Object:
        """An object of `resource` in the form in which it is stored."""
        custom = resource.custom
        if custom is None or custom.storage == resource.api_version:
            return obj
        return (await self._converted(resource, [obj], custom.storage))[0]

    async def to(self, resource: Resource, obj: Object) -> Object:
        """An object of another version of a custom resource as `resource` has it."""
        return (await self._served(resource, [obj]))[0]

    async def items(self, resource: Resource, items: list[Item]) -> list[Item]:
        """Stored objects as `resource` has them."""
        stale = [at for at, item in enumerate(items) if not self.current(resource, item.revision)]
        if not stale:
            return items
        items = list(items)
        served = await self._served(resource, [decode(items[at].value) for at in stale])
        for at, obj in zip(stale, served, strict=True):
            items[at] = Item(items[at].key, encode(obj), items[at].revision)
        return items

    async def event(self, resource: Resource, event: Event) -> Event:
        """A change as `resource` has it; streams of one version share it."""
        change = event.change
        values = [value for value in (change.value, change.previous) if value is not None]
        if self.current(resource, change.revision) and all(
            value.startswith(_head(resource)) for value in values
        ):
            return event
        view = event.views.get(resource.api_version)
        if view is None:
            objects = await self._served(resource, [decode(value) for value in values])
            texts = iter([encode(obj) for obj in objects])
            value = None if change.value is None else next(texts)
            previous = None if change.previous is None else next(texts)
            view = Event(Change(change.revision, change.key, value, previous), resource)
            event.views[resource.api_version] = view
        return view

    async def events(self, resource: Resource, events: list[Event]) -> list[Event]:
        """Changes as `resource` has them."""
        if resource.custom is None:
            return events
        return [await self.event(resource, event) for event in events]

    async def _served(self, resource: Resource, objects: list[Object]) -> list[Object]:
        assert resource.custom
        converted = await self._converted(resource, objects, resource.api_version)
        return [resource.custom.normal(obj) for obj in converted]

    async def _converted(
        self, resource: Resource, objects: list[Object], version: str
    ) -> list[Object]:
        assert resource.custom
        others = [obj for obj in objects if obj["apiVersion"] != version]
        if not others:
            return objects
        conversion = resource.custom.conversion
        if conversion.get("strategy") != "Webhook":
            return [obj | {"apiVersion": version} for obj in objects]
        # One request converts objects of one version.
        by_version: dict[str, list[Object]] = defaultdict(list)
        for obj in others:
            by_version[obj["apiVersion"]].append(obj)
        done: dict[int, Object] = {}
        for group in by_version.values():
            answers = await self._convert_by_webhook(conversion["webhook"], group, version)
            for obj, answer in zip(group, answers, strict=True):
                done[id(obj)] = _kept(obj, answer, version)
        return [done.get(id(obj), obj) for obj in objects]


@lru_cache(maxsize=256)
def _head(resource: Resource) -> bytes:
    """How the stored objects of a version begin."""
    return encode({"kind": resource.kind, "apiVersion": resource.api_version})[:-1]


def _kept(obj: Object, converted: Object, version: str) -> Object:
    """What a webhook made of an object; of the metadata it changes labels and annotations only."""
    if converted.get("apiVersion") != version or converted.get("kind") != obj["kind"]:
        raise errors.internal(
            f"conversion webhook for {obj['apiVersion']}, Kind={obj['kind']} returned an object "
            f"of {converted.get('apiVersion')}, Kind={converted.get('kind')}, not {version}"
        )
    answered = converted.get("metadata") or {}
    if answered.get("name") != obj["metadata"].get("name"):
        raise errors.internal(f"conversion webhook for {obj['apiVersion']} must not change names")
    metadata = {
        key: value for key, value in obj["metadata"].items() if key not in ("labels", "annotations")
    } | {key: answered[key] for key in ("labels", "annotations") if answered.get(key)}
    head = {"kind": obj["kind"], "apiVersion": version, "metadata": metadata}
    return head | {key: value for key, value in converted.items() if key not in head}
