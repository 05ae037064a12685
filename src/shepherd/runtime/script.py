"""The little shell of hollow containers: `echo`, `sleep` and `exit`, in virtual time.

A hollow container does what its command says as far as this goes: `sh -c 'echo hi; sleep 2; exit
3'`. Words that are unknown take no time and do nothing; a command that is no `sh -c` runs for ever.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

FOREVER = float("inf")


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
    if len(command) >= 3 and command[0].rsplit("/", 1)[-1] == "sh" and command[1] == "-c":
        return foresee_script(command[2])
    return Outcome((), FOREVER, 0)


def foresee_script(script: str) -> Outcome:
    """The outcome of steps that `;`, `&&` or line ends part."""
    lines: list[tuple[float, str]] = []
    seconds, exit_code = 0.0, 0
    for step in script.replace("&&", ";").replace("\n", ";").split(";"):
        words = shlex.split(step)
        if not words:
            continue
        name, arguments = words[0], words[1:]
        if name == "echo":
            lines.append((seconds, " ".join(arguments)))
        elif name == "sleep" and arguments:
            seconds += _seconds(arguments[0])
        elif name == "exit":
            exit_code = int(arguments[0]) if arguments and arguments[0].isdecimal() else 0
            break
    return Outcome(tuple(lines), seconds, exit_code)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return FOREVER  # `sleep infinity`, and what the real one would refuse
