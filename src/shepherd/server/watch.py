"""Watch streams: what happens to the selected objects, as lines of JSON.

An event is encoded once for all streams of its form. A slow reader holds up nobody: the hub cuts it
off and it gets 410. Source: "Kubernetes API Concepts", "Efficient detection of changes"; KEP-3157
(watch list).
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from random import Random

import msgspec

from shepherd.api import errors
from shepherd.server import reads
from shepherd.server.forms import Form
from shepherd.server.hub import Event, Hub, Stream
from shepherd.server.routes import TRUE
from shepherd.server.selection import Selection
from shepherd.server.versions import Versions
from shepherd.store.base import ExpiredError, Item, Store

BOOKMARK_SECONDS = 60.0
"""A stream that asked for bookmarks gets one at least so often."""
_BEFORE_END_SECONDS = 2.0
"""How long before its end it gets the last one (as apiserver's watch cache)."""
_MIN_TIMEOUT_SECONDS = 1800
"""A stream without timeoutSeconds lives once to twice so long (as apiserver)."""
_TURN = 500


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What the query of a watch asks for."""

    since: int | None
    """Revision to start behind; None = begin with what there is."""
    bookmarks: bool
    initial_end: bool
    """Mark the end of what there was with a bookmark (sendInitialEvents)."""
    timeout_seconds: float
    not_older_than: int = 0

    @classmethod
    def read(cls, query: dict[str, str], random: Random) -> "WatchOptions":
        """Raises ApiError 400, 422."""
        revision = reads.revision_of(query.get("resourceVersion", ""))
        match = query.get("resourceVersionMatch", "")
        initial = query.get("sendInitialEvents")
        if initial is None and match:
            detail = (
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            raise _invalid(errors.forbidden_field("resourceVersionMatch", detail))
        if initial is not None and match != "NotOlderThan":
            detail = (
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                if not match
                else f'resourceVersionMatch: Unsupported value: "{match}": '
                'supported values: "NotOlderThan"'
            )
            raise _invalid(errors.forbidden_field("resourceVersionMatch", detail))
        from_state = initial in TRUE or (initial is None and not revision)
        timeout = _seconds(query.get("timeoutSeconds", ""))
        return cls(
            None if from_state else revision,
            query.get("allowWatchBookmarks") in TRUE,
            initial in TRUE,
            timeout or _MIN_TIMEOUT_SECONDS * (1 + random.random()),
            revision,
        )


def _seconds(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise errors.bad_request(f'timeoutSeconds: Invalid value: "{text}": must be an integer')
    return int(text)


def _invalid(error: errors.FieldError) -> errors.ApiError:
    return errors.invalid("meta.k8s.io", "ListOptions", "", [error])


class Watch:
    """One stream. `begin` fails as a plain answer can; `lines` is the body that follows."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        versions: Versions,
        selection: Selection,
        form: Form,
        options: WatchOptions,
    ) -> None:
        self._store = store
        self._hub = hub
        self._versions = versions
        self._selection = selection
        self._form = form
        self._options = options
        self._opened = False
        self._initial: reads.Listing | None = None
        self._since = options.since or 0

    async def begin(self) -> None:
        """Find where to start. Raises ApiError: 410 when that is compacted, 504 when to come."""
        await reads.wait_for(self._store, self._options.not_older_than)
        if self._options.since is None:
            self._initial = await reads.list_objects(
                self._store, self._selection, {}, self._versions
            )
            self._since = self._initial.revision
        elif not self._since:
            self._since = self._store.revision
        elif self._since < self._store.oldest:
            raise errors.expired(_too_old(self._since, self._store.oldest))

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Chunks of whole lines, until the time is up."""
        for items in self._initial_turns():
            yield b"".join(self._line("ADDED", item.value, item.revision) for item in items)
        if self._options.initial_end:
            yield self._form.bookmark(self._since, initial_end=True)
        try:
            stream = await self._hub.open(self._selection, self._since)
        except ExpiredError as error:
            yield _error(str(error))
            return
        timers = _Timers(stream, self._options)
        try:
            while not timers.ended and not stream.ended:
                events = await self._versions.events(self._selection.resource, await stream.next())
                # Only now is it sure that nothing up to there is still to come.
                passed = max(self._since, self._hub.revision)
                if chunk := self._translate(events):
                    yield chunk
                if timers.take_bookmark():
                    yield self._form.bookmark(passed, initial_end=False)
        except ExpiredError as error:
            yield _error(str(error))
        finally:
            timers.cancel()
            await self._hub.close(stream)

    def _initial_turns(self) -> Iterator[list[Item]]:
        """What there was, in parts that are short enough for one turn of the event loop."""
        items = self._initial.items if self._initial else []
        self._initial = None
        for start in range(0, len(items), _TURN):
            yield items[start : start + _TURN]

    def _translate(self, events: list[Event]) -> bytes:
        lines = []
        for event in events:
            meaning = self._meaning(event)
            if not meaning:
                continue
            line = event.lines.get((meaning, self._form.key)) if self._opened else None
            if line is None:
                change = event.change
                value = change.previous if meaning == "DELETED" else change.value
                assert value is not None
                shared = self._opened
                line = self._line(meaning, value, change.revision)
                if shared:
                    event.lines[meaning, self._form.key] = line
            lines.append(line)
        return b"".join(lines)

    def _line(self, type: str, value: bytes, revision: int) -> bytes:
        if self._opened:
            return self._form.event(type, value, revision)
        self._opened = True
        return self._form.opening(type, value, revision)

    def _meaning(self, event: Event) -> str:
        """What the change means for this selection; "" = nothing."""
        selection = self._selection
        after, before = event.after, event.before
        if selection.everything:
            return "DELETED" if after is None else "ADDED" if before is None else "MODIFIED"
        now = after is not None and selection.matches(after)
        was = before is not None and selection.matches(before)
        if now:
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else ""


class _Timers:
    """Wakes a stream when a bookmark is due and when its time is up."""

    def __init__(self, stream: Stream, options: WatchOptions) -> None:
        self._loop = asyncio.get_running_loop()
        self._stream = stream
        self.ended = False
        self._due = False
        self._handles = [self._loop.call_later(options.timeout_seconds, self._end)]
        if options.bookmarks:
            last = max(0.0, options.timeout_seconds - _BEFORE_END_SECONDS)
            self._handles.append(self._loop.call_later(last, self._bookmark))
            self._handles.append(self._loop.call_later(BOOKMARK_SECONDS, self._each_minute))

    def take_bookmark(self) -> bool:
        """Whether a bookmark is due; it counts as sent."""
        due, self._due = self._due, False
        return due

    def cancel(self) -> None:
        for handle in self._handles:
            handle.cancel()

    def _bookmark(self) -> None:
        self._due = True
        self._stream.wake()

    def _each_minute(self) -> None:
        self._bookmark()
        self._handles[-1] = self._loop.call_later(BOOKMARK_SECONDS, self._each_minute)

    def _end(self) -> None:
        self.ended = True
        self._stream.wake()


def _too_old(revision: int, oldest: int) -> str:
    return f"too old resource version: {revision} ({oldest})"


def _error(message: str) -> bytes:
    status = errors.expired(message).status()
    return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"
