"""The operator runs as its own process, with the Python that `KOPF` names."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from clients.install import ROOT
from clients.scripts.kubectl.program import Kubectl

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    """kubectl in a namespace in which the operator works."""
    program = Kubectl(str(ROOT / ".venv" / "bin" / "kubectl"))
    program("apply", "-f", str(HERE / "operator.yaml"))
    program("wait", "--for=condition=Established", "crd/greeters.shepherd.example")
    namespace = f"kopf-{uuid.uuid4().hex[:8]}"
    program("create", "namespace", namespace)
    command = [os.environ["KOPF"], "-m", "kopf", "run", "-n", namespace, str(HERE / "operator.py")]
    operator = subprocess.Popen(command)
    yield Kubectl(program.program, namespace)
    operator.terminate()
    assert operator.wait(30) == 0
    program("delete", "namespace", namespace, "--timeout=60s")
    program("delete", "-f", str(HERE / "operator.yaml"), "--timeout=60s")
