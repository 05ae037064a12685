"""What a node and its pods use now: kubelet's summary (stats/v1alpha1, as far as it is known here).

Nothing is measured while nobody asks. A rate needs two looks at counters of CPU time: the second is
taken when someone asks, the first is that of the last time, or, if that is long ago, one of a
second before.
"""

import asyncio
from dataclasses import dataclass

from shepherd.agent import machine
from shepherd.api.meta import format_time
from shepherd.api.resource import Object
from shepherd.lib.clock import Clock
from shepherd.runtime.base import Runtime, SandboxInfo, Stats

_REPEAT_SECONDS = 5.0
"""Who asks again sooner gets the same answer."""
_LONGEST_SECONDS = 60.0
"""A mean over a longer time says nothing of now."""
_SHORTEST_SECONDS = 1.0
"""What is waited between two looks if there was none before."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at all counters."""

    at: float
    """Epoch seconds."""
    node: Stats
    sandboxes: tuple[SandboxInfo, ...]
    containers: dict[str, Stats]
    """By container id."""


def summary(node_name: str, first: Sample, last: Sample) -> Object:
    """What was used between two looks. `windowSeconds` is ours: how long that was."""
    return {
        "node": {"nodeName": node_name} | _use(first.node, last.node, first, last),
        "pods": [_pod(sandbox, first, last) for sandbox in last.sandboxes],
        "windowSeconds": round(last.at - first.at, 3),
    }


def _pod(sandbox: SandboxInfo, first: Sample, last: Sample) -> Object:
    containers = [
        {"name": container.name, "startTime": format_time(container.started_at)}
        | _use(first.containers.get(container.id), last.containers[container.id], first, last)
        for container in sandbox.containers
        if container.id in last.containers
    ]
    reference = {
        "name": sandbox.pod_name,
        "namespace": sandbox.pod_namespace,
        "uid": sandbox.pod_uid,
    }
    return {"podRef": reference, "containers": containers}


def _use(before: Stats | None, now: Stats, first: Sample, last: Sample) -> Object:
    """What began after the first look has used all its time since then."""
    stamp = format_time(last.at)
    used = now.cpu_nanos - (before.cpu_nanos if before else 0)
    return {
        "cpu": {
            "time": stamp,
            "usageNanoCores": max(0, round(used / (last.at - first.at))),
            "usageCoreNanoSeconds": now.cpu_nanos,
        },
        "memory": {"time": stamp, "workingSetBytes": now.memory_bytes},
    }


class NodeStats:
    """Looks at the counters, when asked."""

    def __init__(self, node_name: str, runtime: Runtime, clock: Clock) -> None:
        self._node_name = node_name
        self._runtime = runtime
        self._clock = clock
        self._last: Sample | None = None
        self._answer: Object = {}
        self._one_at_a_time = asyncio.Lock()

    async def summary(self) -> Object:
        """What is used now; see the module's `summary`."""
        async with self._one_at_a_time:
            first, age = self._last, self._age()
            if self._answer and age < _REPEAT_SECONDS:
                return self._answer
            if first is None or age > _LONGEST_SECONDS:
                first = await self._look()
                await self._clock.sleep(_SHORTEST_SECONDS)
            self._last = await self._look()
            self._answer = summary(self._node_name, first, self._last)
            return self._answer

    def _age(self) -> float:
        """Of the last look; of none, or one of the future (the clock was put back): for ever."""
        age = self._clock.now() - self._last.at if self._last else -1.0
        return age if age >= 0 else float("inf")

    async def _look(self) -> Sample:
        sandboxes = tuple(await self._runtime.sandboxes())
        used: dict[str, Stats] = {}
        for sandbox in sandboxes:
            used |= await self._runtime.stats(sandbox.id)
        if self._runtime.describe().simulated:
            # A machine that is nowhere does nothing but run its containers.
            node = Stats(
                sum(stats.cpu_nanos for stats in used.values()),
                sum(stats.memory_bytes for stats in used.values()),
            )
        else:
            node = await asyncio.to_thread(machine.stats)
        return Sample(self._clock.now(), node, sandboxes, used)
