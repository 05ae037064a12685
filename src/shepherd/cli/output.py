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


def table_lines(
    headers: Sequence[str], rows: Iterable[Sequence[object]], *, header: bool = True
) -> list[str]:
    """Rows under headers, each column as wide as its widest cell, as kubectl aligns them."""
    texts = [[_cell(cell) for cell in row] for row in rows]
    every = [list(headers), *texts] if header else texts
    widths = [max(map(len, column)) for column in zip(*every, strict=True)] if every else []
    lines = []
    for number, row in enumerate(every):
        padded = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        padded[-1] = row[-1]
        if coloured():
            bold = header and number == 0
            padded = [
                _coloured(cell, text, bold=bold) for cell, text in zip(padded, row, strict=True)
            ]
        lines.append(GAP.join(padded).rstrip())
    return lines


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


def output_option(*forms: str) -> Callable[[Any], Any]:
    """`-o`, with the forms that a command has beside its table."""
    return click.option("-o", "--output", type=click.Choice(forms), help="Another form.")


def echo_document(form: str, obj: Object) -> None:
    """Print an object as `json` or `yaml`."""
    echo((to_json if form == "json" else to_yaml)(obj))


def list_of(resource: Resource, items: list[Object]) -> Object:
    """Objects, as `list` of the client gave them, as a document that `apply` takes."""
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    listed = [head | item for item in items]
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": listed}


def echo_table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], *, header: bool = True
) -> None:
    for line in table_lines(headers, rows, header=header):
        click.echo(line)


def to_json(obj: Object) -> str:
    return json.dumps(obj, indent=4, ensure_ascii=False)


def to_yaml(obj: Object) -> str:
    import yaml

    return str(
        yaml.safe_dump(obj, sort_keys=False, allow_unicode=True, default_flow_style=False)
    ).rstrip("\n")
