"""`sheepctl events`: what happened in a namespace, or to one object, oldest first."""

import time

import click

from shepherd.api.errors import ApiError
from shepherd.api.kinds import EVENT
from shepherd.api.resource import Object, Resource
from shepherd.cli.kinds import Kinds
from shepherd.cli.output import echo_document, echo_table, list_of, output_option
from shepherd.cli.session import Session, connection_options, pass_session
from shepherd.client.base import Client

SHOWN = ("Last Seen", "Type", "Reason", "Object", "Message")


@click.command("events")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@click.option("--for", "what", default="", metavar="TYPE/NAME", help="What happened to one object.")
@click.option("--types", default="", help="Only of these types: Warning or Normal.")
@output_option("json", "yaml")
@connection_options
@pass_session
def command(
    session: Session, all_namespaces: bool, what: str, types: str, output: str | None
) -> None:
    """Show what happened, oldest first: `events`, `events --for pod/web-1`."""
    wanted = {text.strip().lower() for text in types.split(",") if text}

    async def show(client: Client) -> None:
        namespace = None if all_namespaces else session.namespace
        fields = ""
        if what:
            about = await Kinds(client).target((what,))
            fields = f"involvedObject.kind={about.resource.kind},involvedObject.name={about.name}"
        events = (await client.list(EVENT, namespace, field_selector=fields)).items
        events = [e for e in events if not wanted or str(e.get("type")).lower() in wanted]
        if output:
            echo_document(output, list_of(EVENT, sorted(events, key=last_seen)))
            return
        if not events:
            click.echo("No events found.", err=True)
            return
        headers, rows = event_rows(events, time.time())
        if all_namespaces:
            headers.insert(0, "NAMESPACE")
            for row, event in zip(rows, sorted(events, key=last_seen), strict=True):
                row.insert(0, event["metadata"]["namespace"])
        echo_table(headers, rows)

    session.run(show)


async def events_about(client: Client, resource: Resource, obj: Object) -> list[Object]:
    """What happened to this very object; nothing where one may not see events."""
    metadata = obj["metadata"]
    selector = f"involvedObject.kind={resource.kind},involvedObject.name={metadata['name']}"
    if metadata.get("namespace"):
        selector += f",involvedObject.namespace={metadata['namespace']}"
    try:
        found = await client.list(EVENT, metadata.get("namespace"), field_selector=selector)
    except ApiError as error:
        if error.code != 403:
            raise
        return []
    # Those of an earlier object of the same name are of no interest; nodes report under their name.
    uids = (metadata["uid"], metadata["name"], None, "")
    return [e for e in found.items if (e.get("involvedObject") or {}).get("uid") in uids]


def last_seen(event: Object) -> tuple[str, int]:
    """When an event happened last, in a form that sorts: to the second, then as it was written."""
    series = event.get("series") or {}
    stamp = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    metadata = event["metadata"]
    written = int(metadata.get("resourceVersion") or 0)
    return str(stamp or metadata.get("creationTimestamp") or ""), written


def event_rows(events: list[Object], now: float) -> tuple[list[str], list[list[object]]]:
    """Headers and rows of a table of events, the latest last."""
    columns = [column for column in EVENT.columns if column.name in SHOWN]
    rows = [[c.cell(event, now) for c in columns] for event in sorted(events, key=last_seen)]
    return [column.name.upper() for column in columns], rows
