"""The pytest plugin: clusters as fixtures.

    def test_my_operator(shepherd):          # a namespace of its own in the session's cluster
        api = kr8s.api(**shepherd.kr8s)

    def test_a_lost_node(shepherd_cluster):  # a cluster of its own
        shepherd_cluster.nodes.lose("n1")

How clusters are made is told by a fixture too; the default is one hollow node:

    @pytest.fixture(scope="session")
    def shepherd_options():
        return {"nodes": 3, "tls": True}
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from shepherd.testing import Cluster, Settings


@pytest.fixture(scope="session")
def shepherd_options() -> dict[str, Any]:
    """Arguments for `Cluster`; override it."""
    return {}


@pytest.fixture(scope="session")
def shepherd_session(shepherd_options: dict[str, Any]) -> "Iterator[Cluster]":
    """The cluster behind `shepherd`: one per session (with xdist, per worker)."""
    from shepherd.testing import Cluster

    with Cluster(**shepherd_options) as cluster:
        yield cluster


@pytest.fixture
def shepherd(shepherd_session: "Cluster") -> "Iterator[Settings]":
    """The way to a fresh namespace; it is deleted after the test, with all that is in it."""
    with shepherd_session.namespace() as settings:
        yield settings
    shepherd_session.faults.clear()


@pytest.fixture
def shepherd_cluster(shepherd_options: dict[str, Any]) -> "Iterator[Cluster]":
    """A cluster of this test's own."""
    from shepherd.testing import Cluster

    with Cluster(**shepherd_options) as cluster:
        yield cluster
