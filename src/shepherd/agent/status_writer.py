"""Writes pod statuses to the API: the newest of each pod, in order, until it is through."""

import asyncio
import logging
from dataclasses import dataclass, field
from random import Random

from shepherd.agent.pod_state import BoundPod
from shepherd.agent.pod_status import patch
from shepherd.api.errors import ApiError
from shepherd.api.kinds import POD
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock

_log = logging.getLogger("shepherd.agent.status")

_BACKOFF = Backoff(initial=0.2, cap=10.0, jitter=0.5)
_LEISURE_SECONDS = 0.15
"""How long a status that says only that work has begun may wait for news that replaces it."""


@dataclass(slots=True)
class _Line:
    """What one pod has to say."""

    pod: BoundPod
    written: Object
    """What the API holds, as far as is known."""
    version: int
    """The resourceVersion that `written` is from."""
    wanted: Object
    dropped: bool = False
    """The API object is gone: there is nobody to tell."""
    urgent: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)


class StatusWriter:
    """One line of writes per pod: coalesced, retried while the server is away, never older over
    newer. Fields of others are left alone."""

    def __init__(self, client: Client, *, clock: Clock, random: Random) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._lines: dict[str, _Line] = {}

    async def serve(self, pod: BoundPod) -> None:
        """Write what `push` gives for the pod, until cancelled or the pod is gone."""
        line = _Line(pod, pod.status, _version(pod.metadata.resource_version), pod.status)
        line.idle.set()
        self._lines[pod.metadata.uid] = line
        try:
            while True:
                await line.news.wait()
                if not line.urgent.is_set():
                    await self._leisure(line)
                line.news.clear()
                line.urgent.clear()
                if not await self._write(line):
                    return
                if not line.news.is_set():
                    line.idle.set()
        finally:
            line.idle.set()
            del self._lines[pod.metadata.uid]

    def push(self, uid: str, status: Object, *, urgent: bool) -> None:
        """Say `status` of the pod; what is not urgent may wait a moment for more."""
        line = self._lines.get(uid)
        if line is None or status == line.wanted:
            return
        line.wanted = status
        line.idle.clear()
        line.news.set()
        if urgent:
            line.urgent.set()

    def observe(self, pod: BoundPod) -> None:
        """Somebody may have written over what is the agent's (the node controller does, while the
        node is out of reach): say it again."""
        line = self._lines.get(pod.metadata.uid)
        version = _version(pod.metadata.resource_version)
        if line is None or version <= line.version:
            return
        line.written, line.version = pod.status, version
        if line.idle.is_set() and patch(line.written, line.wanted):
            line.idle.clear()
            line.news.set()

    def drop(self, uid: str) -> None:
        """The pod is gone from the API."""
        if line := self._lines.get(uid):
            line.dropped = True
            line.idle.set()

    async def flush(self, uid: str) -> None:
        """Return once the last status is through, or there is nobody to tell any more."""
        if line := self._lines.get(uid):
            line.urgent.set()
            await line.idle.wait()

    async def _leisure(self, line: _Line) -> None:
        timer = asyncio.ensure_future(self._clock.sleep(_LEISURE_SECONDS))
        urgent = asyncio.ensure_future(line.urgent.wait())
        try:
            await asyncio.wait((timer, urgent), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (timer, urgent):
                task.cancel()

    async def _write(self, line: _Line) -> bool:
        """Write until the newest is through; whether the pod is still there."""
        failures = 0
        while not line.dropped and (changes := patch(line.written, line.wanted)):
            meta = line.pod.metadata
            body = {"metadata": {"uid": meta.uid}, "status": changes}
            try:
                answer = await self._client.patch(
                    POD, meta.name, meta.namespace, body, type="strategic", sub="status"
                )
            except ConnectionError:
                failures += 1
            except ApiError as error:
                if error.code == 404:
                    return False
                failures += 1
                if error.code not in (409, 429, 503):
                    _log.warning("status of pod %s: %s", meta.key, error)
            else:
                failures = 0
                _take(line, answer, changes)
                continue
            await self._clock.sleep(_BACKOFF.delay(failures, self._random))
        return not line.dropped


def _take(line: _Line, answer: Object, changes: Object) -> None:
    """What the API holds after `changes`: somebody else may have written just before or since.
    What it keeps in another form than it was said in, is taken as said."""
    version = _version(answer["metadata"]["resourceVersion"])
    if version <= line.version:
        return  # News of a later write was faster.
    line.written, line.version = answer.get("status") or {}, version
    if patch(line.written, line.wanted) == changes:
        line.written = line.wanted


def _version(text: str) -> int:
    """Our server's resourceVersions are one sequence of integers."""
    return int(text or 0)
