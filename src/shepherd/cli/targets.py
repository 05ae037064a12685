"""What a command line names: `pods`, `deploy/web`, `pod a b`, `deployments,services`, `all`.

Pure: `kinds` asks the cluster what kinds there are to choose from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shepherd.api.errors import qualified
from shepherd.api.kinds import RESOURCES
from shepherd.api.resource import Resource
from shepherd.cli.session import Usage


class UnknownKind(Usage):
    """A word names none of the kinds."""


@dataclass(frozen=True, slots=True)
class Target:
    """One resource, and one object of it or (no name) all."""

    resource: Resource
    name: str = ""


def find_resource(text: str, among: Sequence[Resource] = RESOURCES) -> Resource:
    """By plural, singular, short name or kind, with the group or without. Raises UnknownKind."""
    wanted, _, group = text.lower().partition(".")
    for resource in among:
        names = (
            resource.plural,
            resource.singular or resource.kind.lower(),
            *resource.short_names,
            resource.kind.lower(),
        )
        if wanted in names and group in ("", resource.group):
            return resource
    known = ", ".join(sorted({resource.plural for resource in among}))
    raise UnknownKind(f'unknown resource "{text}": there are {known}')


def find_targets(
    arguments: tuple[str, ...], among: Sequence[Resource] = RESOURCES, *, categories: bool = False
) -> list[Target]:
    """The targets that arguments name, of kinds that are there. Raises Usage.

    A category, such as `all`, stands for its kinds if `among` is all that the cluster serves.
    """
    if not arguments:
        raise Usage("name a resource, such as pods or deployment/web")
    if any("/" in argument for argument in arguments):
        return [_slashed(argument, among) for argument in arguments]
    kinds, *names = arguments
    resources = list(_resources(kinds, among, categories=categories))
    if not names:
        return [Target(resource) for resource in resources]
    if len(resources) > 1:
        raise Usage("names fit one resource only: write them as pod/a service/b")
    return [Target(resources[0], name) for name in names]


def one_of(targets: list[Target]) -> Target:
    """The only one, an object. Raises Usage."""
    if len(targets) != 1 or not targets[0].name:
        raise Usage("name one object, such as deployment/web")
    return targets[0]


def _slashed(argument: str, among: Sequence[Resource]) -> Target:
    kind, slash, name = argument.partition("/")
    if not slash or not name:
        raise Usage(f'"{argument}" does not name an object: write TYPE/NAME everywhere')
    return Target(find_resource(kind, among), name)


def _resources(kinds: str, among: Sequence[Resource], *, categories: bool) -> Iterator[Resource]:
    for kind in kinds.split(","):
        members: dict[str, Resource] = {}
        for resource in among if categories else ():
            if kind in resource.categories:
                members.setdefault(resource.storage, resource)  # preferred versions come first
        if members:
            yield from members.values()
        else:
            yield find_resource(kind, among)


def reference(resource: Resource, name: str) -> str:
    """`pod/web-1`, `deployment.apps/web`: how an object is named in what commands print."""
    return f"{qualified(resource.group, resource.kind.lower())}/{name}"
