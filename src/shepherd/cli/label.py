"""`sheepctl label`: set and remove labels of objects."""

from collections.abc import Iterable

import click

from shepherd.api.resource import Object
from shepherd.cli.kinds import Kinds
from shepherd.cli.output import echo
from shepherd.cli.session import Failure, Session, Usage, connection_options, pass_session
from shepherd.cli.targets import reference
from shepherd.client.base import Client

Labels = dict[str, str | None]
"""Values by key; None removes the label."""


@click.command("label")
@click.argument("words", nargs=-1, metavar="TYPE NAME... | TYPE/NAME... KEY=VALUE... KEY-...")
@click.option("--overwrite", is_flag=True, help="Change labels that are there already.")
@connection_options
@pass_session
def command(session: Session, words: tuple[str, ...], overwrite: bool) -> None:
    """Set and remove labels: `label node n1 disk=ssd old-`."""
    what, wanted = parse(words)

    async def work(client: Client) -> None:
        for target in await Kinds(client).targets(what):
            if not target.name:
                raise Usage(f"name the {target.resource.plural} to label")
            space = session.namespace if target.resource.namespaced else None
            obj = await client.get(target.resource, target.name, space)
            name = reference(target.resource, target.name)
            if (taken := conflicts(obj, wanted)) and not overwrite:
                raise Failure(f"{name} has {', '.join(taken)} already: --overwrite changes that")
            await client.patch(
                target.resource, target.name, space, {"metadata": {"labels": wanted}}
            )
            echo(f"{name} labeled")

    session.run(work)


def parse(words: Iterable[str]) -> tuple[tuple[str, ...], Labels]:
    """What is named, and its labels: `KEY=VALUE` sets one, `KEY-` removes one. Raises Usage."""
    what: list[str] = []
    labels: Labels = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            labels[key] = value
        elif word.endswith("-"):
            labels[word[:-1]] = None
        else:
            what.append(word)
    if not labels:
        raise Usage("say which labels: KEY=VALUE sets one, KEY- removes one")
    return tuple(what), labels


def conflicts(obj: Object, wanted: Labels) -> list[str]:
    """The labels that have another value now."""
    present = obj["metadata"].get("labels") or {}
    return [
        f"{key}={present[key]}"
        for key, value in wanted.items()
        if value is not None and present.get(key, value) != value
    ]
