"""`Recorder`: writes Events, folding repeats into one Event with a count.

Source of the shape: client-go tools/record (EventCorrelator and its defaults).
"""

import asyncio
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shepherd.api.errors import ApiError
from shepherd.api.kinds import EVENT
from shepherd.api.meta import format_time
from shepherd.api.objects.meta import ObjectMeta
from shepherd.api.resource import Object, Resource
from shepherd.client.base import Client
from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock

_log = logging.getLogger("shepherd.events")

_QUEUE_LIMIT = 2000
_CACHE_LIMIT = 4096
_BATCH = 64
_TRIES = 12
_BURST = 25
_REFILL_SECONDS = 300.0
_SIMILAR_LIMIT = 10
_SIMILAR_SECONDS = 600.0
_COMBINED = "(combined from similar events): "
_MESSAGE_LIMIT = 1024
_BACKOFF = Backoff(initial=0.5, cap=10.0)

Key = tuple[str, ...]


def reference(resource: Resource, meta: ObjectMeta, *, field_path: str = "") -> Object:
    """What `Recorder.event` takes as `regarding`, from a typed view."""
    about: Object = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
    }
    if field_path:
        about["fieldPath"] = field_path
    return about


@dataclass(slots=True)
class _Entry:
    """An Event that exists, or is about to."""

    namespace: str
    name: str
    first: float
    count: int = 0
    stored: bool = False


@dataclass(slots=True)
class _Tokens:
    """What one object may still say."""

    at: float
    left: float = _BURST


@dataclass(slots=True)
class _Similar:
    """Messages of one reason about one object within the last minutes."""

    at: float
    messages: set[str] = field(default_factory=set)


V = TypeVar("V")


class _Recent(OrderedDict[Key, V], Generic[V]):
    """The entries used last, at most `_CACHE_LIMIT`."""

    def touch(self, key: Key, value: V) -> V:
        value = self.setdefault(key, value)
        self.move_to_end(key)
        if len(self) > _CACHE_LIMIT:
            self.popitem(last=False)
        return value


class Recorder:
    """Records what happened to objects. Never blocks and never fails its caller.

    Events wait in a bounded queue that `run` drains; when it is full the oldest is dropped and a
    counter says how many. A repeat (same object, reason and message) patches the count and the
    last time of the Event that is there; many messages of one reason are combined into one Event;
    a flood about one object is limited (client-go: a burst of 25, then one in five minutes).
    """

    def __init__(self, client: Client, component: str, *, clock: Clock, host: str = "") -> None:
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._queue: deque[Object] = deque()
        self._filled = asyncio.Event()
        self._entries: _Recent[_Entry] = _Recent()
        self._tokens: _Recent[_Tokens] = _Recent()
        self._similar: _Recent[_Similar] = _Recent()
        self._last_nanos = 0
        self.dropped = 0
        """Events that were lost to a full queue, a flood or a server that refused them."""

    def event(self, regarding: Object, type: str, reason: str, message: str) -> None:
        """`regarding`: {apiVersion, kind, metadata: {name, namespace, uid, resourceVersion}}, and
        `fieldPath` for a part of it; `type` is Normal or Warning."""
        now = self._clock.now()
        about = _involved(regarding)
        if not self._allowed(_identity(about), now):
            self.dropped += 1
            return
        if len(self._queue) >= _QUEUE_LIMIT:
            self._queue.popleft()
            self.dropped += 1
        text = message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 3] + "..."
        self._queue.append(
            {
                "involvedObject": about,
                "type": type,
                "reason": reason,
                "message": text,
                "lastTimestamp": now,
            }
        )
        self._filled.set()

    async def run(self) -> None:
        while True:
            await self._filled.wait()
            batch: dict[Key, Object] = {}
            while self._queue and len(batch) < _BATCH:
                event = self._queue.popleft()
                batch[self._fold(event)] = event
            if not self._queue:
                self._filled.clear()
            async with asyncio.TaskGroup() as group:
                for key, event in batch.items():
                    group.create_task(self._write(self._entries[key], event))

    def _allowed(self, about: Key, now: float) -> bool:
        tokens = self._tokens.touch(about, _Tokens(now))
        tokens.left = min(_BURST, tokens.left + (now - tokens.at) / _REFILL_SECONDS)
        tokens.at = now
        if tokens.left < 1:
            return False
        tokens.left -= 1
        return True

    def _fold(self, event: Object) -> Key:
        """Count the event under its entry; the entry's key."""
        about, now = event["involvedObject"], event["lastTimestamp"]
        kind = (*_identity(about), event["type"], event["reason"])
        similar = self._similar.touch(kind, _Similar(now))
        if now - similar.at > _SIMILAR_SECONDS:
            similar.messages.clear()
        similar.at = now
        similar.messages.add(event["message"])
        combined = len(similar.messages) > _SIMILAR_LIMIT
        if combined:
            similar.messages.pop()
            event["message"] = _COMBINED + event["message"]
        key = kind if combined else (*kind, event["message"])
        fresh = _Entry(about.get("namespace") or "default", self._name(about["name"], now), now)
        self._entries.touch(key, fresh).count += 1
        return key

    def _name(self, name: str, now: float) -> str:
        self._last_nanos = max(self._last_nanos + 1, int(now * 1e9))
        return f"{name}.{self._last_nanos:x}"

    async def _write(self, entry: _Entry, event: Object) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                await self._send(entry, event)
                return
            except ConnectionError:
                pass
            except ApiError as error:
                if error.reason == "AlreadyExists":  # An earlier try got through after all.
                    entry.stored = True
                    return
                if error.code not in (429, 503):
                    _log.debug("event %s refused: %s", entry.name, error)
                    break
            await self._clock.sleep(_BACKOFF.delay(attempt))
        self.dropped += 1

    async def _send(self, entry: _Entry, event: Object) -> None:
        if entry.stored:
            patch = {
                "count": entry.count,
                "message": event["message"],
                "lastTimestamp": format_time(event["lastTimestamp"]),
            }
            try:
                await self._client.patch(EVENT, entry.name, entry.namespace, patch)
                return
            except ApiError as error:
                if error.code != 404:
                    raise
        await self._client.create(EVENT, self._body(entry, event))
        entry.stored = True

    def _body(self, entry: _Entry, event: Object) -> Object:
        source = {"component": self._component}
        if self._host:
            source["host"] = self._host
        return {
            "kind": EVENT.kind,
            "apiVersion": EVENT.api_version,
            "metadata": {"name": entry.name, "namespace": entry.namespace},
            **event,
            "firstTimestamp": format_time(entry.first),
            "lastTimestamp": format_time(event["lastTimestamp"]),
            "count": entry.count,
            "source": source,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }


def _involved(regarding: Object) -> dict[str, str]:
    """core/v1 ObjectReference."""
    meta = regarding["metadata"]
    about = {
        "kind": regarding["kind"],
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "apiVersion": regarding["apiVersion"],
        "resourceVersion": meta.get("resourceVersion", ""),
        "fieldPath": regarding.get("fieldPath", ""),
    }
    return {key: value for key, value in about.items() if value}


def _identity(about: dict[str, str]) -> Key:
    return tuple(value for key, value in about.items() if key != "resourceVersion")
