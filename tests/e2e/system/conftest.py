"""A standalone with real containers."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.testing.program import Program

ROOT = Path(__file__).parents[3]


def standalone(data_dir: Path, port: int = 9876, *flags: str) -> Program:
    """A standalone that has the demo image, not yet started."""
    images = data_dir / "images"
    images.mkdir(parents=True)
    shutil.copy(ROOT / "build" / "demo-image.tar", images)
    return Program(data_dir, ["--mode", "standalone", "--addr", f":{port}", *flags])


@pytest.fixture(scope="module")
def cluster(network_namespace: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One cluster for the tests of a module; each test removes what it made."""
    program = standalone(tmp_path_factory.mktemp("standalone"))
    program.start().wait_ready()
    try:
        yield program
    finally:
        program.discard()


@pytest.fixture
def scratch(cluster: Program) -> Iterator[Program]:
    """The cluster, with a namespace `scratch` for one test."""
    cluster.kubectl("create", "namespace", "scratch")
    yield cluster
    cluster.kubectl("delete", "namespace", "scratch", "--timeout=60s")


@pytest.fixture
def new_standalone(network_namespace: None, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Makes standalones, which a test starts itself; all that ran is discarded at its end."""
    made: list[Program] = []

    def make(name: str, port: int, *flags: str) -> Program:
        made.append(standalone(tmp_path / name, port, *flags))
        return made[-1]

    yield make
    for program in made:
        program.discard()
