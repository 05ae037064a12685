"""The embedded cluster does not need Linux (as far as can be told on Linux)."""

import subprocess
import sys

MACHINE_WITHOUT_LINUX = """
import os, pathlib, select, socket, sys, urllib.request

sys.platform = "darwin"
if hasattr(os, "process_cpu_count"):
    os.process_cpu_count = os.cpu_count  # As Python has it there; here it asks what goes next.
del os.sched_getaffinity, socket.TCP_KEEPIDLE, select.epoll
for name in ("unshare", "setns", "pidfd_open", "eventfd", "memfd_create"):
    if hasattr(os, name):
        delattr(os, name)
read_text = pathlib.Path.read_text

def read(path, *arguments, **options):
    if path.parts[1] in ("proc", "sys", "etc"):
        raise FileNotFoundError(2, "not on this system", str(path))
    return read_text(path, *arguments, **options)

pathlib.Path.read_text = read
"""

A_TEST = """
from shepherd.testing import Cluster
from shepherd.testing.rest import Rest, is_running, pod

with Cluster(nodes=2) as cluster:
    rest = Rest(cluster.settings)
    rest.ask("POST", "pods", pod("web"))
    rest.until("pods/web", is_running)
    cluster.clock.advance(600)
    print(rest.get("pods/web")["status"]["phase"])
"""


def test_it_runs_without_what_only_linux_has() -> None:
    command = [sys.executable, "-c", MACHINE_WITHOUT_LINUX + A_TEST]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout == "Running\n", result.stderr
