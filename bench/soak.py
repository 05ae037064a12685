"""Hours of a busy control plane in minutes: does it hold more and more, or stand still?

10,000 objects, leases renewed, events written, watches that come and go, the store on disk; the
clock by which history, events and leases age runs 60 times as fast. The bounds are ratios: what is
held at the end, beside what was held when the first hour was over. (k3s-io/k3s#3660, #10305)
"""

import asyncio
import gc
import os
import random
import time
from contextlib import aclosing
from pathlib import Path

import uvloop

from bench.programs import directory, resident_mb
from bench.report import Row
from shepherd.api.kinds import CONFIG_MAP, EVENT, LEASE
from shepherd.api.meta import format_micro_time, format_time
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.transport import InProcessTransport
from shepherd.lib.http import User
from shepherd.lib.tasks import background
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.sqlite import SqliteStore

SPEED = 60
HOURS = 3
OBJECTS, LEASES, WATCHES, WRITERS = 10_000, 500, 50, 32
EVENTS_PER_HOUR = 20_000
TEXT = "x" * 1000


class FastClock:
    """Time that passes `SPEED` times as fast."""

    def __init__(self) -> None:
        self._wall, self._began = time.time(), time.monotonic()

    def now(self) -> float:
        return self._wall + self.monotonic()

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * SPEED

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SPEED)


class Pauses:
    """The longest collection of garbage, and the longest time that the event loop was busy."""

    def __init__(self) -> None:
        self.collection = self.turn = self._started = 0.0

    def seen(self, phase: str, info: dict[str, int]) -> None:
        """For `gc.callbacks`."""
        if phase == "start":
            self._started = time.perf_counter()
        else:
            self.collection = max(self.collection, time.perf_counter() - self._started)

    async def watch_loop(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            self.turn = max(self.turn, time.perf_counter() - before - 0.005)


class Load:
    """What the cluster does all day."""

    def __init__(self, client: Client, clock: FastClock) -> None:
        self._client, self._clock = client, clock
        self._random = random.Random(1)
        self.writes = 0

    async def fill(self) -> None:
        async def write(waiting: "range | list[int]") -> None:
            for number in waiting:
                obj: Object = {"metadata": {"name": f"c-{number}"}, "data": {"text": TEXT}}
                await self._client.create(CONFIG_MAP, obj, "default")

        async with asyncio.TaskGroup() as group:
            for part in range(WRITERS):
                group.create_task(write(range(part, OBJECTS, WRITERS)))
        for number in range(LEASES):
            await self._client.create(LEASE, {"metadata": {"name": f"l-{number}"}}, "default")

    async def renew(self) -> None:
        """Each lease every ten seconds."""
        while True:
            began = self._clock.monotonic()
            for number in range(LEASES):
                spec = {"renewTime": format_micro_time(self._clock.now())}
                await self._client.patch(LEASE, f"l-{number}", "default", {"spec": spec})
                self.writes += 1
            await self._clock.sleep(max(0.0, began + 10.0 - self._clock.monotonic()))

    async def report(self) -> None:
        number = 0
        while True:
            await self._clock.sleep(3600 / EVENTS_PER_HOUR)
            number += 1
            event: Object = {
                "metadata": {"name": f"e-{number}"},
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
                "reason": "Soaked",
                "message": TEXT[:200],
                "lastTimestamp": format_time(self._clock.now()),
            }
            await self._client.create(EVENT, event, "default")
            self.writes += 1

    async def change(self) -> None:
        """An object each second."""
        while True:
            name = f"c-{self._random.randrange(OBJECTS)}"
            data = {"text": TEXT[: self._random.randrange(1000)]}
            await self._client.patch(CONFIG_MAP, name, "default", {"data": data})
            self.writes += 1
            await self._clock.sleep(1.0)

    async def watch(self) -> None:
        """Streams that end after some minutes, as informers' do; a few begin with everything."""
        while True:
            kind = self._random.choice((LEASE, EVENT, CONFIG_MAP))
            initial = self._random.random() < 0.1
            until = self._clock.monotonic() + self._random.uniform(60, 600)
            since = "" if initial else (await self._client.list(kind, limit=1)).resource_version
            events = self._client.watch(
                kind, "default", resource_version=since, initial_events=initial
            )
            async with aclosing(events):
                async for _ in events:
                    if self._clock.monotonic() > until:
                        break


async def _soak(path: Path) -> list[Row]:
    clock, pauses = FastClock(), Pauses()
    file = path / "soak.db"
    store = await SqliteStore.open(file, clock=clock)
    api = ApiServer(
        store,
        config=ServerConfig(),
        clock=clock,
        random=random.Random(1),
        authenticator=InsecureAuthenticator(),
    )
    await api.start()
    client = Client(InProcessTransport(api.handle, User("soak", ("system:masters",))))
    load = Load(client, clock)
    await load.fill()
    gc.callbacks.append(pauses.seen)
    resident: list[float] = []
    size: list[float] = []
    streams = [load.watch() for _ in range(WATCHES)]
    loops = (load.renew(), load.report(), load.change(), *streams)
    async with background(api.run(), pauses.watch_loop(), *loops):
        for _ in range(HOURS + 1):
            await clock.sleep(3600)
            resident.append(resident_mb(os.getpid()))
            size.append(_held_mb(path))
    gc.callbacks.remove(pauses.seen)
    await store.close()
    note = f"{load.writes:,} writes in {HOURS + 1} hours"
    return [
        Row("soak: RSS, last hour / first", resident[-1] / resident[0], "", "<= 1.2", note),
        Row("soak: store, last hour / first", size[-1] / size[0], "", "<= 1.2"),
        Row("soak: RSS at the end", resident[-1], "MB", note=_hours(resident)),
        Row("soak: store at the end", size[-1], "MB", note=_hours(size)),
        Row("soak: longest garbage collection", 1000 * pauses.collection, "ms", "<= 100"),
        Row("soak: longest turn of the event loop", 1000 * pauses.turn, "ms"),
    ]


def _held_mb(path: Path) -> float:
    """The store's files."""
    return sum(part.stat().st_size for part in path.iterdir()) / 1e6


def _hours(values: list[float]) -> str:
    return "after each hour: " + ", ".join(f"{value:.0f}" for value in values)


def measure() -> list[Row]:
    with directory() as path:
        return uvloop.run(_soak(path))
