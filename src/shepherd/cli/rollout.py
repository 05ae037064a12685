"""`sheepctl rollout`, and the progress that `apply` and `scale` show.

On a terminal the lines change in place; elsewhere each change is a line of its own, as kubectl's.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import click

from shepherd.api.kinds import DEPLOYMENT, POD
from shepherd.api.kinds.daemonsets import DAEMON_SET
from shepherd.api.kinds.podsummary import summarize
from shepherd.api.kinds.statefulsets import STATEFUL_SET
from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import selector_of
from shepherd.cli.output import echo, echo_document, echo_table
from shepherd.cli.revisions import chosen, going_back, revisions
from shepherd.cli.session import Failure, Session, Usage, connection_options, pass_session
from shepherd.cli.states import states
from shepherd.cli.targets import Target, find_targets, one_of, reference
from shepherd.client.base import Client

_RESTARTED = "kubectl.kubernetes.io/restartedAt"
_FINE = ("Running", "ContainerCreating", "Pending", "Terminating", "Completed", "PodInitializing")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a workload's rollout has come."""

    name: str
    ready: int
    wanted: int
    done: bool
    text: str
    """One sentence, in kubectl's words."""
    failed: bool = False


def progress(resource: Resource, obj: Object) -> Progress:
    """Of a Deployment, StatefulSet or DaemonSet: see `has_rollouts`."""
    return _PROGRESS[resource.storage](obj)


def has_rollouts(resource: Resource) -> bool:
    """Objects of this kind are rolled out and have revisions."""
    return resource.storage in _PROGRESS


def _deployment(deployment: Object) -> Progress:
    """Source: kubectl polymorphichelpers, DeploymentStatusViewer."""
    spec, status = deployment["spec"], deployment.get("status") or {}
    name, wanted = deployment["metadata"]["name"], spec.get("replicas", 1)
    counts = ("updatedReplicas", "replicas", "availableReplicas", "readyReplicas")
    updated, total, available, ready = (status.get(key) or 0 for key in counts)

    def at(text: str, *, done: bool = False, failed: bool = False) -> Progress:
        return Progress(name, ready, wanted, done, text, failed)

    waiting = f'Waiting for deployment "{name}" rollout to finish: '
    if _unobserved(deployment):
        return at("Waiting for deployment spec update to be observed...")
    conditions = {c["type"]: c.get("reason") for c in status.get("conditions") or ()}
    if conditions.get("Progressing") == "ProgressDeadlineExceeded":
        return at(f'deployment "{name}" exceeded its progress deadline', failed=True)
    if updated < wanted:
        return at(f"{waiting}{updated} out of {wanted} new replicas have been updated...")
    if total > updated:
        return at(f"{waiting}{total - updated} old replicas are pending termination...")
    if available < updated:
        return at(f"{waiting}{available} of {updated} updated replicas are available...")
    return at(f'deployment "{name}" successfully rolled out', done=True)


def _stateful_set(sts: Object) -> Progress:
    """Source: kubectl polymorphichelpers, StatefulSetStatusViewer. Its last words for a set without
    a partition name the revision; ours are the same for all."""
    spec, status = sts["spec"], sts.get("status") or {}
    wanted, strategy = spec.get("replicas", 1), spec.get("updateStrategy") or {}
    updated, ready = status.get("updatedReplicas") or 0, status.get("readyReplicas") or 0
    new = max(wanted - ((strategy.get("rollingUpdate") or {}).get("partition") or 0), 0)

    def at(text: str, *, done: bool = False) -> Progress:
        return Progress(sts["metadata"]["name"], ready, wanted, done, text)

    if _unobserved(sts):
        return at("Waiting for statefulset spec update to be observed...")
    if ready < wanted:
        return at(f"Waiting for {wanted - ready} pods to be ready...")
    if strategy.get("type") == "OnDelete":
        return at(_ON_DELETE, done=True)
    if updated < new:
        return at(
            "Waiting for partitioned roll out to finish: "
            f"{updated} out of {new} new pods have been updated..."
        )
    return at(f"partitioned roll out complete: {updated} new pods have been updated...", done=True)


def _daemon_set(daemons: Object) -> Progress:
    """Source: kubectl polymorphichelpers, DaemonSetStatusViewer."""
    name, status = daemons["metadata"]["name"], daemons.get("status") or {}
    counts = (
        "desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady",
    )  # fmt: skip
    wanted, updated, available, ready = (status.get(key) or 0 for key in counts)
    on_delete = (daemons["spec"].get("updateStrategy") or {}).get("type") == "OnDelete"

    def at(text: str, *, done: bool = False) -> Progress:
        return Progress(name, ready, wanted, done, text)

    waiting = f'Waiting for daemon set "{name}" rollout to finish: '
    if _unobserved(daemons):
        return at("Waiting for daemon set spec update to be observed...")
    if updated < wanted and not on_delete:
        return at(f"{waiting}{updated} out of {wanted} new pods have been updated...")
    if available < wanted:
        return at(f"{waiting}{available} of {wanted} updated pods are available...")
    end = f'daemon set "{name}" successfully rolled out'
    return at(_ON_DELETE if on_delete else end, done=True)


