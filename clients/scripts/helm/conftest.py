"""Which Helm, `HELM` says; the cluster is that of `KUBECONFIG`."""

import os
import uuid
from collections.abc import Iterator

import pytest
from clients.install import ROOT
from clients.scripts.kubectl.program import Kubectl


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    """kubectl in a fresh namespace."""
    program = str(ROOT / ".venv" / "bin" / "kubectl")
    namespace = f"helm-{uuid.uuid4().hex[:8]}"
    Kubectl(program)("create", "namespace", namespace)
    yield Kubectl(program, namespace)
    Kubectl(program)("delete", "namespace", namespace, "--wait=false")


@pytest.fixture(scope="module")
def helm(kubectl: Kubectl) -> Kubectl:
    """Helm in the same namespace: it is called just as kubectl is."""
    return Kubectl(os.environ["HELM"], kubectl.namespace)
