"""What the suites run against: a standalone with real containers."""

from collections.abc import Iterator
from contextlib import contextmanager

from bench.programs import directory

from clients.registry import Registry, serve
from shepherd.runtime.oci import kernel
from shepherd.testing.program import Program, eventually

_REGISTRIES = ("docker.io", "registry.k8s.io", "k8s.gcr.io", "gcr.io")
_STOP_SECONDS = 90.0
"""Pods are given their grace time, which is 30 s by default."""

# Suites expect a cluster in which something runs already: any pod, and metrics-server by name.
_SYSTEM = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: metrics-server, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: metrics-server}}
  template:
    metadata: {labels: {k8s-app: metrics-server}}
    spec:
      containers: [{name: pause, image: registry.k8s.io/pause:3.9}]
"""


@contextmanager
def standalone() -> Iterator[Program]:
    """A ready cluster whose images come from a registry of stand-ins; ended with its pods."""
    with serve(Registry()) as registry, directory() as folder:
        mirrors = [f"--registry-mirror={name}={registry}" for name in _REGISTRIES]
        flags = ["--mode", "standalone", "--stop-pods", "--log-level", "warning", *mirrors]
        program = Program(folder, flags).start()
        try:
            program.wait_ready()
            manifest = folder / "system.yaml"
            manifest.write_text(_SYSTEM)
            program.kubectl("apply", "-f", str(manifest))
            eventually(lambda: _runs(program), what="metrics-server runs")
            yield program
        finally:
            program.stop(_STOP_SECONDS)
            # Stopped pods keep their file systems for the next start, which there will not be.
            for point in kernel.mount_points(folder):
                kernel.unmount(point)


def _runs(program: Program) -> bool:
    deployment = program.get("deployment", "metrics-server", "-n", "kube-system")
    return bool(deployment["status"].get("readyReplicas"))
