"""`sheepctl describe`: an object in full, what belongs to it, and its events.

A pending pod tells why: what the scheduler said about the nodes, ground by ground.
"""

import time

import click

from shepherd.api.kinds import DEPLOYMENT, ENDPOINT_SLICE, NODE, POD, REPLICA_SET, SERVICE
from shepherd.api.resource import Column, Object
from shepherd.api.selectors import selector_of
from shepherd.cli.events import event_rows, events_about
from shepherd.cli.kinds import Kinds
from shepherd.cli.output import echo, table_lines
from shepherd.cli.sections import Section, describe_object
from shepherd.cli.session import Session, Usage, connection_options, pass_session
from shepherd.cli.targets import Target
from shepherd.client.base import Client

_SERVICE_LABEL = "kubernetes.io/service-name"


@click.command("describe")
@click.argument("what", nargs=-1, metavar="TYPE [NAME...] | TYPE/NAME...")
@click.option("-l", "--selector", default="", help="Those with these labels: app=web.")
@connection_options
@pass_session
def command(session: Session, what: tuple[str, ...], selector: str) -> None:
    """Show objects in full, with their events: `describe pod web-1`."""

    async def show(client: Client) -> None:
        targets = await Kinds(client).targets(what)
        if selector and any(target.name for target in targets):
            raise Usage("selectors choose among all objects: leave out the names")
        first = True
        for target in targets:
            for obj in await _objects(client, target, session.namespace, selector):
                if not first:
                    echo("\n")
                first = False
                await _show(client, target, obj)
        if first:
            click.echo(f"No resources found in {session.namespace} namespace.", err=True)

    session.run(show)


async def _objects(client: Client, target: Target, namespace: str, selector: str) -> list[Object]:
    space = namespace if target.resource.namespaced else None
    if target.name:
        return [await client.get(target.resource, target.name, space)]
    return (await client.list(target.resource, space, label_selector=selector)).items


async def _show(client: Client, target: Target, obj: Object) -> None:
    now = time.time()
    sections = [*describe_object(target.resource, obj, now), *await _related(client, target, obj)]
    for section in sections:
        for line in section.lines():
            echo(line)
    events = await events_about(client, target.resource, obj)
    if not events:
        echo("Events:  <none>")
        return
    headers, rows = event_rows(events, now)
    keep = [index for index, header in enumerate(headers) if header != "OBJECT"]
    echo("Events:")
    for line in table_lines([headers[i] for i in keep], [[row[i] for i in keep] for row in rows]):
        echo(f"  {line}")


async def _related(client: Client, target: Target, obj: Object) -> list[Section]:
    """What belongs to the object and is an object of its own."""
    metadata = obj["metadata"]
    namespace, name = metadata.get("namespace"), metadata["name"]
    if target.resource is NODE:
        pods = await client.list(POD, field_selector=f"spec.nodeName={name}")
        return [_table_section("Pods", POD.columns, pods.items, namespaced=True)]
    if target.resource is DEPLOYMENT:
        labels = str(selector_of(obj["spec"]["selector"]))
        found = await client.list(REPLICA_SET, namespace, label_selector=labels)
        owned = [r for r in found.items if _owned(r, metadata["uid"])]
        return [_table_section("Replica sets", REPLICA_SET.columns, owned)]
    if target.resource is SERVICE:
        labels = f"{_SERVICE_LABEL}={name}"
        slices = await client.list(ENDPOINT_SLICE, namespace, label_selector=labels)
        return [_endpoints(slices.items)]
    return []


def _owned(obj: Object, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences") or ())


def _table_section(
    title: str, columns: tuple[Column, ...], objects: list[Object], *, namespaced: bool = False
) -> Section:
    shown = [column for column in columns if not column.wide]
    headers = [*(["NAMESPACE"] if namespaced else []), "NAME", *(c.name.upper() for c in shown)]
    now = time.time()
    rows = []
    for obj in objects:
        metadata = obj["metadata"]
        head = [metadata["namespace"]] if namespaced else []
        rows.append([*head, metadata["name"], *(c.cell(obj, now) for c in shown)])
    return Section(title, table_lines(headers, rows) if rows else [])


def _endpoints(slices: list[Object]) -> Section:
    rows = []
    for item in slices:
        ports = ",".join(str(port.get("port")) for port in item.get("ports") or ())
        for endpoint in item.get("endpoints") or ():
            ready = (endpoint.get("conditions") or {}).get("ready", True)
            pod = (endpoint.get("targetRef") or {}).get("name", "")
            node = endpoint.get("nodeName", "")
            address = ",".join(endpoint.get("addresses") or ())
            rows.append([address, ports, "Ready" if ready else "NotReady", pod, node])
    headers = ("ADDRESS", "PORTS", "STATUS", "POD", "NODE")
    return Section("Endpoints", table_lines(headers, rows) if rows else [])
