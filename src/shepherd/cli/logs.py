"""`sheepctl logs`: what containers print; of several pods at once if there are several."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

import click

from shepherd.api.errors import ApiError
from shepherd.api.kinds import POD
from shepherd.api.resource import Object
from shepherd.cli.output import style
from shepherd.cli.pods import pods_of
from shepherd.cli.session import (
    Failure,
    Session,
    Usage,
    connection_options,
    pass_session,
    warn,
)
from shepherd.cli.targets import Target, find_targets
from shepherd.client.base import Client

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_magenta")
_MAX_STREAMS = 64
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:[0-9]+[smhd])+")


@dataclass(frozen=True, slots=True)
class Stream:
    """The log of one container."""

    namespace: str
    pod: str
    container: str

    @property
    def path(self) -> str:
        return POD.path(self.namespace, self.pod, "log")


def seconds_of(text: str) -> int:
    """`90s`, `5m`, `1h30m` in seconds. Raises Usage."""
    if not _DURATION.fullmatch(text):
        raise Usage(f'"{text}" is no duration such as 90s, 5m or 1h30m')
    return sum(int(n) * _SECONDS[unit] for n, unit in re.findall("([0-9]+)([smhd])", text))


@click.command("logs")
@click.argument("what", nargs=-1, metavar="POD | TYPE/NAME")
@click.option("-c", "--container", default="", help="Of this container (default: the first).")
@click.option("--all-containers", is_flag=True, help="Of every container.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is printed from now on.")
@click.option("-l", "--selector", default="", help="Of the pods with these labels: app=web.")
@click.option("-p", "--previous", is_flag=True, help="Of the container before its last restart.")
@click.option("--tail", type=int, default=-1, help="Only the last lines.")
@click.option("--since", default="", help="Only what is younger: 90s, 5m, 1h30m.")
@click.option("--since-time", default="", help="Only what came after an RFC 3339 time.")
@click.option("--timestamps", is_flag=True, help="With the time of each line.")
@click.option("--prefix/--no-prefix", default=None, help="Name the pod before each line.")
@connection_options
@pass_session
def command(
    session: Session,
    what: tuple[str, ...],
    container: str,
    all_containers: bool,
    follow: bool,
    selector: str,
    previous: bool,
    tail: int,
    since: str,
    since_time: str,
    timestamps: bool,
    prefix: bool | None,
) -> None:
    """Show what containers print: `logs web-1`, `logs deployment/web -f`, `logs -l app=web`."""
    if bool(what) == bool(selector):
        raise Usage("name a pod, or something that has pods such as deployment/web, or use -l")
    query = {
        "follow": "true" if follow else "",
        "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "",
        "tailLines": str(tail) if tail >= 0 else "",
        "sinceSeconds": str(seconds_of(since)) if since else "",
        "sinceTime": since_time,
    }
    query = {name: value for name, value in query.items() if value}

    async def work(client: Client) -> None:
        pods = await _pods(client, session.namespace, what, selector)
        streams = [s for pod in pods for s in streams_of(pod, container, every=all_containers)]
        if len(streams) > _MAX_STREAMS:
            raise Failure(f"{len(streams)} logs at once are too many: choose fewer with -l or -c")
        named = len(streams) > 1 if prefix is None else prefix
        copies = [
            _copy(client, stream, query, index if named else None, alone=len(streams) == 1)
            for index, stream in enumerate(streams)
        ]
        if follow:
            await asyncio.gather(*copies)
        else:
            for copy in copies:
                await copy

    session.run(work)


async def _pods(
    client: Client, namespace: str, what: tuple[str, ...], selector: str
) -> list[Object]:
    """The pods that are meant, the oldest name first. Raises Failure when there are none."""
    if selector:
        found = await client.list(POD, namespace, label_selector=selector)
        return _some(found.items, f"with labels {selector}")
    pods: list[Object] = []
    for target in _targets(what):
        if target.resource is POD:
            pods.append(await client.get(POD, target.name, namespace))
            continue
        selected, _ = await pods_of(client, target, namespace)
        pods += _some(selected, f"of {target.resource.kind.lower()}/{target.name}")
    return pods


def _targets(what: tuple[str, ...]) -> list[Target]:
    if not any("/" in name for name in what):
        return [Target(POD, name) for name in what]
    return find_targets(what)


def _some(pods: list[Object], which: str) -> list[Object]:
    if not pods:
        raise Failure(f"there are no pods {which}")
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))


def streams_of(pod: Object, container: str, *, every: bool) -> list[Stream]:
    """The logs of a pod that are meant. Raises Failure for a container that it does not have."""
    spec, metadata = pod["spec"], pod["metadata"]
    init = [item["name"] for item in spec.get("initContainers") or ()]
    names = [item["name"] for item in spec["containers"]]
    if container and container not in init + names:
        known = ", ".join(init + names)
        raise Failure(f'pod {metadata["name"]} has no container "{container}": it has {known}')
    chosen = init + names if every else [container or names[0]]
    return [Stream(metadata["namespace"], metadata["name"], name) for name in chosen]


async def _copy(
    client: Client, stream: Stream, query: dict[str, str], colour: int | None, *, alone: bool
) -> None:
    """Write a log to standard output; with a colour's number, the pod's name before each line.

    One of several that cannot be had does not end the others.
    """
    asked = query | {"container": stream.container}
    try:
        chunks = await client.stream("GET", stream.path, query=asked, accept="*/*")
    except ApiError as error:
        if alone:
            raise
        warn(f"{stream.pod}/{stream.container}: {error.message}")
        return
    prefix = b""
    if colour is not None:
        name = f"[{stream.pod}/{stream.container}] "
        prefix = style(name, fg=_COLOURS[colour % len(_COLOURS)]).encode()
    try:
        await _write(chunks, prefix)
    finally:
        if aclose := getattr(chunks, "aclose", None):
            await aclose()


async def _write(chunks: AsyncIterator[bytes], prefix: bytes) -> None:
    out = sys.stdout.buffer
    if not prefix:
        async for chunk in chunks:
            out.write(chunk)
            out.flush()
        return
    async with aclosing(_lines(chunks)) as lines:
        async for line in lines:
            out.write(prefix + line)
            out.flush()


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Whole lines with their ends, so that those of several pods never mix."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest + b"\n"
