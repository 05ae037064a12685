"""Lifecycle hooks: what a container asks to be done right after its start and before its stop.

https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
"""

import asyncio
from collections.abc import Set

from shepherd.agent.checks import CheckError, Checks, Target
from shepherd.api.objects.pod import LifecycleHandler
from shepherd.lib.clock import Clock

_POST_START_SECONDS = 3600.0
"""kubelet waits for ever; nobody wants a hook that hangs for longer than this."""


class Hooks:
    """Runs the hooks of one pod's containers. Each call returns why the hook failed, or ""."""

    def __init__(self, checks: Checks, clock: Clock) -> None:
        self._checks = checks
        self._clock = clock
        self._ends: dict[str, asyncio.Event] = {}
        """By container id: set when a container whose preStop hook runs has ended by itself."""

    async def post_start(self, target: Target) -> str:
        handler = target.spec.lifecycle and target.spec.lifecycle.post_start
        return await self._run(handler, target, _POST_START_SECONDS) if handler else ""

    async def pre_stop(self, target: Target, seconds: float) -> str:
        """The hook has `seconds` at most; it is over early if the container ends."""
        handler = target.spec.lifecycle and target.spec.lifecycle.pre_stop
        if not handler or seconds <= 0:
            return ""
        hook = asyncio.ensure_future(self._run(handler, target, seconds))
        event = self._ends[target.container_id] = asyncio.Event()
        ended = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait((hook, ended), return_when=asyncio.FIRST_COMPLETED)
            return hook.result() if hook.done() else ""
        finally:
            for task in (hook, ended):
                task.cancel()
            await asyncio.gather(hook, ended, return_exceptions=True)
            del self._ends[target.container_id]

    def note_running(self, container_ids: Set[str]) -> None:
        """Tell which containers run: the preStop hooks of the others are over."""
        for container_id, ended in self._ends.items():
            if container_id not in container_ids:
                ended.set()

    async def _run(self, handler: LifecycleHandler, target: Target, seconds: float) -> str:
        if handler.sleep:
            await self._clock.sleep(min(float(handler.sleep.seconds), seconds))
            return ""
        try:
            result = await self._checks.hook(target, handler, seconds)
        except CheckError as error:
            return str(error)
        return "" if result.ok else result.output or "the command failed"
