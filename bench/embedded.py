"""The cluster inside a test's process: how long it takes, and what it holds."""

import json
import subprocess
import sys

from bench.report import Row

_NODES = 3
_CODE = f"""
import json, sys, time
begun = time.perf_counter()
from shepherd.testing import Cluster
Cluster
imported = time.perf_counter()
with Cluster(nodes={_NODES}, tls="tls" in sys.argv):
    ready = time.perf_counter()
    status = open("/proc/self/status").read()
    stopping = time.perf_counter()
ended = time.perf_counter()
with Cluster(nodes={_NODES}, tls="tls" in sys.argv) as cluster:
    again = time.perf_counter()
    cluster.clock.advance(3600.0)
    hour = time.perf_counter()
resident = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
print(json.dumps({{
    "import": imported - begun,
    "ready": ready - imported,
    "stopped": ended - stopping,
    "again": again - ended,
    "hour": hour - again,
    "resident": int(resident) / 1000,
}}))
"""


def _run(*arguments: str) -> dict[str, float]:
    """One process with two clusters, one after the other."""
    command = [sys.executable, "-c", _CODE, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, float] = json.loads(result.stdout)
    return found


def measure() -> list[Row]:
    plain, tls = _run(), _run("tls")
    nodes = f"{_NODES} nodes"
    return [
        Row("embedded import", plain["import"], "s", note="once per process"),
        Row("embedded ready", plain["ready"], "s", "<= 0.5", f"{nodes}; k3d 19.9, kind 33"),
        Row("embedded ready, the second", plain["again"], "s", "<= 0.5", nodes),
        Row("embedded ready, TLS", tls["ready"], "s", "<= 0.5", f"{nodes}; keys are made"),
        Row("embedded stopped", plain["stopped"], "s", "<= 0.3", nodes),
        Row("embedded, an hour ahead", plain["hour"], "s", note=f"{nodes}, idle"),
        Row("RSS embedded", plain["resident"], "MB", "<= 60", "the whole Python process"),
        Row("RSS embedded, TLS", tls["resident"], "MB", "<= 60"),
    ]
