"""`sheepctl image`: bring images onto nodes without a registry, and see which are there."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import click

from shepherd.api.errors import ApiError
from shepherd.api.kinds import NODE
from shepherd.api.resource import Object
from shepherd.cli.output import echo, echo_document, echo_table, output_option
from shepherd.cli.session import Failure, Session, connection_options, pass_session
from shepherd.client.base import Client

_CHUNK_BYTES = 2**20
_ID_LENGTH = 12

node_option = click.option("--node", default="", help="Only on this node (default: on all).")


@click.group("image")
def command() -> None:
    """Load and list images on nodes."""


@command.command("load")
@click.argument("archives", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@node_option
@connection_options
@pass_session
def load(session: Session, archives: tuple[str, ...], node: str) -> None:
    """Import image archives (of `docker save`, `podman save` or `skopeo`) on the nodes."""

    async def work(client: Client) -> None:
        nodes = await _nodes(client, node)
        for archive in archives:
            for name in nodes:
                for image in await _load(client, name, archive):
                    names = ", ".join(image.get("names") or ()) or image.get("id", "")
                    echo(f"{name}: loaded {names}")

    session.run(work)


async def _load(client: Client, node: str, archive: str) -> list[Object]:
    """Bring an archive onto a node; its images."""
    try:
        answer = await client.raw(
            "POST",
            _path(node, "images/load"),
            body=_chunks(Path(archive)),
            content_type="application/x-tar",
        )
    except ApiError as error:
        raise Failure(f"{node}: {archive}: {error.message}") from error
    return images_of(answer)


@command.command("list")
@node_option
@output_option("json", "yaml")
@connection_options
@pass_session
def list_images(session: Session, node: str, output: str | None) -> None:
    """Show the images that nodes have."""

    async def work(client: Client) -> None:
        found = [
            {"node": name} | image
            for name in await _nodes(client, node)
            for image in images_of(await client.raw("GET", _path(name, "images")))
        ]
        if output:
            echo_document(output, {"images": found})
            return
        rows = [row for image in found for row in image_rows(image["node"], image)]
        if not rows:
            click.echo("No images found.", err=True)
            return
        echo_table(("NODE", "IMAGE", "ID", "SIZE"), rows)

    session.run(work)


def images_of(answer: bytes) -> list[Object]:
    """The images in an agent's answer: id, names and sizeBytes of each."""
    body = json.loads(answer)
    images: list[Object] = body.get("images") or []
    return images


def image_rows(node: str, image: Object) -> list[list[object]]:
    """A row for each tag of an image; one by digest for an image that has none."""
    names = image.get("names") or ["<none>"]
    names = [name for name in names if "@" not in name] or names[:1]
    short = str(image.get("id", "")).removeprefix("sha256:")[:_ID_LENGTH]
    return [[node, name, short, _size(image.get("sizeBytes", 0))] for name in names]


def _size(size_bytes: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes} B"


async def _nodes(client: Client, node: str) -> list[str]:
    names = [item["metadata"]["name"] for item in (await client.list(NODE)).items]
    if node and node not in names:
        raise Failure(f'there is no node "{node}": there are {", ".join(names) or "none"}')
    if not names:
        raise Failure("no nodes have joined yet: there is none to hold images")
    return [node] if node else names


def _path(node: str, rest: str) -> str:
    return f"{NODE.path(name=node)}/proxy/{rest}"


async def _chunks(path: Path) -> AsyncGenerator[bytes, None]:
    """A file as a stream, read beside the event loop."""
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            yield chunk
