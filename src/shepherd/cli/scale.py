"""`sheepctl scale`: change the number of replicas."""

import click

from shepherd.cli.kinds import Kinds
from shepherd.cli.output import echo
from shepherd.cli.rollout import follow, has_rollouts, wait_options
from shepherd.cli.session import Session, Usage, connection_options, pass_session
from shepherd.cli.targets import Target, reference
from shepherd.client.base import Client


@click.command("scale")
@click.argument("what", nargs=-1, metavar="TYPE/NAME...")
@click.option("--replicas", type=click.IntRange(0), required=True, help="How many there shall be.")
@wait_options
@connection_options
@pass_session
def command(
    session: Session, what: tuple[str, ...], replicas: int, wait: bool | None, timeout: float
) -> None:
    """Change the number of replicas: `scale deployment/web --replicas=5`."""

    async def work(client: Client) -> None:
        targets = await Kinds(client).targets(what)
        for target in targets:
            if not target.resource.scale or not target.name:
                raise Usage("name what can be scaled, such as deployment/web")
        for target in targets:
            patch = {"spec": {"replicas": replicas}}
            await client.patch(target.resource, target.name, session.namespace, patch, sub="scale")
            echo(f"{reference(target.resource, target.name)} scaled")
        followed: list[tuple[Target, str | None]] = [
            (target, session.namespace) for target in targets if has_rollouts(target.resource)
        ]
        await follow(client, followed, wait=wait, timeout_seconds=timeout)

    session.run(work)
