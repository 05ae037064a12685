"""The ConfigMaps and Secrets that pods of this node refer to, and no others.

Each is watched by itself for as long as a pod here uses it (as kubernetes pkg/kubelet/util/manager
does), so volumes follow changes without polling and a node reads only what its pods may.
"""

import asyncio
from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import msgspec

from shepherd.agent.references import Lookup, Values
from shepherd.api.kinds import CONFIG_MAP, SECRET
from shepherd.api.objects.meta import ObjectMeta, View
from shepherd.api.references import Reference
from shepherd.client.base import Client
from shepherd.client.informer import Informer
from shepherd.lib.clock import Clock

RESOURCES = {resource.kind: resource for resource in (CONFIG_MAP, SECRET)}


class _Data(View):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    type: str = ""
    data: dict[str, str] = msgspec.field(default_factory=dict)
    binary_data: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(slots=True)
class _Watched:
    informer: Informer[_Data]
    task: asyncio.Task[None]
    users: set[str] = field(default_factory=set)


class Sources:
    """Holds what pods refer to. `changed(uid)` is called when something that a pod uses changed."""

    def __init__(
        self, client: Client, *, clock: Clock, random: Random, changed: Callable[[str], None]
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._changed = changed
        self._watched: dict[Reference, _Watched] = {}
        self._group = asyncio.TaskGroup()

    async def run(self) -> None:
        async with self._group:
            await asyncio.Event().wait()

    async def lookup(self, uid: str, references: Iterable[Reference]) -> Lookup:
        """The objects, as soon as the server has told of them; `uid` uses them from now on."""
        wanted = sorted(set(references))
        for reference in wanted:
            self._watch(reference).users.add(uid)
        return {reference: await self._read(reference) for reference in wanted}

    def release(self, uid: str) -> None:
        """The pod has ended: forget what only it used."""
        for reference, watched in list(self._watched.items()):
            watched.users.discard(uid)
            if not watched.users:
                watched.task.cancel()
                del self._watched[reference]

    def _watch(self, reference: Reference) -> _Watched:
        watched = self._watched.get(reference)
        if watched is None:
            informer = Informer(
                self._client,
                RESOURCES[reference.kind],
                _Data,
                clock=self._clock,
                namespace=reference.namespace,
                field_selector=f"metadata.name={reference.name}",
                random=self._random,
            )
            informer.on_change(lambda old, new: self._tell(reference))
            task = self._group.create_task(informer.run())
            watched = self._watched[reference] = _Watched(informer, task)
        return watched

    def _tell(self, reference: Reference) -> None:
        if watched := self._watched.get(reference):
            for uid in watched.users:
                self._changed(uid)

    async def _read(self, reference: Reference) -> Values | None:
        informer = self._watched[reference].informer
        await informer.synced()
        found = informer.get(f"{reference.namespace}/{reference.name}")
        if found is None:
            return None
        if reference.kind == SECRET.kind:
            return {key: b64decode(value) for key, value in found.data.items()}
        texts = {key: value.encode() for key, value in found.data.items()}
        return texts | {key: b64decode(value) for key, value in found.binary_data.items()}
