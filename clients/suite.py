"""What a suite is, how it is run, and what came of it."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from clients.install import BUILD, MissingError


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
    is asked once the cluster is up, with its kubeconfig.
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
    collected: int = 0
    passed: int = 0
    skipped: int = 0
    failures: Mapping[str, str] = field(default_factory=dict)
    """Test to reason."""
    seconds: float = 0.0
    not_run: str = ""
    """Why it was not run at all."""

    @property
    def good(self) -> bool:
        """Whether all that failed is upstream's own affair."""
        return not self.not_run and not set(self.failures) - set(self.suite.upstream)


def prepare(suites: list[Suite]) -> dict[str, str]:
    """Bring what the suites need. Suite to the reason why it cannot be run."""
    missing: dict[str, str] = {}
    for suite in suites:
        try:
            suite.prepare()
        except MissingError as error:
            missing[suite.name] = str(error)
    return missing


def run(suite: Suite, kubeconfig: Path, arguments: list[str], seconds: float = 1800) -> Outcome:
    """Run a suite against the cluster; its output goes to build/clients/<suite>.log."""
    command = suite.command(kubeconfig)
    results = BUILD / f"{suite.name}.xml"
    results.unlink(missing_ok=True)
    # A deep recursion's traceback can bring CPython 3.11 down when pytest formats it: --tb=line.
    line: list[str | Path] = [
        command.python, "-m", "pytest", *command.arguments, *arguments, "-q", "--tb=line",
        "-p", "no:cacheprovider", f"--junitxml={results}", "-o", "junit_logging=no",
    ]  # fmt: skip
    environment = os.environ | {
        "KUBECONFIG": str(kubeconfig),
        "HOME": str(kubeconfig.parent / "home"),
        "PATH": f"{command.python.parent}:{os.environ['PATH']}",
        **command.environment,
    }
    began = time.monotonic()
    with (BUILD / f"{suite.name}.log").open("wb") as log:
        subprocess.run(
            line, cwd=command.folder, env=environment, stdout=log, stderr=log, check=False,
            timeout=seconds,
        )  # fmt: skip
    took = time.monotonic() - began
    if not results.exists():
        return Outcome(suite, seconds=took, not_run=f"pytest gave no result: see {log.name}")
    return read(suite, results, took)


def read(suite: Suite, results: Path, seconds: float) -> Outcome:
    """The outcome that a JUnit file tells."""
    failures: dict[str, str] = {}
    tests: dict[str, str] = {}
    for case in ElementTree.parse(results).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        state = tests.get(name, "passed")
        for mark in case:
            if mark.tag in ("failure", "error"):
                failures[name] = " ".join((mark.get("message") or mark.text or "").split())
                state = "failed"
            elif mark.tag == "skipped":
                state = "skipped"
        tests[name] = state
    states = list(tests.values())
    return Outcome(
        suite, len(tests), states.count("passed"), states.count("skipped"), failures, seconds
    )
