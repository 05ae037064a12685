"""The server's Tables (meta.k8s.io/v1) as text: its columns, so that they equal kubectl's."""

from typing import Any

import click

from shepherd.api.resource import Object
from shepherd.cli.output import Columns, echo
from shepherd.cli.targets import Target, reference


class TableView:
    """Prints Tables, one a resource. `prefixed`: names are shown as `pod/web-1`."""

    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

    def __init__(
        self, *, wide: bool, headers: bool, labels: bool, namespaces: bool, prefixed: bool
    ) -> None:
        self._wide = wide
        self._headers = headers
        self._labels = labels
        self._namespaces = namespaces
        self._prefixed = prefixed
        self._shown: dict[str, tuple[list[Object], Columns]] = {}
        """The column definitions and widths of each table, by resource."""

    def show(self, answers: list[tuple[Target, Object]]) -> bool:
        """Print every table that has rows; whether there was any."""
        tables: dict[str, tuple[Target, Object]] = {}
        for target, table in answers:  # rows of one resource (`get pod a b`) stand in one table
            known = tables.setdefault(target.resource.storage, (target, table | {"rows": []}))
            known[1]["rows"] += table.get("rows") or ()
        for target, table in tables.values():
            self.add(target, table)
        return bool(self._shown)

    def add(self, target: Target, table: Object) -> None:
        """Print the rows of a table, below those of the resource that were printed before."""
        if not table.get("rows"):
            return
        storage, headers = target.resource.storage, None
        if storage not in self._shown:
            if self._shown:
                echo()
            self._shown[storage] = table["columnDefinitions"], Columns()
            headers = self._head(target, table["columnDefinitions"]) if self._headers else None
        definitions, columns = self._shown[storage]
        rows = [self._row(target, definitions, row) for row in table["rows"]]
        for line in columns.lines(rows, headers):
            click.echo(line)

    def _kept(self, definitions: list[Object]) -> list[int]:
        return [i for i, one in enumerate(definitions) if self._wide or not one.get("priority")]

    def _head(self, target: Target, definitions: list[Object]) -> list[str]:
        headers = [definitions[i]["name"].upper() for i in self._kept(definitions)]
        if self._namespaces and target.resource.namespaced:
            headers.insert(0, "NAMESPACE")
        return [*headers, "LABELS"] if self._labels else headers

    def _row(self, target: Target, definitions: list[Object], row: Object) -> list[Any]:
        cells = [row["cells"][i] for i in self._kept(definitions)]
        metadata = row["object"]["metadata"]
        if self._prefixed:
            cells[0] = reference(target.resource, cells[0])
        if self._namespaces and target.resource.namespaced:
            cells.insert(0, metadata.get("namespace", ""))
        if self._labels:
            labels = sorted((metadata.get("labels") or {}).items())
            cells.append(",".join(f"{key}={value}" for key, value in labels) or None)
        return cells
