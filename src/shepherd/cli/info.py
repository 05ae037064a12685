"""`sheepctl info`: what cluster this is, and how it is doing."""

import asyncio
import json
from collections import Counter

import click

from shepherd.api.errors import ApiError
from shepherd.api.kinds import DEPLOYMENT, NODE, POD, SERVICE
from shepherd.api.kinds.podsummary import summarize
from shepherd.api.resource import Object
from shepherd.cli.output import echo, style
from shepherd.cli.session import Session, connection_options, pass_session
from shepherd.client.base import Client

_RANGES = {
    "podCIDR": "Pod addresses",
    "serviceCIDR": "Service addresses",
    "clusterDomain": "Domain",
}


@click.command("info")
@connection_options
@pass_session
def command(session: Session) -> None:
    """Show what cluster this is and how it is doing."""

    async def show(client: Client) -> None:
        version, cluster = await asyncio.gather(_get(client, "/version"), _cluster(client))
        nodes, pods, deployments, services = await asyncio.gather(
            client.list(NODE), client.list(POD), client.list(DEPLOYMENT), client.list(SERVICE)
        )
        lines = {
            "Server": session.server,
            "Version": version.get("gitVersion", ""),
            "Namespace": session.namespace,
            **{title: cluster.get(key, "") for key, title in _RANGES.items()},
            "Nodes": _nodes(nodes.items),
            "Pods": _pods(pods.items),
            "Deployments": str(len(deployments.items)),
            "Services": str(len(services.items)),
        }
        for title, text in lines.items():
            if text:
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
