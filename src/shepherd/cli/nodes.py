"""`sheepctl nodes`: the nodes, and how much of each is spoken for."""

import asyncio
import time
from collections import defaultdict

import click

from shepherd.api.kinds import NODE, POD
from shepherd.api.kinds.cells import age
from shepherd.api.quantity import NANO, Quantity, quantity
from shepherd.api.resource import Object
from shepherd.cli.output import echo, echo_document, echo_table, list_of, output_option
from shepherd.cli.session import Session, connection_options, pass_session
from shepherd.cli.targets import reference
from shepherd.client.base import Client

HEADERS = ("NAME", "STATUS", "ROLES", "AGE", "IP", "PODS", "CPU", "MEMORY", "VERSION", "RUNTIME")
_MEBI = 2**20


@click.command("nodes")
@output_option("wide", "name", "json", "yaml")
@connection_options
@pass_session
def command(session: Session, output: str | None) -> None:
    """Show the nodes with the pods on them and what those have requested."""

    async def show(client: Client) -> None:
        nodes, pods = await asyncio.gather(client.list(NODE), client.list(POD))
        if not nodes.items:
            click.echo("No nodes have joined yet.", err=True)
        elif output == "name":
            for node in nodes.items:
                echo(reference(NODE, node["metadata"]["name"]))
        elif output in ("json", "yaml"):
            echo_document(output, list_of(NODE, nodes.items))
        else:
            echo_table(HEADERS, node_rows(nodes.items, pods.items, time.time()))

    session.run(show)


def running(pod: Object) -> bool:
    """It has not ended, so it takes up its share of its node."""
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def node_rows(nodes: list[Object], pods: list[Object], now: float) -> list[list[object]]:
    placed: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        if running(pod):
            placed[pod["spec"].get("nodeName", "")].append(pod)
    return [_row(node, placed[node["metadata"]["name"]], now) for node in nodes]


def _row(node: Object, pods: list[Object], now: float) -> list[object]:
    cells = {column.name: column.cell(node, now) for column in NODE.columns}
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    cpu, memory = requested(pods, "cpu"), requested(pods, "memory")
    return [
        node["metadata"]["name"],
        cells["Status"],
        cells["Roles"],
        age(node, now),
        cells["Internal-IP"],
        f"{len(pods)}/{allocatable.get('pods', '?')}",
        f"{_cores(cpu)}/{_cores(quantity(allocatable.get('cpu', 0)))}",
        f"{_mebibytes(memory)}/{_mebibytes(quantity(allocatable.get('memory', 0)))}Mi",
        cells["Version"],
        cells["Container-Runtime"],
    ]


def requested(pods: list[Object], name: str) -> Quantity:
    """What the containers of pods have asked for together."""
    total = Quantity(0)
    for pod in pods:
        for container in pod["spec"].get("containers") or ():
            requests = (container.get("resources") or {}).get("requests") or {}
            total += quantity(requests.get(name, 0))
    return total


def _cores(amount: Quantity) -> str:
    return f"{amount.nano / NANO:g}"


def _mebibytes(amount: Quantity) -> int:
    return amount.value // _MEBI
