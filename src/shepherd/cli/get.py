"""`sheepctl get`: list objects of any kind that the cluster serves, and watch them."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

import click

from shepherd.api.errors import ApiError
from shepherd.api.resource import Object
from shepherd.cli.kinds import Kinds
from shepherd.cli.output import JSONPATH, echo, echo_document, output_option
from shepherd.cli.session import Session, Usage, connection_options, pass_session
from shepherd.cli.tables import TableView
from shepherd.cli.targets import Target, reference
from shepherd.client.base import Client


@click.command("get")
@click.argument("what", nargs=-1, metavar="TYPE[,TYPE...] [NAME...] | TYPE/NAME...")
@output_option("wide", "name", "json", "yaml", JSONPATH)
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@click.option("-l", "--selector", default="", help="Only with these labels: app=web,tier!=x.")
@click.option("--field-selector", default="", help="Only with these fields: status.phase=Running.")
@click.option("-w", "--watch", is_flag=True, help="Go on, and show each change.")
@click.option("--no-headers", is_flag=True, help="Rows only.")
@click.option("--show-labels", is_flag=True, help="Labels as the last column.")
@connection_options
@pass_session
def command(
    session: Session,
    what: tuple[str, ...],
    output: str | None,
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    watch: bool,
    no_headers: bool,
    show_labels: bool,
) -> None:
    """List objects, or show some by name: `get pods`, `get deploy/web -o yaml`, `get all`."""
    query = {"labelSelector": selector, "fieldSelector": field_selector}
    query = {name: value for name, value in query.items() if value}

    async def show(client: Client) -> None:
        targets = await Kinds(client).targets(what)
        if query and any(target.name for target in targets):
            raise Usage("selectors choose among all objects: leave out the names")
        if watch and len(targets) > 1:
            raise Usage("watch one type, or one object, at a time")
        namespace = None if all_namespaces else session.namespace
        tables = TableView(
            wide=output == "wide",
            headers=not no_headers,
            labels=show_labels,
            namespaces=all_namespaces,
            prefixed=len({target.resource for target in targets}) > 1,
        )
        view = tables if output in (None, "wide") else Documents(output, apart=watch)
        accept = view.accept
        answers = [(one, await fetch(client, one, namespace, query, accept)) for one in targets]
        if not view.show(answers) and not watch:
            inside = namespace and any(target.resource.namespaced for target in targets)
            where = f" in {namespace} namespace." if inside else ""
            click.echo(f"No resources found{where}", err=True)
        for target, answer in answers if watch else ():
            seen = changes(client, target, namespace, query, accept, since=answer)
            async with aclosing(seen):
                async for obj in seen:
                    view.add(target, obj)

    session.run(show)


async def fetch(
    client: Client, target: Target, namespace: str | None, query: dict[str, str], accept: str
) -> Object:
    """An object or a list of them, in the form that is accepted."""
    if target.name and namespace is None and target.resource.namespaced:
        raise Usage("an object cannot be named across all namespaces: use -n")
    path = target.resource.path(namespace, target.name)
    try:
        body = await client.raw("GET", path, query=query, accept=accept)
    except ApiError as error:
        if error.code == 404 and target.name and target.resource.namespaced:
            error.message += f" in namespace {namespace}"
        raise
    answer: Object = json.loads(body)
    return answer


async def changes(
    client: Client,
    target: Target,
    namespace: str | None,
    query: dict[str, str],
    accept: str,
    *,
    since: Object,
) -> AsyncGenerator[Object, None]:
    """What becomes of the objects after an answer: each as it is, or last was. Without end."""
    fields = f"metadata.name={target.name}" if target.name else query.get("fieldSelector", "")
    revision = since["metadata"]["resourceVersion"]
    while True:
        events = client.watch_raw(
            target.resource,
            namespace,
            resource_version=revision,
            label_selector=query.get("labelSelector", ""),
            field_selector=fields,
            accept=accept,
        )
        async with aclosing(events):
            async for event in events:
                obj: Object = json.loads(bytes(event.object))
                revision = obj["metadata"].get("resourceVersion") or revision
                if event.type != "BOOKMARK":
                    yield obj


class Documents:
    """Prints objects in a form for programs: as one document, or each `apart`."""

    accept = "application/json"

    def __init__(self, form: str, *, apart: bool) -> None:
        self._form = form
        self._apart = apart

    def show(self, answers: list[tuple[Target, Object]]) -> bool:
        """Always says something, if only that there is nothing."""
        if self._apart or self._form == "name":
            for target, answer in answers:
                for item in items_of(target, answer):
                    self.add(target, item)
        else:
            echo_document(self._form, as_document(answers))
        return True

    def add(self, target: Target, obj: Object) -> None:
        """Print one object."""
        if self._form == "name":
            echo(reference(target.resource, obj["metadata"]["name"]))
            return
        if self._form == "yaml":
            echo("---")
        echo_document(self._form, obj)


def items_of(target: Target, answer: Object) -> list[Object]:
    """The objects of a plain answer; those of a list get the kind that lists leave out."""
    if "items" not in answer:
        return [answer]
    head = {"apiVersion": answer["apiVersion"], "kind": target.resource.kind}
    return [head | item for item in answer["items"] or ()]


def as_document(answers: list[tuple[Target, Object]]) -> Object:
    """One object as it is; several as a List that `apply` takes."""
    if len(answers) == 1 and answers[0][0].name:
        return answers[0][1]
    items = [item for target, answer in answers for item in items_of(target, answer)]
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
