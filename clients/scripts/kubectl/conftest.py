"""Which kubectl, `KUBECTL` says; the cluster is that of `KUBECONFIG`."""

import json
import os
import re
import uuid
from collections.abc import Iterator

import pytest
from clients.scripts.kubectl.program import Kubectl


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "since(minor): kubectl has the command since 1.<minor>")


@pytest.fixture(scope="session")
def anywhere() -> Kubectl:
    """kubectl without a namespace of its own."""
    program = os.environ["KUBECTL"]
    version = json.loads(Kubectl(program)("version", "--client", "-o", "json"))
    minor = re.sub(r"\D", "", version["clientVersion"]["minor"])
    return Kubectl(program, minor=int(minor))


@pytest.fixture
def kubectl(anywhere: Kubectl, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl in a fresh namespace."""
    if (marker := request.node.get_closest_marker("since")) and anywhere.minor < marker.args[0]:
        pytest.skip(f"kubectl 1.{anywhere.minor} has no such command")
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    anywhere("create", "namespace", namespace)
    yield Kubectl(anywhere.program, namespace, anywhere.minor)
    anywhere("delete", "namespace", namespace, "--wait=false")
