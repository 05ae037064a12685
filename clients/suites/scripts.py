"""Scripts of ours for programs of others: kubectl, Helm, and operators in Go and Python."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from clients.install import ROOT, go_modules, go_program, kubectl_layer, venv
from clients.suite import Command, Suite

_BIN = ROOT / ".venv" / "bin"
_KOPF = ("kopf==1.45.2", "kubernetes")
_SCRIPTS = ROOT / "clients" / "scripts"
_MANAGER = _SCRIPTS / "manager"


def _kubectl() -> Path:
    return _BIN / "kubectl"


def _layer(version: str, program: str) -> Path:
    return kubectl_layer(version) / program


def _kopf() -> Path:
    return venv("kopf", *_KOPF)


def _manager() -> Path:
    return go_program(_MANAGER)


def _command(variable: str, program: Callable[[], Path], kubeconfig: Path) -> Command:
    """The scripts in the folder `variable`, with the program in the variable of that name."""
    arguments = (str(_SCRIPTS / variable.lower()), "--timeout=120")
    return Command(_BIN / "python", ROOT, arguments, {variable: str(program())})


def _suite(name: str, what: str, variable: str, program: Callable[[], Path]) -> Suite:
    return Suite(name, what, prepare=program, command=partial(_command, variable, program))


_KUBECTL_129 = partial(_layer, "v29", "kubectl")
_KUBECTL_122 = partial(_layer, "v22", "kubectl")

SUITES = (
    # First, for it begins by building: a minute or two in which others wait for their clusters.
    Suite(
        "manager",
        "an operator of ours with Go's controller-runtime",
        prepare=partial(go_modules, _MANAGER),
        command=partial(_command, "MANAGER", _manager),
    ),
    _suite("kubectl-1.37", "kubectl 1.37, scripts of ours", "KUBECTL", _kubectl),
    _suite("kubectl-1.29", "the same with kubectl 1.29", "KUBECTL", _KUBECTL_129),
    _suite("kubectl-1.22", "the same with kubectl 1.22", "KUBECTL", _KUBECTL_122),
    _suite("helm-4", "Helm 4.1, a chart of ours", "HELM", partial(_layer, "v35", "helm")),
    _suite("helm-3", "the same with Helm 3.17", "HELM", partial(_layer, "v29", "helm")),
    _suite("kopf", "an operator of ours with kopf", "KOPF", _kopf),
)
