"""sheepctl's end of exec, against the agent's own."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shepherd.agent.streams.channels import V4
from shepherd.agent.streams.command import NamedLink, converse
from shepherd.agent.streams.links import SpdyLink
from shepherd.api.errors import not_found
from shepherd.cli.main import run
from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Duplex, Request, Response
from shepherd.runtime.base import Process, Stdio
from shepherd.runtime.script import ScriptedProcess


@asynccontextmanager
async def process(command: list[str]) -> AsyncIterator[Process]:
    yield ScriptedProcess(command, SystemClock())


def agent(request: Request) -> Response:
    async def takeover(duplex: Duplex) -> None:
        link = await NamedLink.opened(SpdyLink(duplex), Stdio())
        assert link
        await converse(link, process(request.params("command")), V4)

    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/default/pods/web/exec")
    return Response(101, takeover=takeover)


def test_output_and_exit_code_are_the_commands(
    capfd: pytest.CaptureFixture[str], connected: Any
) -> None:
    code = run(["exec", "web", "--", "sh", "-c", "echo hi; exit 3"], connected(agent))
    assert (code, capfd.readouterr().out) == (3, "hi\n")


def test_a_refusal_is_told(capfd: pytest.CaptureFixture[str], connected: Any) -> None:
    def refuse(request: Request) -> Response:
        return Response(404, {}, json.dumps(not_found("", "pods", "web").status()).encode())

    assert run(["exec", "web", "--", "true"], connected(refuse)) == 1
    assert capfd.readouterr().err == 'sheepctl: pods "web" not found\n'


def test_a_connection_that_is_lost_is_no_success(
    capfd: pytest.CaptureFixture[str], connected: Any
) -> None:
    async def takeover(duplex: Duplex) -> None:
        await duplex.read()

    def cut(request: Request) -> Response:
        return Response(101, takeover=takeover)

    assert run(["exec", "web", "--", "true"], connected(cut)) == 1
    assert "lost before the command had ended" in capfd.readouterr().err
