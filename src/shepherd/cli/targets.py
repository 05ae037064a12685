"""What a command line names: `pods`, `deploy/web`, `pod a b`, `deployments,services`, `all`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shepherd.api.errors import qualified
from shepherd.api.kinds import RESOURCES
from shepherd.api.resource import Object, Resource
from shepherd.cli.session import Usage


@dataclass(frozen=True, slots=True)
class Target:
    """One resource, and one object of it or (no name) all."""

    resource: Resource
    name: str = ""


def find_resource(text: str, among: Sequence[Resource] = RESOURCES) -> Resource:
    """By plural, singular, short name or kind, with the group or without. Raises Usage."""
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
    known = ", ".join(sorted(resource.plural for resource in among))
    raise Usage(f'unknown resource "{text}": there are {known}')


def resource_of(obj: Object) -> Resource:
    """The resource of a manifest. Raises Usage."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    for resource in RESOURCES:
        versions = [f"{group}/{version}" for group, version in resource.aliases]
        if resource.kind == kind and api_version in (resource.api_version, *versions):
            return resource
    raise Usage(f"{kind} of {api_version} is not a kind that this cluster has")


def find_targets(arguments: tuple[str, ...], among: Sequence[Resource] = RESOURCES) -> list[Target]:
    """The targets that arguments name, of kinds that are there. Raises Usage."""
    if not arguments:
        raise Usage("name a resource, such as pods or deployment/web")
    if any("/" in argument for argument in arguments):
        return [_slashed(argument, among) for argument in arguments]
    kinds, *names = arguments
    resources = list(_resources(kinds, among))
    if not names:
        return [Target(resource) for resource in resources]
    if len(resources) > 1:
        raise Usage("names fit one resource only: write them as pod/a service/b")
    return [Target(resources[0], name) for name in names]


def find_object(arguments: tuple[str, ...], among: Sequence[Resource] = RESOURCES) -> Target:
    """The one object that arguments name. Raises Usage."""
    targets = find_targets(arguments, among)
    if len(targets) != 1 or not targets[0].name:
        raise Usage("name one object, such as deployment/web")
    return targets[0]


def _slashed(argument: str, among: Sequence[Resource]) -> Target:
    kind, slash, name = argument.partition("/")
    if not slash or not name:
        raise Usage(f'"{argument}" does not name an object: write TYPE/NAME everywhere')
    return Target(find_resource(kind, among), name)


def _resources(kinds: str, among: Sequence[Resource]) -> Iterator[Resource]:
    for kind in kinds.split(","):
        if kind == "all":
            yield from (resource for resource in among if "all" in resource.categories)
        else:
            yield find_resource(kind, among)


def reference(resource: Resource, name: str) -> str:
    """`pod/web-1`, `deployment.apps/web`: how an object is named in what commands print."""
    return f"{qualified(resource.group, resource.kind.lower())}/{name}"
