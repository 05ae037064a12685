"""The life of one pod on the node: look, plan, report, do, until nothing is left to do.

The loop is thin: `pod_memory` makes the view, `pod_plan` decides, `pod_status` reports and
`pod_actions` does. Actions run beside the loop, so that a slow pull keeps nobody from looking; an
action that ends wakes the loop. Failures become part of the memory, and so of the next plan.
"""

import asyncio
import logging
import shutil

from shepherd.agent import pod_plan, pod_status
from shepherd.agent.node import Node
from shepherd.agent.pod_actions import Actions
from shepherd.agent.pod_memory import PodMemory, Scene
from shepherd.agent.pod_plan import Action, Cancel, Plan, RefreshVolumes, StopContainer
from shepherd.agent.pod_state import BoundPod, ContainerView, PodView, Verdict, resizing, run_out
from shepherd.agent.probes import Prober
from shepherd.agent.resize import Grant, summary, with_resources_of
from shepherd.lib.tasks import cancel_and_wait
from shepherd.runtime.base import ContainerInfo, SandboxInfo

_log = logging.getLogger("shepherd.agent.worker")

_FORCED_GRACE_SECONDS = 2
"""What containers get whose pod was deleted by force, as kubelet gives them."""
_UNFORESEEN_SECONDS = 10.0
"""The pause after a failure that should not have been possible."""


