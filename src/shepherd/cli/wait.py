"""`sheepctl wait`: until one of several conditions holds, or none of them can hold any more.

kubectl's waits for one condition and, if that will never come, waits out its time: a Job that has
failed is not seen by who waits for it to complete (kubernetes/kubectl#1482).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import click

from shepherd.api.jsonpath import JsonPathError, parse
from shepherd.api.kinds import DEPLOYMENT, POD
from shepherd.api.resource import Object, Resource
from shepherd.cli import reasons
from shepherd.cli.kinds import Kinds
from shepherd.cli.output import echo
from shepherd.cli.session import Failure, Session, Usage, connection_options, pass_session
from shepherd.cli.states import states
from shepherd.cli.targets import Target, reference
from shepherd.cli.why import Inquiry
from shepherd.client.base import Client

_ENDS = {
    "Job": ("Complete", "Failed"),
    "CertificateSigningRequest": ("Denied", "Failed"),
}
"""By kind: the conditions after which no other comes."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is waited for."""

    text: str
    """As the user wrote it."""
    holds: Callable[[Object | None], bool]
    """Whether it holds for the object (None: there is none)."""
    condition: str = ""
    """The type of the condition that is to come, in lower case."""


def parse_wish(text: str) -> Wish:
    """A value of --for: `delete`, `create`, `[condition=]TYPE[=STATUS]`, `jsonpath={...}[=VALUE]`.

    Raises Usage.
    """
    if text == "delete":
        return Wish(text, lambda obj: obj is None)
    if text == "create":
        return Wish(text, lambda obj: obj is not None)
    if text.startswith("jsonpath="):
        return _jsonpath_wish(text)
    kind, _, status = text.removeprefix("condition=").partition("=")
    if not kind:
        raise Usage(f'"{text}" is nothing to wait for: name a condition, as --for=Ready')
    kind, status = kind.lower(), (status or "True").lower()
    return Wish(text, lambda obj: obj is not None and _said(obj).get(kind) == status, kind)


def _jsonpath_wish(text: str) -> Wish:
    path, closed, value = text.removeprefix("jsonpath=").partition("}")
    if not closed or value[:1] not in ("", "="):
        raise Usage(f'"{text}": write it as jsonpath={{.status.phase}}=Running')
    try:
        found_by = parse(path + closed)
    except JsonPathError as error:
        raise Usage(f'"{text}": {error}') from error
    wanted = value[1:]

    def holds(obj: Object | None) -> bool:
        found = found_by.first(obj) if obj is not None else None
        if isinstance(found, bool):
            found = str(found).lower()
        return found is not None and (not wanted or str(found) == wanted)

    return Wish(text, holds)


def _said(obj: Object) -> dict[str, str]:
    """The status of each condition of an object's present generation, all in lower case."""
    status, generation = obj.get("status") or {}, obj["metadata"].get("generation") or 0
    return {
        str(c.get("type")).lower(): str(c.get("status")).lower()
        for c in status.get("conditions") or ()
        if (c.get("observedGeneration") or status.get("observedGeneration") or generation)
        >= generation
    }


def hopeless(resource: Resource, obj: Object, wishes: Sequence[Wish]) -> str:
    """Why none of the conditions that are wished for can come any more, or nothing."""
    if not all(wish.condition for wish in wishes):
        return ""
    said, status = _said(obj), obj.get("status") or {}
    for end in _ENDS.get(resource.kind, ()):
        if said.get(end.lower()) == "true":
            return _told(obj, end)
    if resource is POD and status.get("phase") in ("Failed", "Succeeded"):
        return f"it has ended: {status.get('reason') or status['phase']}"
    if resource is DEPLOYMENT:
        conditions = {c["type"]: c.get("reason") for c in status.get("conditions") or ()}
        if conditions.get("Progressing") == "ProgressDeadlineExceeded":
            return _told(obj, "Progressing")
    return ""


def _told(obj: Object, kind: str) -> str:
    """What a condition says."""
    found = next(c for c in obj["status"]["conditions"] if c["type"] == kind)
    return f"{kind}={found['status']}, {found.get('reason')}: {found.get('message')}"


@click.command("wait")
@click.argument("what", nargs=-1, metavar="TYPE/NAME")
@click.option(
    "--for",
    "wanted",
    multiple=True,
    metavar="WHAT",
    help="A condition (Ready, condition=Available=False), delete, create or "
    "jsonpath={.status.phase}=Running. Given several times: until one of them holds.",
)
@click.option("--timeout", default=600.0, help="How many seconds to wait at most (600).")
@connection_options
@pass_session
def command(
    session: Session, what: tuple[str, ...], wanted: tuple[str, ...], timeout: float
) -> None:
    """Wait until a condition holds: `wait job/backup --for=Complete --for=Failed`.

    Ends at once, with exit code 1 and the cause, when none of them can hold any more.
    """
    if not wanted:
        raise Usage("say what to wait for, as --for=Ready")
    wishes = [parse_wish(text) for text in wanted]

    async def work(client: Client) -> None:
        target = await Kinds(client).target(what)
        space = session.namespace if target.resource.namespaced else None
        met = await _wait(client, target, space, wishes, timeout)
        name = reference(target.resource, target.name)
        echo(f"{name} condition met" + (f": {met.text}" if len(wishes) > 1 else ""))

    session.run(work)


async def _wait(
    client: Client, target: Target, space: str | None, wishes: Sequence[Wish], seconds: float
) -> Wish:
    """The first wish that holds. Raises Failure with the cause if none does in time or ever."""
    resource, name = target.resource, reference(target.resource, target.name)
    last: Object | None = None
    try:
        async with (
            asyncio.timeout(seconds),
            aclosing(states(client, resource, target.name, space)) as seen,
        ):
            async for obj in seen:
                for wish in wishes:
                    if wish.holds(obj):
                        return wish
                if obj is None and (last or all(wish.text != "create" for wish in wishes)):
                    raise Failure(f"{name} is not there" + (" any more" if last else ""))
                if obj is not None and (cause := hopeless(resource, obj, wishes)):
                    raise Failure(f"{name} will not come to it: {cause}")
                last = obj
    except TimeoutError:
        pass
    wanted = " or ".join(wish.text for wish in wishes)
    text = f"{name} has not come to {wanted} within {seconds:g} s"
    causes = reasons.lines(await Inquiry(client).about(resource, last)) if last else []
    raise Failure("; ".join([text, *map(str.strip, causes)]))