_ON_DELETE = "its pods are ready; each gets a new template when it is deleted (OnDelete)"
_PROGRESS = {
    DEPLOYMENT.storage: _deployment,
    STATEFUL_SET.storage: _stateful_set,
    DAEMON_SET.storage: _daemon_set,
}


def _unobserved(obj: Object) -> bool:
    """Its controller has not seen what was asked for last."""
    seen = (obj.get("status") or {}).get("observedGeneration") or 0
    return bool(seen < obj["metadata"].get("generation", 0))


def wait_options(command: Any) -> Any:
    """--wait/--no-wait and --timeout."""
    for option in (
        click.option("--timeout", default=600.0, help="How many seconds to wait at most (600)."),
        click.option(
            "--wait/--no-wait",
            default=None,
            help="Follow rollouts to their end (the default on a terminal), or do not.",
        ),
    ):
        command = option(command)
    return command


class Display(Protocol):
    """Where progress is shown."""

    def show(self, name: str, progress: Progress, notes: list[str]) -> None: ...
    def close(self) -> None: ...


class Lines:
    """Each new sentence once."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def show(self, name: str, progress: Progress, notes: list[str]) -> None:
        if self._last.get(name) != progress.text:
            self._last[name] = progress.text
            echo(progress.text)

    def close(self) -> None:
        pass


class Bars:
    """A bar for each workload, and under it what holds its pods up."""

    def __init__(self) -> None:
        from rich.live import Live

        self._state: dict[str, tuple[Progress, list[str]]] = {}
        self._live = Live(auto_refresh=False)
        self._live.start()

    def show(self, name: str, progress: Progress, notes: list[str]) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        self._state[name] = (progress, notes)
        grid = Table.grid(padding=(0, 2))
        for shown, now in self._state.values():
            mark = Text("✔", "green") if shown.done else Text("✘" if shown.failed else "…")
            bar = ProgressBar(total=max(shown.wanted, 1), completed=shown.ready, width=24)
            grid.add_row(mark, shown.name, bar, f"{shown.ready}/{shown.wanted} ready")
            for note in () if shown.done else now:
                grid.add_row("", "", Text(note, "yellow", overflow="fold"), "")
        self._live.update(grid, refresh=True)

    def close(self) -> None:
        self._live.stop()


async def follow(
    client: Client,
    targets: list[tuple[Target, str | None]],
    *,
    wait: bool | None,
    timeout_seconds: float,
) -> None:
    """Show the rollouts of workloads until all have come about.

    Without `wait` said, that is for people at a terminal only. Raises Failure for one that failed
    or took longer than the time-out.
    """
    terminal = sys.stdout.isatty()
    if not targets or not (terminal if wait is None else wait):
        return
    display: Display = Bars() if terminal else Lines()
    try:
        async with asyncio.timeout(timeout_seconds):
            ends = await asyncio.gather(
                *(_follow(client, target, space, display.show) for target, space in targets)
            )
    except TimeoutError:
        names = ", ".join(target.name for target, _ in targets)
        text = f"not rolled out within {timeout_seconds:g} s: {names}; it goes on without waiting"
        raise Failure(f"{text}, see `sheepctl why {_named(targets)}`") from None
    finally:
        display.close()
    if failed := [end.text for end in ends if end.failed]:
        raise Failure("; ".join(failed) + f": see `sheepctl why {_named(targets)}`")


def _named(targets: list[tuple[Target, str | None]]) -> str:
    """What to ask `why` about: `deployment/web`, or TYPE/NAME in place of several."""
    (first, _), *others = targets
    return "TYPE/NAME" if others else f"{first.resource.kind.lower()}/{first.name}"


async def _follow(
    client: Client,
    target: Target,
    namespace: str | None,
    show: Callable[[str, Progress, list[str]], None],
) -> Progress:
    """Watch one workload to the end of its rollout."""
    resource, name = target.resource, target.name
    async with aclosing(states(client, resource, name, namespace)) as seen:
        async for obj in seen:
            if obj is None:
                raise Failure(f'{resource.kind.lower()} "{name}" was deleted')
            now = progress(resource, obj)
            notes = [] if now.done else await _notes(client, obj)
            show(f"{resource.plural}/{namespace}/{name}", now, notes)
            if now.done or now.failed:
                return now
    raise AssertionError("an object's states have no end")


async def _notes(client: Client, obj: Object) -> list[str]:
    """What holds up its pods: back-offs, missing images, no node that fits."""
    selector = str(selector_of(obj["spec"]["selector"]))
    namespace = obj["metadata"]["namespace"]
    pods = await client.list(POD, namespace, label_selector=selector)
    found = {note: None for pod in pods.items if (note := trouble(pod))}
    return list(found)


def trouble(pod: Object) -> str:
    """Why a pod does not run, or nothing if it does or soon will."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("message"):
            return f"{waiting.get('reason')}: {waiting['message']}"
    text = summarize(pod).status
    return "" if text in _FINE or text.startswith("Init:") else text


