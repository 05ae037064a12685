"""The entry point of `sheepctl` and the table of its commands."""

import sys
from importlib import import_module

import click

from shepherd import __version__
from shepherd.api.errors import ApiError
from shepherd.cli.session import Failure, Session, Usage, connection_options

COMMANDS = {
    "apply": "Create or change objects from files",
    "delete": "Delete objects by name, label or file",
    "describe": "Show an object in full, with its events",
    "events": "Show what happened, oldest first",
    "exec": "Run a command in a container",
    "get": "List objects as tables, YAML or JSON",
    "image": "Load and list images on nodes",
    "info": "Show what cluster this is and how it is doing",
    "label": "Set and remove labels",
    "logs": "Show what containers print",
    "nodes": "Show the nodes and what is free on them",
    "port-forward": "Lead ports of this machine to a pod",
    "rollout": "Follow, repeat and take back rollouts",
    "scale": "Change the number of replicas",
    "wait": "Wait until one of several conditions holds",
    "why": "Tell why an object is pending, not ready or still there",
}
"""A new command is one file beside this one, with a `command`, and one line here."""


class _Commands(click.Group):
    """Loads a command's module only when it is called: `sheepctl get` pays for `get`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"shepherd.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="sheepctl")
@connection_options
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Control a Shepherd cluster (or any other with the Kubernetes API)."""
    ctx.ensure_object(Session)


def run(arguments: list[str], session: Session) -> int:
    """Run one command line; the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        code = cli.main(arguments, prog_name="sheepctl", standalone_mode=False, obj=session)
        return code if isinstance(code, int) else 0
    except Usage as error:
        return _fail(str(error), 2)
    except click.ClickException as error:
        return _fail(error.format_message() + _hint(error), error.exit_code)
    except ApiError as error:
        return _fail(_explain(error), 1)
    except ConnectionError as error:
        return _fail(f"{error}: is the server running there?", 1)
    except (Failure, OSError) as error:
        return _fail(str(error), 1)
    except (KeyboardInterrupt, click.Abort):
        return 130


def _hint(error: click.ClickException) -> str:
    if isinstance(error, click.UsageError) and error.ctx:
        return f" (see {error.ctx.command_path} --help)"
    return ""


def _explain(error: ApiError) -> str:
    """What went wrong, and what to do where the code tells."""
    match error.code:
        case 401:
            return f"{error.message}: the server does not know these credentials; see --kubeconfig"
        case 410:
            return f"{error.message}: run the command again"
    return error.message


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    click.secho(f"sheepctl: {line}", err=True, fg="red" if sys.stderr.isatty() else None)
    return code


def main() -> None:
    sys.exit(run(sys.argv[1:], Session()))
