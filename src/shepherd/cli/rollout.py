"""`sheepctl rollout status`, and the progress that `apply` and `scale` show.

On a terminal the lines change in place; elsewhere each change is a line of its own, as kubectl's.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import click

from shepherd.api.kinds import DEPLOYMENT, POD
from shepherd.api.kinds.podsummary import summarize
from shepherd.api.resource import Object
from shepherd.api.selectors import selector_of
from shepherd.cli.output import echo
from shepherd.cli.session import Failure, Session, Usage, connection_options, pass_session
from shepherd.cli.states import states
from shepherd.cli.targets import Target, find_targets, one_of
from shepherd.client.base import Client

_FINE = ("Running", "ContainerCreating", "Pending", "Terminating", "Completed", "PodInitializing")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a deployment's rollout has come."""

    name: str
    ready: int
    wanted: int
    done: bool
    text: str
    """One sentence, in kubectl's words."""
    failed: bool = False


def progress(deployment: Object) -> Progress:
    """Source: kubectl polymorphichelpers, DeploymentStatusViewer."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    status = deployment.get("status") or {}
    name, wanted = metadata["name"], spec.get("replicas", 1)
    counts = {key: status.get(key) or 0 for key in _COUNTS}
    updated, total, available = (counts[key] for key in _COUNTS[:3])

    def at(text: str, *, done: bool = False, failed: bool = False) -> Progress:
        return Progress(name, counts["readyReplicas"], wanted, done, text, failed)

    waiting = f'Waiting for deployment "{name}" rollout to finish: '
    if (status.get("observedGeneration") or 0) < metadata.get("generation", 0):
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


_COUNTS = ("updatedReplicas", "replicas", "availableReplicas", "readyReplicas")


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
    """A bar for each deployment, and under it what holds its pods up."""

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
    """Show the rollouts of deployments until all have come about.

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
                *(_follow(client, target.name, space, display.show) for target, space in targets)
            )
    except TimeoutError:
        names = ", ".join(target.name for target, _ in targets)
        text = f"not rolled out within {timeout_seconds:g} s: {names}; it goes on without waiting"
        raise Failure(f"{text}, see `sheepctl why deployment/NAME`") from None
    finally:
        display.close()
    if failed := [end.text for end in ends if end.failed]:
        raise Failure("; ".join(failed) + ": see `sheepctl why deployment/NAME`")


async def _follow(
    client: Client,
    name: str,
    namespace: str | None,
    show: Callable[[str, Progress, list[str]], None],
) -> Progress:
    """Watch one deployment to the end of its rollout."""
    key = f"{namespace}/{name}"
    async with aclosing(states(client, DEPLOYMENT, name, namespace)) as seen:
        async for deployment in seen:
            if deployment is None:
                raise Failure(f'deployment "{name}" was deleted')
            now = progress(deployment)
            show(key, now, [] if now.done else await _notes(client, deployment))
            if now.done or now.failed:
                return now
    raise AssertionError("an object's states have no end")


async def _notes(client: Client, deployment: Object) -> list[str]:
    """What holds up its pods: back-offs, missing images, no node that fits."""
    selector = str(selector_of(deployment["spec"]["selector"]))
    namespace = deployment["metadata"]["namespace"]
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
    """Follow the rollout of a deployment."""


@command.command("status")
@click.argument("what", nargs=-1, metavar="deployment/NAME")
@wait_options
@connection_options
@pass_session
def status(session: Session, what: tuple[str, ...], wait: bool | None, timeout: float) -> None:
    """Wait until a deployment is rolled out: `rollout status deployment/web`."""
    target = one_of(find_targets(what))
    if target.resource is not DEPLOYMENT:
        raise Usage(f"{target.resource.plural} have no rollout: name a deployment")

    async def work(client: Client) -> None:
        if wait is False:
            echo(progress(await client.get(DEPLOYMENT, target.name, session.namespace)).text)
            return
        await client.get(DEPLOYMENT, target.name, session.namespace)  # 404 now, not never
        targets: list[tuple[Target, str | None]] = [(target, session.namespace)]
        await follow(client, targets, wait=True, timeout_seconds=timeout)

    session.run(work)
