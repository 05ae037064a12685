"""What every command shares: which server to speak to, in which namespace, and how."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from shepherd.client.base import Client

T = TypeVar("T")
Connect = Callable[["Session"], AbstractAsyncContextManager[Client]]

DEFAULT_KUBECONFIGS = (Path("/var/lib/shepherd/kubeconfig"), Path.home() / ".kube" / "config")
"""Where to look when neither --kubeconfig nor KUBECONFIG says: the server's own data directory
(readable for root), then kubectl's."""


class Usage(Exception):  # noqa: N818  (a wrong call by the user, no failure of ours)
    """The command line asks for something that makes no sense; the message says what would."""


class Failure(Exception):  # noqa: N818  (the outcome of a command, told and not traced)
    """What was asked for did not come about; the message says what, where and what to do."""


def warn(text: str) -> None:
    """A line on standard error that no script has to parse."""
    click.secho(f"Warning: {text}", err=True, fg="yellow" if sys.stderr.isatty() else None)


def kubeconfig_paths(named: str) -> list[Path]:
    """The kubeconfig files to read, merged as kubectl does. Raises Failure when there are none."""
    if named:
        return [Path(named)]
    if paths := [Path(text) for text in os.environ.get("KUBECONFIG", "").split(os.pathsep) if text]:
        return paths
    for path in DEFAULT_KUBECONFIGS:
        if os.access(path, os.R_OK):
            return [path]
    shown = " nor ".join(map(str, DEFAULT_KUBECONFIGS))
    raise Failure(f"no kubeconfig found, neither {shown}: name one by --kubeconfig or KUBECONFIG")


@asynccontextmanager
async def connect(session: "Session") -> AsyncIterator[Client]:
    """A client for the cluster that the kubeconfig names."""
    from shepherd.client.http import HttpTransport
    from shepherd.client.kubeconfig import KubeconfigError, read_kubeconfig

    try:
        config = read_kubeconfig(kubeconfig_paths(session.kubeconfig), session.context)
        ssl = config.ssl_context()
    except KubeconfigError as error:
        raise Failure(str(error)) from error
    session.server = config.server
    session.namespace = session.namespace or config.namespace
    transport = HttpTransport(config.server, ssl=ssl, token=config.token)
    client = Client(transport, user_agent="sheepctl", field_manager="sheepctl", on_warning=warn)
    try:
        yield client
    finally:
        await client.close()


@dataclass(slots=True)
class Session:
    """One run of `sheepctl`."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    server: str = ""
    """Its URL, once connected."""
    connect: Connect = field(default=connect)

    def run(self, command: Callable[[Client], Awaitable[T]]) -> T:
        """Open a client, await `command` with it, close it."""

        async def whole() -> T:
            async with self.connect(self) as client:
                self.namespace = self.namespace or "default"
                return await command(client)

        return asyncio.run(whole())


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        setattr(ctx.ensure_object(Session), str(param.name), value)


def connection_options(command: Any) -> Any:
    """--kubeconfig, --context and -n, before the command's name or after it."""
    for names, help_text in (
        (("-n", "--namespace"), "The namespace (default: the context's, or `default`)."),
        (("--context",), "The context of the kubeconfig to use."),
        (("--kubeconfig",), "The kubeconfig file (default: $KUBECONFIG)."),
    ):
        option = click.option(*names, expose_value=False, callback=_keep, help=help_text)
        command = option(command)
    return command


pass_session = click.make_pass_decorator(Session, ensure=True)
