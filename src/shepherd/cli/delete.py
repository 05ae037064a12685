"""`sheepctl delete`: remove objects, and wait until they are gone."""

import asyncio
from contextlib import aclosing

import click

from shepherd.api.errors import ApiError, qualified
from shepherd.api.resource import Resource
from shepherd.cli.kinds import Kinds
from shepherd.cli.manifests import read_manifests
from shepherd.cli.output import echo
from shepherd.cli.session import Failure, Session, Usage, connection_options, pass_session
from shepherd.cli.states import states
from shepherd.client.base import Client

_CASCADES = ("background", "foreground", "orphan")

Doomed = tuple[Resource, str | None, str]
"""A resource, a namespace and a name."""


@click.command("delete")
@click.argument("what", nargs=-1, metavar="TYPE NAME... | TYPE/NAME... | TYPE --all")
@click.option("-f", "--filename", multiple=True, help="Delete the objects of these files.")
@click.option("-l", "--selector", default="", help="Those with these labels: app=web.")
@click.option("--all", "every", is_flag=True, help="All of the type in the namespace.")
@click.option("--grace-period", type=int, help="Seconds that pods get to stop.")
@click.option("--now", is_flag=True, help="The same as --grace-period=1.")
@click.option("--force", is_flag=True, help="Forget pods at once, even if they still run.")
@click.option("--cascade", type=click.Choice(_CASCADES), default="background",
              help="What happens to what the objects own.")  # fmt: skip
@click.option("--wait/--no-wait", default=True, help="Until the objects are gone (the default).")
@click.option("--timeout", default=600.0, help="How many seconds to wait at most (600).")
@click.option("--ignore-not-found", is_flag=True, help="What is not there counts as deleted.")
@connection_options
@pass_session
def command(
    session: Session,
    what: tuple[str, ...],
    filename: tuple[str, ...],
    selector: str,
    every: bool,
    grace_period: int | None,
    now: bool,
    force: bool,
    cascade: str,
    wait: bool,
    timeout: float,
    ignore_not_found: bool,
) -> None:
    """Delete objects: `delete pod web-1`, `delete -f web.yaml`, `delete pods -l app=web`."""
    if bool(what) == bool(filename):
        raise Usage("say what to delete, either by name or with -f")
    grace = 0 if force else 1 if now else grace_period
    documents = read_manifests(filename) if filename else []

    async def work(client: Client) -> None:
        if documents:
            kinds = Kinds(client)
            manifests = [await document.known(kinds) for document in documents]
            doomed = [(m.resource, m.namespace(session.namespace), m.name) for m in manifests]
        else:
            doomed = await _chosen(client, session.namespace, what, selector, every=every)
        marked: list[tuple[Doomed, str]] = []
        failed: list[str] = []
        for resource, namespace, name in doomed:
            try:
                answer = await client.delete(
                    resource, name, namespace, grace_seconds=grace, propagation=cascade.title()
                )
            except ApiError as error:
                if error.code != 404 or not ignore_not_found:
                    failed.append(error.message)
                continue
            where = f" from {namespace} namespace" if namespace else ""
            echo(f'{qualified(resource.group, resource.kind.lower())} "{name}" deleted{where}')
            uid = (answer.get("metadata") or {}).get("uid") or ""
            marked.append(((resource, namespace, name), uid))
        if wait and not force:
            await _wait(client, marked, timeout)
        if failed:
            raise Failure("; ".join(failed))

    session.run(work)


async def _chosen(
    client: Client, namespace: str, what: tuple[str, ...], selector: str, *, every: bool
) -> list[Doomed]:
    """The objects that names or a selector choose."""
    chosen: list[Doomed] = []
    for target in await Kinds(client).targets(what):
        space = namespace if target.resource.namespaced else None
        if target.name:
            chosen.append((target.resource, space, target.name))
        elif selector or every:
            found = await client.list(target.resource, space, label_selector=selector)
            chosen += [(target.resource, space, o["metadata"]["name"]) for o in found.items]
        else:
            raise Usage(f"name the {target.resource.plural}, or choose them with -l or --all")
    if not chosen:
        click.echo("No resources found.", err=True)
    return chosen


async def _wait(client: Client, marked: list[tuple[Doomed, str]], timeout_seconds: float) -> None:
    """Until everything is gone. Raises Failure at the time-out."""
    try:
        async with asyncio.timeout(timeout_seconds):
            for doomed, uid in marked:
                await _gone(client, *doomed, uid)
    except TimeoutError:
        resource, _, name = doomed
        where = f"{resource.kind.lower()}/{name}"
        text = f"{where} is still there after {timeout_seconds:g} s"
        raise Failure(f"{text}: see `sheepctl why {where}`") from None


async def _gone(
    client: Client, resource: Resource, namespace: str | None, name: str, uid: str
) -> None:
    """Until no object of that name has the uid that was deleted."""
    async with aclosing(states(client, resource, name, namespace)) as seen:
        async for obj in seen:
            if obj is None or obj["metadata"]["uid"] != uid:
                return
