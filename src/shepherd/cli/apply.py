"""`sheepctl apply`: create what is missing, change what differs, tell when it has come about."""

import click

from shepherd.api.errors import ApiError
from shepherd.api.resource import Object
from shepherd.api.schema import type_of
from shepherd.cli.kinds import Kinds
from shepherd.cli.manifests import Manifest, read_manifests
from shepherd.cli.output import echo
from shepherd.cli.rollout import follow, has_rollouts, wait_options
from shepherd.cli.session import Failure, Session, connection_options, pass_session
from shepherd.cli.targets import Target, reference
from shepherd.cli.threeway import apply_patch, last_applied, with_last_applied
from shepherd.client.base import Client

_STRICT = {"fieldValidation": "Strict"}


@click.command("apply")
@click.option("-f", "--filename", multiple=True, help="A file, a directory, or - (standard input).")
@click.option("--dry-run", is_flag=True, help="Let the server check everything, change nothing.")
@wait_options
@connection_options
@pass_session
def command(
    session: Session,
    filename: tuple[str, ...],
    dry_run: bool,
    wait: bool | None,
    timeout: float,
) -> None:
    """Make the cluster hold the objects of files: `apply -f web.yaml`."""
    documents = read_manifests(filename)

    async def work(client: Client) -> None:
        kinds = Kinds(client)
        rolled: list[tuple[Target, str | None]] = []
        failed: list[str] = []
        for document in documents:
            manifest = await document.known(kinds)  # one before it may have defined it
            try:
                done = await apply(client, manifest, session.namespace, dry_run=dry_run)
            except ApiError as error:
                failed.append(f"{manifest.source}: {error.message}")
                continue
            name = reference(manifest.resource, manifest.name)
            echo(f"{name} {done}{' (server dry run)' if dry_run else ''}")
            if has_rollouts(manifest.resource):
                target = Target(manifest.resource, manifest.name)
                rolled.append((target, manifest.namespace(session.namespace)))
        if failed:
            raise Failure("; ".join(failed))
        if not dry_run:
            await follow(client, rolled, wait=wait, timeout_seconds=timeout)

    session.run(work)


async def apply(client: Client, manifest: Manifest, default: str, *, dry_run: bool) -> str:
    """Bring one object about; `created`, `configured` or `unchanged`."""
    resource, namespace = manifest.resource, manifest.namespace(default)
    params = _STRICT | ({"dryRun": "All"} if dry_run else {})
    wanted = with_last_applied(_placed(manifest.obj, namespace))
    try:
        present = await client.get(resource, manifest.name, namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        await client.create(resource, wanted, namespace, params=params)
        return "created"
    patch = apply_patch(resource, last_applied(present), wanted)
    known = type_of(resource.group, resource.version, resource.kind)
    changed = await client.patch(
        resource, manifest.name, namespace, patch,
        type="strategic" if known else "merge", params=params,
    )  # fmt: skip
    if changed["metadata"].get("resourceVersion") == present["metadata"]["resourceVersion"]:
        return "unchanged"
    return "configured"


def _placed(obj: Object, namespace: str | None) -> Object:
    if namespace is None:
        return obj
    return obj | {"metadata": obj["metadata"] | {"namespace": namespace}}
