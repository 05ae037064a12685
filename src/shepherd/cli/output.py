"""How results look: aligned tables, colour only on a terminal, JSON and YAML for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from shepherd.api.resource import Object, Resource

GAP = "   "
_GOOD = {"Running", "Completed", "Succeeded", "Ready", "Active", "Normal", "True"}
_BUSY = {"Pending", "ContainerCreating", "PodInitializing", "Terminating", "Warning", "Unknown"}
_BAD = ("Error", "Err", "BackOff", "Failed", "OOMKilled", "NotReady", "Evicted", "Invalid")


def coloured() -> bool:
    """Standard output is a terminal that a person looks at."""
    return sys.stdout.isatty()


def style(text: str, **how: Any) -> str:
    """Text in a colour, if anybody can see it."""
    return click.style(text, **how) if coloured() else text


def colour_of(text: str) -> str | None:
    """Green for what is well, yellow for what is under way, red for what is wrong."""
    if text in _GOOD:
        return "green"
    if text in _BUSY or text.startswith("Init:"):
        return "yellow"
    return "red" if any(word in text for word in _BAD) else None


def table_lines(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Rows under headers, each column as wide as its widest cell, as kubectl aligns them."""
    return Columns().lines(rows, headers)


class Columns:
    """Aligns rows that come bit by bit: columns only grow."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def lines(
        self, rows: Iterable[Sequence[object]], headers: Sequence[str] | None = None
    ) -> list[str]:
        """The next rows, under headers if there are any."""
        every = [list(headers)] if headers else []
        every += [[_cell(cell) for cell in row] for row in rows]
        for row in every:
            known = [*self._widths, *[0] * (len(row) - len(self._widths))]
            self._widths = [max(width, len(cell)) for width, cell in zip(known, row, strict=True)]
        return [self._line(row, bold=bool(headers) and i == 0) for i, row in enumerate(every)]

    def _line(self, row: list[str], *, bold: bool) -> str:
        padded = [text.ljust(width) for text, width in zip(row, self._widths, strict=True)]
        padded[-1] = row[-1]
        if coloured():
            pairs = zip(padded, row, strict=True)
            padded = [_coloured(cell, text, bold=bold) for cell, text in pairs]
        return GAP.join(padded).rstrip()


def _coloured(cell: str, text: str, *, bold: bool) -> str:
    colour = colour_of(text)
    if bold:
        return click.style(cell, bold=True)
    return click.style(cell, fg=colour) if colour else cell


def _cell(value: object) -> str:
    if value is None:
        return "<none>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("\n", "\\n")


def echo(text: str = "") -> None:
    click.echo(text)


JSONPATH = "jsonpath="
"""How the form begins that a template follows."""


class _Form(click.ParamType[str]):
    """One of several forms; one that ends with `=` goes on as the user likes."""

    name = "form"

    def __init__(self, forms: Sequence[str]) -> None:
        self._forms = forms

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        open_ended = tuple(form for form in self._forms if form.endswith("="))
        if value not in self._forms and not value.startswith(open_ended):
            self.fail(f"{value!r} is none of {', '.join(self._forms)}", param, ctx)
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(self._forms)}]"


def output_option(*forms: str) -> Callable[[Any], Any]:
    """`-o`, with the forms that a command has beside its table."""
    return click.option("-o", "--output", type=_Form(forms), help="Another form.")


def echo_document(form: str, obj: Object) -> None:
    """Print an object as `json`, `yaml` or `jsonpath=TEMPLATE`."""
    if form.startswith(JSONPATH):
        from shepherd.cli.template import template

        click.echo(template(form.removeprefix(JSONPATH))(obj), nl=False)
        return
    echo((to_json if form == "json" else to_yaml)(obj))


def list_of(resource: Resource, items: list[Object]) -> Object:
    """Objects, as `list` of the client gave them, as a document that `apply` takes."""
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    listed = [head | item for item in items]
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": listed}


def echo_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    for line in table_lines(headers, rows):
        click.echo(line)


def to_json(obj: Object) -> str:
    return json.dumps(obj, indent=4, ensure_ascii=False)


def to_yaml(obj: Object) -> str:
    import yaml

    return str(
        yaml.safe_dump(obj, sort_keys=False, allow_unicode=True, default_flow_style=False)
    ).rstrip("\n")
