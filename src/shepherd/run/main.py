"""`shepherd`: the program."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable

from shepherd.lib import log
from shepherd.run.config import Config, StartError, UsageError, parse

logger = logging.getLogger("shepherd.run")

USAGE, FAILED = 2, 1
"""Exit codes: the command line is wrong; the program could not start or go on."""


Mode = Callable[[Config, asyncio.Event], Awaitable[None]]


async def _server(config: Config, stop: asyncio.Event) -> None:
    from shepherd.run.server import run_server

    await run_server(config, stop)


async def _agent(config: Config, stop: asyncio.Event) -> None:
    from shepherd.run.agent import run_agent

    await run_agent(config, stop)


async def _standalone(config: Config, stop: asyncio.Event) -> None:
    from shepherd.run.standalone import run_standalone

    await run_standalone(config, stop)


# Each mode imports only its own half: an agent never loads the server, nor a server the runtime.
MODES: dict[str, Mode] = {"server": _server, "agent": _agent, "standalone": _standalone}


def main() -> None:
    """Run until a signal; exit 0, or 1 or 2 with one line on standard error."""
    try:
        config = parse(sys.argv[1:])
    except UsageError as error:
        _complain(str(error))
        sys.exit(USAGE)
    log.configure(config.log_level)
    failed = False
    try:
        _run(config)
    except* (StartError, OSError) as group:
        for leaf in _leaves(group):
            _complain(str(leaf))
        failed = True  # An exit in here would be wrapped in a group of its own.
    if failed:
        sys.exit(FAILED)


def _run(config: Config) -> None:
    import uvloop

    # Decoding makes many small containers that live on: the default thresholds would spend a
    # fifth of the time in collections that find nothing (docs/adr/0005-memory-and-gc.md).
    gc.set_threshold(50_000, 20, 100)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signal(config))


async def _until_signal(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _on_signal, number, stop)
    await MODES[config.mode](config, stop)


def _on_signal(number: int, stop: asyncio.Event) -> None:
    """The first signal stops in order; a second one ends the process at once."""
    if stop.is_set():
        logger.warning("second signal: ending at once")
        logging.shutdown()
        os._exit(128 + number)
    logger.info("%s: stopping", signal.Signals(number).name)
    stop.set()


def _leaves(group: BaseExceptionGroup[StartError | OSError]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _complain(message: str) -> None:
    print(f"shepherd: {message}", file=sys.stderr)  # noqa: T201 - it is the user who reads it
