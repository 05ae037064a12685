"""kubectl as the tests call it, and what they apply."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.install import ROOT


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One kubectl, in one namespace."""

    program: str
    namespace: str = ""
    minor: int = 0

    def command(self, *arguments: str) -> list[str]:
        where = ["--namespace", self.namespace] if self.namespace else []
        return [self.program, *where, *arguments]

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0, out: bool = False) -> str:
        """What it prints; on standard error, if it is to fail with `code`, unless `out`."""
        result = subprocess.run(
            self.command(*arguments),
            input=stdin, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert result.returncode == code, result.stdout + result.stderr
        return result.stderr if code and not out else result.stdout

    def get(self, *arguments: str) -> Any:
        return json.loads(self("get", *arguments, "-o", "json"))

    def apply(self, manifest: object, *arguments: str, code: int = 0) -> str:
        return self("apply", "-f", "-", *arguments, stdin=json.dumps(manifest), code=code)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Begin a command that goes on."""
        return subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip


@contextmanager
def for_operator(folder: Path, definition: str) -> Iterator[Kubectl]:
    """Our kubectl in a fresh namespace; what the folder's `operator.yaml` defines is there."""
    anywhere = Kubectl(str(ROOT / ".venv" / "bin" / "kubectl"))
    manifest = str(folder / "operator.yaml")
    anywhere("apply", "-f", manifest)
    anywhere("wait", "--for=condition=Established", f"crd/{definition}")
    namespace = f"{folder.name}-{uuid.uuid4().hex[:8]}"
    anywhere("create", "namespace", namespace)
    yield Kubectl(anywhere.program, namespace)
    anywhere("delete", "namespace", namespace, "--timeout=60s")
    anywhere("delete", "-f", manifest, "--timeout=60s")


def deployment(name: str = "web", replicas: int = 1, image: str = "nginx:1.14.2") -> dict[str, Any]:
    """A deployment of stand-ins."""
    labels = {"app": name}
    container = {"name": "main", "image": image, "ports": [{"containerPort": 80}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            },
        },
    }


def workload(kind: str) -> dict[str, Any]:
    """A StatefulSet or DaemonSet of the same pods."""
    manifest = deployment()
    spec = manifest["spec"]
    if kind == "DaemonSet":
        del spec["replicas"]
    else:
        spec["serviceName"] = "web"
    return manifest | {"kind": kind}


def pod(name: str = "box", script: str = "sleep 3600", **spec: Any) -> dict[str, Any]:
    """A pod of busybox that runs a script."""
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "Never",
            **spec,
        },
    }
