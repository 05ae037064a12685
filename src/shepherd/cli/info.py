"""`sheepctl info`: what cluster this is, and how it is doing."""

import asyncio
import json
from collections import Counter

import click

from shepherd.api.errors import ApiError
from shepherd.api.kinds import DEPLOYMENT, NODE, POD, SERVICE
from shepherd.api.kinds.podsummary import summarize
from shepherd.api.resource import Object
from shepherd.cli.output import echo, echo_document, output_option, style
from shepherd.cli.session import Session, connection_options, pass_session
from shepherd.client.base import Client

_RANGES = ("podCIDR", "serviceCIDR", "clusterDomain")
_TITLES = dict(zip(_RANGES, ("Pod addresses", "Service addresses", "Domain"), strict=True))
"""Of what is not simply its name with a capital."""


@click.command("info")
@output_option("json", "yaml")
@connection_options
@pass_session
def command(session: Session, output: str | None) -> None:
    """Show what cluster this is and how it is doing."""

    async def show(client: Client) -> None:
        version, cluster = await asyncio.gather(_get(client, "/version"), _cluster(client))
        nodes, pods, deployments, services = await asyncio.gather(
            client.list(NODE), client.list(POD), client.list(DEPLOYMENT), client.list(SERVICE)
        )
        facts = {
            "server": session.server,
            "version": version.get("gitVersion", ""),
            "namespace": session.namespace,
            **{name: cluster.get(name, "") for name in _RANGES},
            "nodes": _nodes(nodes.items),
            "pods": _pods(pods.items),
            "deployments": str(len(deployments.items)),
            "services": str(len(services.items)),
        }
        facts = {name: text for name, text in facts.items() if text}
        if output:
            echo_document(output, facts)
            return
        for name, text in facts.items():
            title = _TITLES.get(name) or name.capitalize()
            echo(f"{style(f'{title}:'.ljust(20), bold=True)}{text}")

    session.run(show)


async def _get(client: Client, path: str) -> Object:
    answer: Object = json.loads(await client.raw("GET", path))
    return answer


async def _cluster(client: Client) -> Object:
    """What only a Shepherd server tells; nothing of any other."""
    try:
        return await _get(client, "/shepherd/v1/cluster")
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        return {}


def _nodes(nodes: list[Object]) -> str:
    status = NODE.columns[0]
    ready = sum(str(status.cell(node, 0)).startswith("Ready") for node in nodes)
    return f"{ready} of {len(nodes)} ready"


def _pods(pods: list[Object]) -> str:
    counts = Counter(summarize(pod).status for pod in pods)
    parts = [f"{count} {status}" for status, count in counts.most_common()]
    return f"{len(pods)}" + (f" ({', '.join(parts)})" if parts else "")
