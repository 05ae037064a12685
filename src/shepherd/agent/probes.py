"""Startup, readiness and liveness probes of one running container.

Source of the rules: kubernetes pkg/kubelet/prober. One thing is better here: until a readiness or
startup probe succeeds for the first time it is repeated soon, in place of a whole period later, so
a pod is Ready when it is ready. Those extra looks can only help: their failures do not count.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from shepherd.agent.checks import CheckError, Checks, Result, Target
from shepherd.api.objects.pod import Probe
from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock

_EAGER = Backoff(initial=0.03, cap=10.0, factor=1.6)
"""The delays between the extra looks, up to the probe's own period."""


@dataclass(slots=True)
class Health:
    """What the probes have found, for `pod_state.ContainerView`."""

    started: bool = True
    ready: bool = True
    unhealthy: str = ""


Report = Callable[[str, Result], None]
"""Called with `Liveness`, `Readiness` or `Startup` and a failure that counts."""


class Prober:
    """Runs the probes of one container until cancelled; `changed` is called when `health` does."""

    def __init__(
        self,
        target: Target,
        health: Health,
        *,
        checks: Checks,
        clock: Clock,
        random: Random,
        age_seconds: float,
        adopted: bool,
        changed: Callable[[], None],
        report: Report,
    ) -> None:
        self._target = target
        self._health = health
        self._checks = checks
        self._clock = clock
        self._random = random
        self._age = age_seconds
        self._adopted = adopted
        self._changed = changed
        self._report = report

    async def run(self) -> None:
        spec = self._target.spec
        if spec.startup_probe and not self._health.started:
            await self._startup(spec.startup_probe)
            if self._health.unhealthy:
                return
        async with asyncio.TaskGroup() as group:
            if spec.readiness_probe:
                group.create_task(self._readiness(spec.readiness_probe))
            if spec.liveness_probe:
                group.create_task(self._liveness(spec.liveness_probe))

    async def _startup(self, probe: Probe) -> None:
        counter = _Counter(probe)
        await self._begin(probe)
        while not self._health.started:
            verdict = counter.take(await self._look("Startup", probe, counter))
            if verdict is True:
                self._health.started = True
                self._changed()
            elif verdict is False:
                self._fail("failed startup probe")
                return
            else:
                await self._clock.sleep(counter.pause(eager=True))

    async def _readiness(self, probe: Probe) -> None:
        counter = _Counter(probe)
        await self._begin(probe)
        while True:
            verdict = counter.take(await self._look("Readiness", probe, counter))
            if verdict is not None and verdict != self._health.ready:
                self._health.ready = verdict
                self._changed()
            await self._clock.sleep(counter.pause(eager=not counter.succeeded))

    async def _liveness(self, probe: Probe) -> None:
        counter = _Counter(probe)
        await self._begin(probe)
        while counter.take(await self._look("Liveness", probe, counter)) is not False:
            await self._clock.sleep(counter.pause(eager=False))
        self._fail("failed liveness probe")

    def _fail(self, why: str) -> None:
        self._health.unhealthy = why
        self._changed()

    async def _begin(self, probe: Probe) -> None:
        """Wait for the initial delay; after an agent's restart not all containers at once."""
        delay = max(0.0, probe.initial_delay_seconds - self._age)
        if self._adopted:
            delay += self._random.random() * min(probe.period_seconds, 1.0)
        await self._clock.sleep(delay)

    async def _look(self, kind: str, probe: Probe, counter: "_Counter") -> Result | None:
        """One look; None if it could not be made."""
        try:
            result = await self._checks.probe(self._target, probe)
        except CheckError:
            return None
        if not result.ok and counter.counts:
            self._report(kind, result)
        return result


class _Counter:
    """Turns results into a verdict by the thresholds."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._successes = 0
        self._failures = 0
        self._looks = 0
        self._left = 0.0
        self.succeeded = False
        """There was a positive verdict once."""

    @property
    def counts(self) -> bool:
        """Whether the next look is a regular one, or an extra one within a period."""
        return self._left <= 1e-6

    def take(self, result: Result | None) -> bool | None:
        """The verdict after one more result; None: none yet."""
        self._looks += 1
        if result is None:
            return None
        if result.ok:
            self._failures = 0
            self._successes += 1
            if self._successes >= self._probe.success_threshold:
                self.succeeded = True
                return True
        elif self.counts:
            self._successes = 0
            self._failures += 1
            if self._failures >= self._probe.failure_threshold:
                return False
        return None

    def pause(self, *, eager: bool) -> float:
        """Seconds until the next look; a regular one is due each period."""
        period = float(self._probe.period_seconds)
        if self.counts:
            self._left = period
        pause = self._left
        if eager and self._probe.success_threshold == 1:
            pause = min(pause, _EAGER.delay(self._looks))
        self._left -= pause
        return pause
