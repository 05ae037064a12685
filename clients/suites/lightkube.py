"""lightkube: its repository alone holds its end-to-end tests."""

from pathlib import Path

from clients.install import checkout, venv
from clients.suite import Command, Suite


def _python() -> Path:
    source = checkout("lightkube")
    # Its tests set a misspelt attribute, which later models refuse; this is what it locks.
    models = "lightkube-models==1.35.0.8"
    return venv("lightkube", "pytest", "pytest-asyncio", "pytest-timeout", models, str(source))


def _command(kubeconfig: Path) -> Command:
    arguments = ("e2e-tests", "--timeout=120", "-o", "asyncio_mode=auto")
    return Command(_python(), checkout("lightkube"), arguments)


SUITE = Suite("lightkube", "lightkube, e2e-tests of a checkout", _python, _command)