class PodWorker:
    """Runs one pod. `run` returns when the pod has left the node."""

    def __init__(
        self,
        grant: Grant,
        node: Node,
        *,
        adopted: list[SandboxInfo],
        verdict: Verdict | None = None,
    ) -> None:
        """`adopted`: what the runtime holds of the pod already; `verdict`: why it is refused."""
        self.pod = pod = grant.pod
        """With the resources that it has been granted."""
        self.asked = grant.asked
        """With those that it asks for."""
        self.uid = pod.metadata.uid
        self._node = node
        self._memory = PodMemory(verdict=verdict, volumes_ready=bool(adopted))
        self._memory.recall(pod)
        self._memory.refused = grant.refused
        self._resizing = False
        self.status = pod.status
        """The newest, whether or not the API has it yet."""
        self._news = asyncio.Event()
        self._busy: dict[str, tuple[asyncio.Task[None], float]] = {}
        self._probers: dict[str, asyncio.Task[None]] = {}
        self._adopted = {c.id for sandbox in adopted for c in sandbox.containers}
        self._sandbox_ids = {sandbox.id for sandbox in adopted}
        self._refresh = bool(adopted)
        self._pausing = False
        self._containers: tuple[ContainerView, ...] = ()
        self._actions = Actions(self.pod, node, self._memory, self._sandbox_ids)
        self._group: asyncio.TaskGroup
        if verdict:
            self._actions.say("Warning", verdict.reason, verdict.message)
        if pod.metadata.deletion_timestamp:
            self._memory.stop(float(pod.metadata.deletion_grace_period_seconds or 0), self._now())

    # Told from outside

    @property
    def refused(self) -> Verdict | None:
        """Why it has not been granted all resources that it asks for."""
        return self._memory.refused

    def update(self, grant: Grant) -> None:
        """The API object has changed, or what the node grants it."""
        old, self.pod, self.asked = self.pod, grant.pod, grant.asked
        self._actions.pod = pod = self.pod
        self._note_grant(old, grant)
        self._node.statuses.observe(pod)
        meta = pod.metadata
        grace = meta.deletion_grace_period_seconds
        if meta.deletion_timestamp and (
            not old.metadata.deletion_timestamp
            or grace != old.metadata.deletion_grace_period_seconds
        ):
            self._memory.stop(float(grace or 0), self._now())
        if (meta.labels, meta.annotations) != (old.metadata.labels, old.metadata.annotations):
            self._refresh = True
        self.wake()

    def _note_grant(self, old: BoundPod, grant: Grant) -> None:
        refused, before = grant.refused, self._memory.refused
        self._memory.refused = refused
        if refused and refused != before:
            text = f"Pod resize {refused.reason}: {summary(grant.asked, refused.message)}"
            self._actions.say("Warning", f"Resize{refused.reason}", text)
        if with_resources_of(old, grant.pod) is not old:
            self._memory.resize_failure = None
            self._refresh = True  # files may tell of the resources
            self._actions.say("Normal", "ResizeStarted", f"Pod resize started: {summary(self.pod)}")

    def forget(self) -> None:
        """The API object is gone: end the pod."""
        grace = self.pod.metadata.deletion_grace_period_seconds
        if grace is None:
            # Nobody asked it to end before: a forced deletion, whatever the pod's own grace is.
            grace = min(self.pod.spec.termination_grace_period_seconds, _FORCED_GRACE_SECONDS)
        self._memory.gone = True
        self._actions.gone.set()
        self._node.statuses.drop(self.uid)
        self._memory.stop(float(grace), self._now())
        self.wake()

    def pause(self) -> None:
        """Stop the containers gracefully and end, but leave the pod as it is in the API: it will
        be run again when the agent is."""
        self._pausing = True
        self._memory.stop(float(self.pod.spec.termination_grace_period_seconds), self._now())
        self.wake()

    def sources_changed(self) -> None:
        """Something that the pod refers to has changed, or has come into being."""
        self._refresh = True
        self._memory.failure = None
        for memory in self._memory.containers.values():
            if memory.failure and memory.failure.reason == "CreateContainerConfigError":
                memory.failure = None
        self.wake()

    def images_changed(self) -> None:
        """An image was imported: it may be the one that a pull failed to get."""
        for memory in self._memory.containers.values():
            if memory.failure and memory.image is None:
                memory.failure = None
        self.wake()

    def wake(self) -> None:
        """Look again."""
        self._news.set()

    def runs(self, container: str, attempt: int) -> bool:
        """Whether this attempt of a container was running at the last look."""
        return any(
            c.current and c.running and (c.spec.name, c.current.attempt) == (container, attempt)
            for c in self._containers
        )

    def running(self) -> list[ContainerInfo]:
        """The containers that were running at the last look."""
        return [c.current for c in self._containers if c.current and c.running]

    # The loop

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._group:
            writer = self._group.create_task(self._node.statuses.serve(self.pod))
            await self._live()
            for task in (writer, *self._probers.values(), *(t for t, _ in self._busy.values())):
                task.cancel()
        self._node.sources.release(self.uid)
        self._node.tokens.release(self.uid)
        if not self._pausing:
            await asyncio.to_thread(
                shutil.rmtree, self._node.files.pod(self.uid), ignore_errors=True
            )

    async def _live(self) -> None:
        while True:
            self._news.clear()
            view = await self._look()
            self._containers = view.containers
            self._actions.note_ends(view)
            self._probe(view)
            self._note_resize(view)
            plan = self._plan(view)
            self._report(view)
            for action in plan.actions:
                self._begin(action)
            if plan.done:
                return
            await self._until(plan.wake_at)

    def _note_resize(self, view: PodView) -> None:
        before, self._resizing = self._resizing, resizing(view)
        if before and not self._resizing and view.stop_by is None and not run_out(view):
            text = f"Pod resize completed: {summary(self.pod)}"
            self._actions.say("Normal", "ResizeCompleted", text)

    async def _look(self) -> PodView:
        node = self._node
        found = [await node.runtime.sandbox(sandbox_id) for sandbox_id in self._sandbox_ids]
        sandboxes = [sandbox for sandbox in found if sandbox]
        await self._actions.read_messages(sandboxes)
        return self._memory.view(
            Scene(
                self.pod,
                sandboxes,
                now=self._now(),
                wall=node.clock.now(),
                busy={key: deadline for key, (_, deadline) in self._busy.items()},
                host_ip=node.facts.host_ip,
                runtime_name=node.runtime.describe().name,
            )
        )

    def _plan(self, view: PodView) -> Plan:
        plan = pod_plan.plan(view)
        if self._pausing:
            kept = tuple(a for a in plan.actions if isinstance(a, StopContainer | Cancel))
            runs = any(c.running for c in view.containers)
            return Plan(kept, done=not kept and not runs and not view.busy)
        unused = view.cleaned or view.stop_by is not None or "refresh" in view.busy
        if self._refresh and view.volumes_ready and not unused:
            self._refresh = False
            return Plan((*plan.actions, RefreshVolumes()), plan.wake_at)
        return plan

    def _report(self, view: PodView) -> None:
        if view.gone or self._pausing:
            return
        self.status = pod_status.status(view, self.status)
        self._actions.status = self.status
        self._actions.note_back_offs()
        underway = any(c.latest or c.failure for c in view.containers)
        urgent = underway or view.verdict is not None or view.stop_by is not None
        self._node.statuses.push(self.uid, self.status, urgent=urgent)

    async def _until(self, wake_at: float | None) -> None:
        """Until there is news or it is time."""
        timer = None
        if wake_at is not None:
            delay = max(0.0, wake_at - self._now())
            timer = asyncio.ensure_future(self._node.clock.sleep(delay))
            timer.add_done_callback(lambda _: self.wake())
        try:
            await self._news.wait()
        finally:
            if timer:
                await cancel_and_wait(timer)

    # Doing

    def _begin(self, action: Action) -> None:
        if isinstance(action, Cancel):
            if action.key in self._busy:
                self._busy[action.key][0].cancel()
            return
        if action.key in self._busy:  # only a stop is asked for again, to end sooner
            self._busy[action.key][0].cancel()
        deadline = action.deadline if isinstance(action, StopContainer) else 0.0
        task = self._group.create_task(self._do(action))
        self._busy[action.key] = (task, deadline)

    async def _do(self, action: Action) -> None:
        try:
            follow_up = await self._actions.do(action)
            if follow_up:
                self._begin(follow_up)
        except Exception as error:
            # What a pod asks for comes from outside: whatever it meets in us, the other pods of
            # the node must go on. While this one counts as busy, nobody tries again.
            _log.exception("pod %s: %s failed", self.pod.metadata.key, action)
            self._actions.say("Warning", "InternalError", f"{type(action).__name__}: {error}")
            await self._node.clock.sleep(_UNFORESEEN_SECONDS)
        finally:
            mine = asyncio.current_task()
            if (entry := self._busy.get(action.key)) and entry[0] is mine:
                del self._busy[action.key]
            self.wake()

    # Probes

    def _probe(self, view: PodView) -> None:
        """Probe exactly the containers that run and are healthy."""
        wanted = {
            c.current.id: c
            for c in view.containers
            if c.current and c.running and not c.unhealthy and view.stop_by is None and _probed(c)
        }
        for container_id in self._probers.keys() - wanted.keys():
            self._probers.pop(container_id).cancel()
        for container_id in wanted.keys() - self._probers.keys():
            prober = self._prober(view, wanted[container_id])
            self._probers[container_id] = self._group.create_task(prober.run())

    def _prober(self, view: PodView, container: ContainerView) -> Prober:
        assert container.current
        started_at = container.current.started_at
        return Prober(
            self._actions.target(container.current, view),
            self._memory.container(container.spec.name).health,
            checks=self._node.checks,
            clock=self._node.clock,
            random=self._node.random,
            age_seconds=max(0.0, view.wall - started_at) if started_at else 0.0,
            adopted=container.current.id in self._adopted,
            changed=self.wake,
            report=lambda kind, result: self._actions.say(
                "Warning", "Unhealthy", f"{kind} probe failed: {result.output}".strip(),
                container.spec.name,
            ),
        )  # fmt: skip

    def _now(self) -> float:
        return self._node.clock.monotonic()


def _probed(container: ContainerView) -> bool:
    spec = container.spec
    return bool(spec.startup_probe or spec.readiness_probe or spec.liveness_probe)