@click.group("rollout")
def command() -> None:
    """Follow, repeat and take back rollouts of deployments, statefulsets and daemonsets."""


@command.command("status", short_help="Wait until a workload is rolled out")
@click.argument("what", nargs=-1, metavar="TYPE/NAME")
@wait_options
@connection_options
@pass_session
def status(session: Session, what: tuple[str, ...], wait: bool | None, timeout: float) -> None:
    """Wait until a workload is rolled out: `rollout status deployment/web`."""
    target = one_of(_workloads(what))

    async def work(client: Client) -> None:
        # 404 now, not never
        obj = await client.get(target.resource, target.name, session.namespace)
        if wait is False:
            echo(progress(target.resource, obj).text)
            return
        targets: list[tuple[Target, str | None]] = [(target, session.namespace)]
        await follow(client, targets, wait=True, timeout_seconds=timeout)

    session.run(work)


@command.command("restart", short_help="Replace all pods, one after the other")
@click.argument("what", nargs=-1, metavar="TYPE/NAME...")
@wait_options
@connection_options
@pass_session
def restart(session: Session, what: tuple[str, ...], wait: bool | None, timeout: float) -> None:
    """Replace all pods, one after the other: `rollout restart deployment/web`."""
    targets = _workloads(what)

    async def work(client: Client) -> None:
        for target in targets:
            await _unpaused(client, target, session.namespace)
            now = datetime.now(UTC).isoformat()
            template = {"metadata": {"annotations": {_RESTARTED: now}}}
            patch = {"spec": {"template": template}}
            await client.patch(target.resource, target.name, session.namespace, patch)
            echo(f"{reference(target.resource, target.name)} restarted")
        followed: list[tuple[Target, str | None]] = [(t, session.namespace) for t in targets]
        await follow(client, followed, wait=wait, timeout_seconds=timeout)

    session.run(work)


@command.command("history", short_help="Show the revisions that one can return to")
@click.argument("what", nargs=-1, metavar="TYPE/NAME")
@click.option("--revision", type=click.IntRange(1), help="Show the pod template of this revision.")
@connection_options
@pass_session
def history(session: Session, what: tuple[str, ...], revision: int | None) -> None:
    """Show the revisions that one can return to: `rollout history deployment/web`."""
    target = one_of(_workloads(what))

    async def work(client: Client) -> None:
        obj = await client.get(target.resource, target.name, session.namespace)
        found = await revisions(client, target.resource, obj)
        if revision is not None:
            echo_document("yaml", chosen(found, revision).template)
            return
        rows = [(r.number, ",".join(r.images), r.cause or "<none>") for r in found]
        echo_table(("REVISION", "IMAGES", "CHANGE-CAUSE"), rows)

    session.run(work)


@command.command("undo", short_help="Return to an earlier pod template")
@click.argument("what", nargs=-1, metavar="TYPE/NAME")
@click.option("--to-revision", type=click.IntRange(0), default=0, help="Not to the one before.")
@wait_options
@connection_options
@pass_session
def undo(
    session: Session, what: tuple[str, ...], to_revision: int, wait: bool | None, timeout: float
) -> None:
    """Return to an earlier pod template: `rollout undo deployment/web --to-revision=2`."""
    target = one_of(_workloads(what))

    async def work(client: Client) -> None:
        obj = await _unpaused(client, target, session.namespace)
        found = chosen(await revisions(client, target.resource, obj), to_revision)
        patch = going_back(found)
        changed = await client.patch(
            target.resource, target.name, session.namespace, patch, type="strategic"
        )
        name = reference(target.resource, target.name)
        if changed["metadata"]["generation"] == obj["metadata"]["generation"]:
            same = f"current template already matches revision {found.number}"
            echo(f"{name} skipped rollback ({same})")
            return
        echo(f"{name} rolled back to revision {found.number}")
        targets: list[tuple[Target, str | None]] = [(target, session.namespace)]
        await follow(client, targets, wait=wait, timeout_seconds=timeout)

    session.run(work)


def _workloads(what: tuple[str, ...]) -> list[Target]:
    """What is named. Raises Usage for what has no rollouts, or no name."""
    targets = find_targets(what)
    for target in targets:
        if not has_rollouts(target.resource):
            kinds = "a deployment, statefulset or daemonset"
            raise Usage(f"{target.resource.plural} have no rollout: name {kinds}")
        if not target.name:
            raise Usage(f"name the {target.resource.plural}, such as deployment/web")
    return targets


async def _unpaused(client: Client, target: Target, namespace: str) -> Object:
    """The object. Raises Failure if it is paused: what is asked for would not come about."""
    obj = await client.get(target.resource, target.name, namespace)
    if obj["spec"].get("paused"):
        name = reference(target.resource, target.name)
        raise Failure(f"{name} is paused: resume it first, by `kubectl rollout resume`")
    return obj
