"""What a suite is, how it is run, and what came of it."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

from clients.install import BUILD, MissingError

_LIMIT_SECONDS = 600.0
"""How long a suite may take."""


@dataclass(frozen=True, slots=True)
class Command:
    """One run of pytest: which Python, from which folder, on what, with which variables."""

    python: Path
    folder: Path
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite of tests that speaks to a cluster.

    `prepare` brings what it needs, while there is a network, and may raise MissingError; `command`
    is asked once the cluster is up, with its kubeconfig. A suite goes to a process of its own, so
    both must be known by name there.
    """

    name: str
    what: str
    prepare: Callable[[], object]
    command: Callable[[Path], Command]
    without_cluster: int = 0
    """How many of its tests say nothing of a cluster: they pass, or are skipped, without one."""
    upstream: Mapping[str, str] = field(default_factory=dict)
    """Tests that judge their own project's tooling, and why they fail here."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A line of the table."""

    suite: Suite
    states: Mapping[str, str] = field(default_factory=dict)
    """What became of each test: `passed`, `skipped` or `failed`."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why tests failed; those too that passed when they were tried again."""
    seconds: float = 0.0
    not_run: str = ""
    """Why the suite was not run at all."""

    @classmethod
    def failure(cls, suite: Suite, what: str, reason: str, seconds: float = 0.0) -> "Outcome":
        """That of a suite whose tests tell nothing, because `what` failed."""
        return cls(suite, {what: "failed"}, {what: reason}, seconds)

    def count(self, state: str) -> int:
        return list(self.states.values()).count(state)

    @property
    def failed(self) -> list[str]:
        """The tests that failed, except those that judge their own project's tooling."""
        return [test for test in self.reasons if self._failed(test) and not self._upstream(test)]

    @property
    def upstream(self) -> list[str]:
        """The tests that failed and judge their own project's tooling."""
        return [test for test in self.reasons if self._failed(test) and self._upstream(test)]

    @property
    def good(self) -> bool:
        """Whether nothing failed that counts."""
        return not self.failed

    @property
    def once(self) -> list[str]:
        """The tests that failed, and passed when they were tried again."""
        return [test for test in self.reasons if not self._failed(test)]

    def after(self, first: "Outcome") -> "Outcome":
        """The outcome of two tries, of which this is the second: a test passed if it did once."""
        passed = {test: state for test, state in first.states.items() if state == "passed"}
        return replace(
            self,
            states={**self.states, **passed},
            reasons={**first.reasons, **self.reasons},
            seconds=first.seconds + self.seconds,
        )

    def _failed(self, test: str) -> bool:
        return self.states.get(test) == "failed"

    def _upstream(self, test: str) -> bool:
        return test in self.suite.upstream


def prepare(suites: Sequence[Suite]) -> dict[str, str]:
    """Bring what the suites need. Suite to the reason why it cannot be run."""
    missing: dict[str, str] = {}
    for suite in suites:
        try:
            suite.prepare()
        except MissingError as error:
            missing[suite.name] = str(error)
    return missing


def run(suite: Suite, kubeconfig: Path, arguments: list[str]) -> Outcome:
    """Run a suite against the cluster; its output goes to build/clients/<suite>.log."""
    command = suite.command(kubeconfig)
    results = BUILD / f"{suite.name}.xml"
    results.unlink(missing_ok=True)
    # A deep recursion's traceback can bring CPython 3.11 down when pytest formats it: --tb=line.
    line: list[str | Path] = [
        command.python, "-m", "pytest", *command.arguments, *arguments, "-q", "--tb=line", "-rfER",
        "-p", "no:cacheprovider", f"--junitxml={results}", "-o", "junit_logging=no",
    ]  # fmt: skip
    environment = os.environ | {
        "KUBECONFIG": str(kubeconfig),
        "HOME": str(kubeconfig.parent / "home"),
        "PATH": f"{command.python.parent}:{os.environ['PATH']}",
        **command.environment,
    }
    began = time.monotonic()
    log = BUILD / f"{suite.name}.log"
    with log.open("wb") as output, suppress(subprocess.TimeoutExpired):
        subprocess.run(
            line, cwd=command.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, check=False, timeout=_LIMIT_SECONDS,
        )  # fmt: skip
    took = time.monotonic() - began
    if not results.exists():
        return Outcome.failure(suite, "pytest", f"gave no result: see {log}", took)
    states, reasons = read(results)
    again = dict.fromkeys(rerun(log.read_text()), "passed when it was run again")
    return Outcome(suite, states, again | reasons, took)


def read(results: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What a JUnit file tells: the state of each test, and why some failed."""
    states: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for case in ElementTree.parse(results).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        states.setdefault(name, "passed")
        for mark in case:
            if mark.tag in ("failure", "error"):
                reasons[name] = " ".join((mark.get("message") or mark.text or "").split())
                states[name] = "failed"
            elif mark.tag == "skipped":
                states[name] = "skipped"
    return states, reasons


def rerun(log: str) -> list[str]:
    """The tests that pytest-rerunfailures says it ran again, named as `read` does."""
    found = re.findall(r"^RERUN (.+?)\.py::(.+)$", log, re.MULTILINE)
    return [f"{file.replace('/', '.')}::{test}" for file, test in found]
