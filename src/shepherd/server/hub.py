"""The hub: one reader of the store's changes, which hands each to the streams that want it.

Thousands of agents each watch the pods of their own node. So streams are filed under the narrowest
thing they ask for (kind, namespace, key, and one field's exact value); a change costs a few
look-ups and the streams it concerns, not a question to every stream. The shape is that of the
indexed watchers in apiserver's storage/cacher.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator

from shepherd.api.resource import Resource
from shepherd.lib.tasks import cancel_and_wait
from shepherd.server.selection import Facts, Selection
from shepherd.server.served import Served
from shepherd.store.base import Change, ExpiredError, Span, Store

log = logging.getLogger("shepherd.server")

PENDING_LIMIT = 10_000
"""Events that wait for a slow reader before it is cut off."""
_EVERYTHING = Span("", chr(0x10FFFF))
_TURN = 200
"""Changes that are handed out before the streams get to write them."""

Home = tuple[str, str, str]
"""Where a stream is filed: a prefix of keys (or one key), and a field with its value, or "", ""."""


class Event:
    """A change on its way to streams, with what they all share of it."""

    __slots__ = ("after", "before", "change", "lines", "views")

    def __init__(self, change: Change, resource: Resource) -> None:
        self.change = change
        value, previous = change.value, change.previous
        self.after = None if value is None else Facts(resource, change.key, value)
        self.before = None if previous is None else Facts(resource, change.key, previous)
        self.lines: dict[tuple[str, str], bytes] = {}
        """By type and form: each is encoded once."""
        self.views: dict[str, Event] = {}
        """By apiVersion, the same change in other versions of a custom resource."""


class Stream:
    """What one watch has yet to read."""

    def __init__(self, selection: Selection, since: int) -> None:
        self.selection = selection
        self.home = _home(selection)
        self.revision = since
        """Everything up to here has been read or did not concern it."""
        self._pending: list[Event] = []
        self._ready = asyncio.Event()
        self._error: ExpiredError | None = None
        self.ended = False
        """The store has closed, or what it watches is gone."""

    def push(self, event: Event) -> None:
        if event.change.revision <= self.revision or self._error:
            return
        if len(self._pending) >= PENDING_LIMIT:
            self.fail(ExpiredError("the watch was too slow: too many events wait for it"))
        else:
            self._pending.append(event)
            self._ready.set()

    def fail(self, error: ExpiredError) -> None:
        """Cut the stream off."""
        self._pending, self._error = [], error
        self._ready.set()

    def end(self) -> None:
        self.ended = True
        self._ready.set()

    def wake(self) -> None:
        """Let `next` return, maybe with nothing."""
        self._ready.set()

    async def next(self) -> list[Event]:
        """The events since the last call. Raises ExpiredError once the stream is cut off."""
        await self._ready.wait()
        self._ready.clear()
        if self._error:
            raise self._error
        events, self._pending = self._pending, []
        return events


class Hub:
    """Hands changes to streams. It reads the store only while there are streams."""

    def __init__(self, store: Store, served: Served) -> None:
        self._store = store
        self._served = served
        self._streams: dict[Home, set[Stream]] = {}
        self._fields: dict[str, dict[str, int]] = {}
        """By key prefix, the fields under which streams are filed, and how many."""
        self._history: deque[Change] = deque()
        """What the store still holds too, for streams that start in the past."""
        self._ending: dict[str, tuple[int, Resource]] = {}
        """By storage name, the resources whose streams end once a revision is handed out."""
        self._pump: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self.revision = 0
        """Every change up to here has been handed out."""

    async def open(self, selection: Selection, since: int) -> Stream:
        """A stream of the changes behind `since`; `close` it. Raises ExpiredError."""
        try:
            while self._pump is None or self.revision < since:
                await self._advance()
            if since < self._store.oldest:
                oldest = self._store.oldest
                raise ExpiredError(f"too old resource version: {since} ({oldest})")
        except BaseException:
            await self._rest()
            raise
        stream = Stream(selection, since)
        missed = []
        for change in reversed(self._history):
            if change.revision <= since:
                break
            if change.key in selection.span:
                missed.append(change)
        for change in reversed(missed):
            stream.push(Event(change, selection.resource))
        self._file(stream)
        if not self._served.serves(selection.resource):
            stream.end()
        return stream

    async def close(self, stream: Stream) -> None:
        """No more changes for this stream; the last one stops the reading."""
        streams = self._streams.get(stream.home)
        if streams is None or stream not in streams:
            return
        streams.remove(stream)
        prefix, field, _ = stream.home
        if field:
            self._fields[prefix][field] -= 1
            if not self._fields[prefix][field]:
                del self._fields[prefix][field]
        if not streams:
            del self._streams[stream.home]
        await self._rest()

    def end(self, resource: Resource) -> None:
        """End the streams of a resource that is served no longer, or otherwise from now on.

        First they get what has happened until now.
        """
        if self._pump:
            self._ending[resource.storage] = (self._store.revision, resource)
            self._end_due()

    def _end_due(self) -> None:
        for storage, (revision, _) in list(self._ending.items()):
            if self.revision >= revision:
                del self._ending[storage]
                for home, streams in self._streams.items():
                    if home[0].startswith(f"{storage}/"):
                        for stream in streams:
                            stream.end()

    async def _rest(self) -> None:
        """Stop reading if nobody listens."""
        if not self._streams and self._pump:
            self._ending.clear()
            pump, self._pump = self._pump, None
            await cancel_and_wait(pump)

    def _file(self, stream: Stream) -> None:
        self._streams.setdefault(stream.home, set()).add(stream)
        prefix, field, _ = stream.home
        if field:
            fields = self._fields.setdefault(prefix, {})
            fields[field] = fields.get(field, 0) + 1

    @property
    def _reading(self) -> bool:
        return self._pump is not None

    async def _advance(self) -> None:
        """Start reading if need be, and wait until all that is visible now has been read."""
        if self._pump is None:
            self.revision = self._store.oldest
            self._history.clear()
            self._pump = asyncio.create_task(self._read(self.revision))
        wanted = self._store.revision
        while self._reading and self.revision < wanted:
            self._moved.clear()
            await self._moved.wait()

    async def _read(self, since: int) -> None:
        try:
            async for changes in self._store.watch(_EVERYTHING, since=since):
                for count, change in enumerate(changes, 1):
                    self._history.append(change)
                    self._hand_out(change)
                    if not count % _TURN:
                        await asyncio.sleep(0)
                self.revision = changes[-1].revision
                self._end_due()
                while self._history and self._history[0].revision <= self._store.oldest:
                    self._history.popleft()
                self._moved.set()
            for stream in self._all():
                stream.end()
        except ExpiredError as error:
            for stream in self._all():
                stream.fail(error)
        except Exception:
            # Clients whose streams end come back, and then the reading starts anew.
            log.exception("reading the store's changes failed")
            for stream in self._all():
                stream.end()
        self._pump = None
        self._moved.set()

    def _all(self) -> Iterator[Stream]:
        for streams in self._streams.values():
            yield from streams

    def _hand_out(self, change: Change) -> None:
        storage = change.key.partition("/")[0]
        resource = self._served.stored(storage)
        if resource is None and storage in self._ending:
            resource = self._ending[storage][1]
        if resource is None:
            return
        event = Event(change, resource)
        for prefix in _prefixes(change.key):
            for stream in self._streams.get((prefix, "", ""), ()):
                stream.push(event)
            for field in self._fields.get(prefix, ()):
                states = (event.after, event.before)
                for value in {facts.fields.get(field, "") for facts in states if facts}:
                    for stream in self._streams.get((prefix, field, value), ()):
                        stream.push(event)


def _prefixes(key: str) -> tuple[str, str, str]:
    """Under which key prefixes a change's streams are filed: its kind, its namespace, itself."""
    kind = key.index("/") + 1
    return key[:kind], key[: key.index("/", kind) + 1], key


def _home(selection: Selection) -> Home:
    if selection.resource.converted_by_webhook:  # what is stored may have other fields
        return selection.span.start, "", ""
    for term in selection.fields.terms:
        if term.equal and not term.field.startswith("metadata."):
            return selection.span.start, term.field, term.value
    return selection.span.start, "", ""
