"""`Informer`: a local, typed, always fresh copy of a kind, kept by a watch.

Source of the shape: client-go tools/cache (Reflector, SharedInformer), in its WatchList form: the
watch itself begins with all that exists (KEP-3157), so there is one path for first and later news.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import aclosing
from random import Random
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import field

from shepherd.api.errors import ApiError
from shepherd.api.objects.meta import ObjectMeta, View, decode
from shepherd.api.resource import Object, Resource
from shepherd.client.base import Client, RawEvent
from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock

_log = logging.getLogger("shepherd.informer")

_BACKOFF = Backoff(initial=0.1, cap=10.0, jitter=0.5)
_WATCH_SECONDS = 300
"""A watch is renewed after this to twice this, so that streams spread over servers and time."""
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_BUSY = (429, 503)
_YIELD_EVERY = 200
"""Events after which other tasks get their turn, in microseconds' work each."""


class Identified(Protocol):
    """What an informer must know of an object."""

    @property
    def metadata(self) -> ObjectMeta: ...


class PartialObject(View):
    """Any object, for those who look at its metadata only."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


T = TypeVar("T", bound=Identified)
Handler = Callable[[T | None, T | None], None]
"""Called with (old, new): (None, new) added, (old, new) changed, (old, None) gone. Must be quick
and must not raise. An object that was replaced by a namesake is first gone, then added."""


class Informer(Generic[T]):
    """Keeps every object of `resource` (that the selectors choose) as a `T`.

    `run` watches for ever; it never raises for a server that is away or a watch that expired, but
    backs off with jitter and goes on from where it was, or from a new list where the server has
    forgotten that. Handlers see each object's changes in order, and after a re-list the
    differences only. What the cache holds is limited by what the server does.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        as_type: type[T],
        *,
        clock: Clock,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        random: Random | None = None,
    ) -> None:
        self.resource = resource
        self._client = client
        self._type = as_type
        self._decoder = msgspec.json.Decoder(as_type)
        self._clock = clock
        self._random = random
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._objects: dict[str, T] = {}
        self._indices: dict[str, _Index[T]] = {}
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()
        self._gone: set[str] = set()
        """UIDs that we know to be removed while the watch has yet to tell of it."""
        self._seen = 0
        """The revision up to which the watch has told everything."""
        self._resume = ""
        """The resourceVersion to watch from; empty: from a new list."""
        self._listed: set[str] | None = None
        """While a list comes in: the keys it held so far."""

    def on_change(self, handler: Handler[T]) -> None:
        """Add a handler; it is told of everything already known as added."""
        for obj in list(self._objects.values()):
            handler(None, obj)
        self._handlers.append(handler)

    def index(self, name: str, key: Callable[[T], list[str]]) -> None:
        """Keep an index; declare it before `run`."""
        self._indices[name] = _Index(key)

    async def run(self) -> None:
        failures = 0
        while True:
            before = self._seen
            cause: Exception | None = None
            try:
                await self._follow()
            except ApiError as error:
                cause = error
                if error.code not in _BUSY:
                    self._resume = ""
            except (ConnectionError, msgspec.DecodeError) as error:
                cause = error
            if self._seen > before:
                failures = 0
            failures += 1
            if cause and failures == 2:
                _log.warning("watching %s: %s; retrying", self.resource.plural, cause)
            await self._clock.sleep(_BACKOFF.delay(failures, self._random))

    async def synced(self) -> None:
        """Return once the first list is in."""
        await self._synced.wait()

    def observe(self, obj: Object) -> T:
        """Take in an answer of the server to a write of ours, ahead of the watch.

        So the writer reads its own writes: what it decides next cannot be based on a copy that
        lacks them. Of no effect if the watch has told of it already.
        """
        new = decode(obj, self._type)
        if _revision(new) > self._seen:
            self._put(new)
        return new

    def observe_deleted(self, gone: ObjectMeta) -> None:
        """Take in that the server has removed an object at our request, ahead of the watch."""
        old = self._objects.get(gone.key)
        if old is not None and old.metadata.uid == gone.uid:
            self._gone.add(gone.uid)
            self._remove(old)

    def forget(self) -> None:
        """Let all go, and tell the handlers: the kind is served no longer. Call it after `run`."""
        for obj in list(self._objects.values()):
            self._remove(obj)

    def get(self, key: str) -> T | None:
        """By `namespace/name` or `name`."""
        return self._objects.get(key)

    def all(self) -> Iterator[T]:
        return iter(self._objects.values())

    def by_index(self, name: str, value: str) -> list[T]:
        return list(self._indices[name].by_value.get(value, {}).values())

    def __len__(self) -> int:
        return len(self._objects)

    async def _follow(self) -> None:
        """One watch, to its end."""
        self._listed = None if self._resume else set()
        spread = self._random.randrange(_WATCH_SECONDS) if self._random else 0
        events = self._client.watch_raw(
            self.resource,
            self._namespace,
            resource_version=self._resume,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            initial_events=not self._resume,
            timeout_seconds=_WATCH_SECONDS + spread,
        )
        count = 0
        async with aclosing(events):
            async for event in events:
                self._take(event)
                count += 1
                if count % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)

    def _take(self, event: RawEvent) -> None:
        if event.type == "BOOKMARK":
            self._bookmark(msgspec.json.decode(event.object, type=PartialObject))
            return
        try:
            obj = self._decoder.decode(event.object)
        except msgspec.ValidationError as error:
            partial = msgspec.json.decode(event.object, type=PartialObject)
            _log.error("ignoring %s %s: %s", self.resource.kind, partial.metadata.key, error)
            return
        if self._listed is None:
            self._advance(obj.metadata.resource_version)
        else:
            self._listed.add(obj.metadata.key)
        if event.type == "DELETED":
            self._gone.discard(obj.metadata.uid)
            self._remove(obj)
        else:
            self._put(obj)

    def _bookmark(self, mark: PartialObject) -> None:
        if self._listed is not None:
            if _INITIAL_EVENTS_END not in mark.metadata.annotations:
                return
            listed, self._listed = self._listed, None
            until = int(mark.metadata.resource_version)
            for key, obj in list(self._objects.items()):
                # What we wrote after the list was made is not in it.
                if key not in listed and _revision(obj) <= max(until, self._seen):
                    self._remove(obj)
            self._gone.clear()
        self._advance(mark.metadata.resource_version)
        self._synced.set()

    def _advance(self, version: str) -> None:
        self._resume = version
        self._seen = int(version)

    def _put(self, new: T) -> None:
        if new.metadata.uid in self._gone:
            return
        key = new.metadata.key
        old = self._objects.get(key)
        if old is not None:
            if old.metadata.uid != new.metadata.uid:
                self._remove(old)
                old = None
            elif not self._newer(new, old):
                return
        self._objects[key] = new
        self._changed(old, new)

    def _newer(self, new: T, old: T) -> bool:
        """A list also replaces what the watch told: the server may have lost it (a restore)."""
        known, found = _revision(old), _revision(new)
        return found > known or (
            self._listed is not None and known <= self._seen and found != known
        )

    def _remove(self, gone: T) -> None:
        """`gone` is the last state. A namesake that has come since stays."""
        key = gone.metadata.key
        old = self._objects.get(key)
        if old is None or (
            old.metadata.uid != gone.metadata.uid and _revision(old) > _revision(gone)
        ):
            return
        del self._objects[key]
        self._changed(old, None)

    def _changed(self, old: T | None, new: T | None) -> None:
        for index in self._indices.values():
            index.change(old, new)
        for handler in self._handlers:
            handler(old, new)


class _Index(Generic[T]):
    """Objects by the values that `key` gives for them."""

    def __init__(self, key: Callable[[T], list[str]]) -> None:
        self._key = key
        self.by_value: dict[str, dict[str, T]] = {}

    def change(self, old: T | None, new: T | None) -> None:
        if old is not None:
            for value in self._key(old):
                entry = self.by_value[value]
                entry.pop(old.metadata.key, None)
                if not entry:
                    del self.by_value[value]
        if new is not None:
            for value in self._key(new):
                self.by_value.setdefault(value, {})[new.metadata.key] = new


def _revision(obj: Identified) -> int:
    """resourceVersions of our server are one integer sequence, so they can be compared."""
    return int(obj.metadata.resource_version or 0)
