"""Two copies of the manager, as processes of their own; `MANAGER` names the program."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from clients.scripts.kubectl.program import Kubectl, for_operator

from shepherd.testing.program import eventually

HERE = Path(__file__).parent


@dataclass
class Managers:
    """The copies that were started in a namespace, by their process ids."""

    kubectl: Kubectl
    processes: "dict[int, subprocess.Popen[bytes]]"

    def start(self) -> None:
        process = subprocess.Popen([os.environ["MANAGER"], self.kubectl.namespace])
        self.processes[process.pid] = process

    def leader(self) -> str:
        """Who holds the lease; empty until somebody does."""
        with suppress(AssertionError):
            return str(self.kubectl.get("lease", "orchards")["spec"]["holderIdentity"])
        return ""

    def kill_all(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.processes.clear()


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    """kubectl in a fresh namespace, the definition being there."""
    with for_operator(HERE, "orchards.shepherd.example") as kubectl:
        yield kubectl


@pytest.fixture(scope="module")
def managers(kubectl: Kubectl) -> Iterator[Managers]:
    """One copy that leads."""
    managers = Managers(kubectl, {})
    managers.start()
    eventually(managers.leader, what="a leader")
    yield managers
    managers.kill_all()
