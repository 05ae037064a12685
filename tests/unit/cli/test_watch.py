"""`sheepctl get --watch`: what changes stands below what was there."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from shepherd.api.errors import expired
from shepherd.api.resource import Object
from shepherd.cli.main import run
from shepherd.lib.http import Request, Response

COLUMNS = [{"name": "Name", "type": "string"}, {"name": "Status", "type": "string"}]


def table(*rows: tuple[str, str], revision: int) -> Object:
    return {
        "kind": "Table",
        "metadata": {"resourceVersion": str(revision)},
        "columnDefinitions": COLUMNS,
        "rows": [{"cells": list(row), "object": {"metadata": {"name": row[0]}}} for row in rows],
    }


def pod(name: str, revision: int) -> Object:
    metadata = {"name": name, "resourceVersion": str(revision)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}


class Server:
    """Gives a list, then two watches: the second says that what it was asked for is gone."""

    def __init__(self, listed: Object, *events: tuple[str, Object]) -> None:
        self._listed = listed
        self._events = events
        self.since: list[str] = []

    def answer(self, request: Request) -> Response:
        if not request.param("watch"):
            return Response(200, {}, json.dumps(self._listed).encode())
        self.since.append(request.param("resourceVersion"))
        return Response(200, {}, self._watch(first=len(self.since) == 1))

    async def _watch(self, *, first: bool) -> AsyncGenerator[bytes, None]:
        events = self._events if first else (("ERROR", expired("too old").status()),)
        for kind, obj in events:
            yield json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def test_rows_come_one_by_one_under_the_same_columns(
    connected: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(
        table(("a-long-name", "Pending"), revision=5),
        ("MODIFIED", table(("a-long-name", "Running"), revision=6)),
        ("BOOKMARK", table(revision=7)),
        ("ADDED", table(("b", "Pending"), revision=8)),
    )
    code = run(["get", "pods", "-w", "-l", "app=web"], connected(server.answer))
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "NAME          STATUS",
        "a-long-name   Pending",
        "a-long-name   Running",
        "b             Pending",
    ]
    assert server.since == ["5", "8"]
    assert (code, err) == (1, "sheepctl: too old: run the command again\n")


def test_the_first_row_brings_the_headers(
    connected: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(table(revision=1), ("ADDED", table(("a", "Running"), revision=2)))
    run(["get", "pods", "--watch"], connected(server.answer))
    assert capsys.readouterr().out.splitlines() == ["NAME   STATUS", "a      Running"]


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("name", "pod/a\npod/b\n"),
        ("jsonpath={.metadata.name},", "a,b,"),
        ("yaml", "---\nkind: Pod"),
    ],
)
def test_programs_get_each_object(
    connected: Any, capsys: pytest.CaptureFixture[str], form: str, shown: str
) -> None:
    listed = {"apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [pod("a", 1)]}
    server = Server(listed, ("ADDED", pod("b", 2)))
    run(["get", "pods", "-w", "-o", form], connected(server.answer))
    out = capsys.readouterr().out
    assert out == shown or (form == "yaml" and out.count("---\n") == 2)


def test_one_thing_is_watched_at_a_time(sheepctl: Any) -> None:
    result = sheepctl("get", "pods,services", "-w")
    assert (result.code, result.err) == (
        2, "sheepctl: watch one type, or one object, at a time\n",
    )  # fmt: skip
