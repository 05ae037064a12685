"""The official Python client: its repository alone holds its end-to-end tests.

They are run as part of the installed package (of the same version), since they import it as theirs.
"""

import shutil
from pathlib import Path

from clients.install import BUILD, checkout, venv
from clients.suite import Command, Suite

_FOLDERS = ("kubernetes/e2e_test", "kubernetes/aio/e2e_test")


def _python() -> Path:
    checkout("python")
    return venv("official", "pytest", "pytest-asyncio", "pytest-timeout", "kubernetes==37.0.2")


def _command(kubeconfig: Path) -> Command:
    python, source = _python(), checkout("python")
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    folder = BUILD / "official" / "run"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kubernetes").mkdir(parents=True)
    # Some tests read kubernetes/e2e_test/test_yaml/ below the current directory.
    (folder / _FOLDERS[0]).symlink_to(source / _FOLDERS[0])
    for name in _FOLDERS:
        link = packages / name
        link.unlink(missing_ok=True)
        link.symlink_to(source / name)
    modules = tuple(name.replace("/", ".") for name in _FOLDERS)
    arguments = ("--import-mode=importlib", "--timeout=180", "--pyargs", *modules)
    return Command(python, folder, arguments)


SUITE = Suite(
    "official", "kubernetes-client/python, e2e_test of a checkout", _python, _command,
    without_cluster=4,
)  # fmt: skip
