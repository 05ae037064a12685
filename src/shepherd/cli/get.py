"""`sheepctl get`: list objects. The columns are the server's, so they equal kubectl's."""

import json
from collections.abc import Iterator
from typing import Any

import click

from shepherd.api.errors import ApiError
from shepherd.api.resource import Object
from shepherd.cli.output import echo, echo_document, echo_table, output_option
from shepherd.cli.session import Session, Usage, connection_options, pass_session
from shepherd.cli.targets import Target, find_targets, reference
from shepherd.client.base import Client

FORMATS = ("wide", "name", "json", "yaml")
_AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@click.command("get")
@click.argument("what", nargs=-1, metavar="TYPE[,TYPE...] [NAME...] | TYPE/NAME...")
@output_option(*FORMATS)
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@click.option("-l", "--selector", default="", help="Only with these labels: app=web,tier!=x.")
@click.option("--field-selector", default="", help="Only with these fields: status.phase=Running.")
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
    no_headers: bool,
    show_labels: bool,
) -> None:
    """List objects, or show some by name: `get pods`, `get deploy/web -o yaml`, `get all`."""
    targets = find_targets(what)
    query = {"labelSelector": selector, "fieldSelector": field_selector}
    query = {name: value for name, value in query.items() if value}
    if query and any(target.name for target in targets):
        raise Usage("selectors choose among all objects: leave out the names")

    async def show(client: Client) -> None:
        namespace = None if all_namespaces else session.namespace
        answers = [
            (target, await fetch(client, target, namespace, query, plain=output in FORMATS[1:]))
            for target in targets
        ]
        match output:
            case "json" | "yaml":
                echo_document(output, as_document(answers))
            case "name":
                for target, answer in answers:
                    for item in items_of(answer):
                        echo(reference(target.resource, item["metadata"]["name"]))
            case _:
                view = _TableView(
                    wide=output == "wide",
                    headers=not no_headers,
                    labels=show_labels,
                    namespaces=all_namespaces,
                )
                if not view.show(answers):
                    inside = namespace and any(t.resource.namespaced for t in targets)
                    where = f" in {namespace} namespace." if inside else ""
                    click.echo(f"No resources found{where}", err=True)

    session.run(show)


async def fetch(
    client: Client, target: Target, namespace: str | None, query: dict[str, str], *, plain: bool
) -> Object:
    """An object, a list of them, or (not `plain`) the Table of either."""
    accept = "application/json" if plain else _AS_TABLE
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


def items_of(answer: Object) -> list[Object]:
    """The objects of a plain answer; those of a list get the kind that lists leave out."""
    if "items" not in answer:
        return [answer]
    head = {"apiVersion": answer["apiVersion"], "kind": answer["kind"].removesuffix("List")}
    return [head | item for item in answer["items"] or ()]


def as_document(answers: list[tuple[Target, Object]]) -> Object:
    """One object as it is; several as a List that `apply` takes."""
    if len(answers) == 1 and answers[0][0].name:
        return answers[0][1]
    items = [item for _, answer in answers for item in items_of(answer)]
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}


class _TableView:
    """Prints Tables as kubectl does."""

    def __init__(self, *, wide: bool, headers: bool, labels: bool, namespaces: bool) -> None:
        self._wide = wide
        self._headers = headers
        self._labels = labels
        self._namespaces = namespaces

    def show(self, answers: list[tuple[Target, Object]]) -> bool:
        """Print every table that has rows; whether there was any."""
        kinds = {target.resource for target, _ in answers}
        shown = False
        for target, table in self._merged(answers):
            if not table.get("rows"):
                continue
            if shown:
                echo()
            prefix = reference(target.resource, "") if len(kinds) > 1 else ""
            headers, rows = self._cells(table, prefix, target.resource.namespaced)
            echo_table(headers, rows, header=self._headers)
            shown = True
        return shown

    def _merged(self, answers: list[tuple[Target, Object]]) -> Iterator[tuple[Target, Object]]:
        """Rows of the same resource (`get pod a b`) stand in one table."""
        tables: dict[str, tuple[Target, Object]] = {}
        for target, table in answers:
            known = tables.setdefault(target.resource.storage, (target, table | {"rows": []}))
            known[1]["rows"] += table.get("rows") or ()
        yield from tables.values()

    def _cells(
        self, table: Object, prefix: str, namespaced: bool
    ) -> tuple[list[str], list[list[Any]]]:
        columns = table["columnDefinitions"]
        kept = [i for i, column in enumerate(columns) if self._wide or not column.get("priority")]
        headers = [columns[i]["name"].upper() for i in kept]
        rows: list[list[Any]] = []
        for row in table["rows"]:
            cells = [row["cells"][i] for i in kept]
            metadata = row["object"]["metadata"]
            if prefix:
                cells[0] = f"{prefix}{cells[0]}"
            if self._namespaces and namespaced:
                cells.insert(0, metadata.get("namespace", ""))
            if self._labels:
                labels = sorted((metadata.get("labels") or {}).items())
                cells.append(",".join(f"{key}={value}" for key, value in labels) or None)
            rows.append(cells)
        if self._namespaces and namespaced:
            headers.insert(0, "NAMESPACE")
        if self._labels:
            headers.append("LABELS")
        return headers, rows
