"""The little shell of hollow containers: `echo`, `sleep`, `exit`, `true`, `false`, in virtual time.

A hollow container does what its command says as far as this goes: `sh -c 'echo hi; sleep 2; exit
3'`, or one of these words alone. In a script, words that are unknown take no time and do nothing; a
command that is unknown runs for ever.
"""

import asyncio
import shlex
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shepherd.lib.clock import Clock
from shepherd.runtime.base import OutputName

FOREVER = float("inf")
_COMMANDS = ("echo", "sleep", "true", "false")
"""Those that are programs too, so that a container may run them without a shell."""
_JOINTS = ";&\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script will do, known in advance: it depends on nothing."""

    lines: tuple[tuple[float, str], ...]
    """Output lines, each with the seconds after the start at which it is written."""
    seconds: float
    """How long it runs; infinite = until it is stopped."""
    exit_code: int


def foresee(command: Sequence[str]) -> Outcome:
    """The outcome of a command line, e.g. ["sh", "-c", "sleep 1; exit 2"]."""
    name = command[0].rsplit("/", 1)[-1] if command else ""
    if name == "sh" and len(command) >= 3 and command[1] == "-c":
        return foresee_script(command[2])
    if name in _COMMANDS:
        return foresee_script(shlex.join((name, *command[1:])))
    return Outcome((), FOREVER, 0)


def foresee_script(script: str) -> Outcome:
    """The outcome of steps that `;`, `&&` or line ends part."""
    try:
        steps = list(_steps(script))
    except ValueError:  # a quotation that nobody closes
        return Outcome(((0.0, "sh: syntax error: unterminated quoted string"),), 0.0, 2)
    lines: list[tuple[float, str]] = []
    seconds, exit_code = 0.0, 0
    for joint, (name, *arguments) in steps:
        if joint == "&&" and exit_code:
            continue
        exit_code = int(name == "false")
        if name == "echo":
            lines.append((seconds, " ".join(arguments)))
        elif name == "sleep" and arguments:
            seconds += _seconds(arguments[0])
        elif name == "exit":
            exit_code = int(arguments[0]) if arguments and arguments[0].isdecimal() else 0
            break
    return Outcome(tuple(lines), seconds, exit_code)


def _steps(script: str) -> Iterator[tuple[str, list[str]]]:
    """The steps of a script: what joins each to the one before, and its words."""
    lexer = shlex.shlex(script, posix=True, punctuation_chars=_JOINTS)
    lexer.whitespace_split, lexer.whitespace, lexer.commenters = True, " \t\r", ""
    joint, words = ";", list[str]()
    for token in (*lexer, ";"):
        if token and set(token) <= set(_JOINTS):
            if words:
                yield joint, words
                joint, words = token[:2], []
        else:
            words.append(token)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return FOREVER  # `sleep infinity`, and what the real one would refuse


class ScriptedProcess:
    """A command that somebody runs in a hollow container (`base.Process`).

    `cat` gives back its input; others do what `foresee` says, or nothing.
    """

    def __init__(self, command: Sequence[str], clock: Clock) -> None:
        outcome = foresee(command)
        if outcome.seconds == FOREVER:  # no script
            outcome = Outcome((), 0.0, 0)
        self._outcome = outcome
        self._clock = clock
        self._lines = deque(outcome.lines)
        self._passed = 0.0
        self._echo: asyncio.Queue[bytes] | None = None
        if list(command) == ["cat"]:
            self._echo = asyncio.Queue(maxsize=1)

    async def receive(self) -> tuple[OutputName, bytes] | None:
        if self._echo:
            data = await self._echo.get()
            return ("stdout", data) if data else None
        if not self._lines:
            return None
        at, line = self._lines.popleft()
        await self._sleep_until(at)
        return "stdout", f"{line}\n".encode()

    async def _sleep_until(self, at: float) -> None:
        await self._clock.sleep(at - self._passed)
        self._passed = at

    async def write(self, data: bytes) -> None:
        if self._echo and data:
            await self._echo.put(data)

    async def end_input(self) -> None:
        if self._echo:
            await self._echo.put(b"")

    def resize(self, width: int, height: int) -> None:
        """It has no terminal that could have a size."""

    async def wait(self) -> int:
        await self._sleep_until(self._outcome.seconds)
        return self._outcome.exit_code
