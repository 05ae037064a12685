"""The operator runs as its own process, with the Python that `KOPF` names."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from clients.scripts.kubectl.program import Kubectl, for_operator

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    """kubectl in a namespace in which the operator works."""
    with for_operator(HERE, "greeters.shepherd.example") as kubectl:
        what = ["-n", kubectl.namespace, str(HERE / "operator.py")]
        operator = subprocess.Popen([os.environ["KOPF"], "-m", "kopf", "run", *what])
        yield kubectl
        operator.terminate()
        assert operator.wait(30) == 0
