"""`make run`: a cluster of one machine in the foreground, with the example running on it.

    python tools/demo.py [flags of shepherd]

Starts `shepherd --mode standalone`, waits for its node, applies examples/web.yaml, waits for the
rollout and prints what runs, its address and what to try next. Ctrl-C stops it; the containers go
on running and are adopted by the next start.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = ROOT / ".venv" / "bin"
IMAGE = ROOT / "build" / "demo-image.tar"
EXAMPLE = ROOT / "examples" / "web.yaml"
START_SECONDS = 60.0


def _flag(flags: list[str], name: str, default: str) -> str:
    for index, flag in enumerate(flags):
        if flag == name and index + 1 < len(flags):
            return flags[index + 1]
        if flag.startswith(f"{name}="):
            return flag.split("=", 1)[1]
    return default


def _sheepctl(
    kubeconfig: Path, *arguments: str, quiet: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run sheepctl; what it prints goes to the terminal unless `quiet`."""
    return subprocess.run(
        [BIN / "sheepctl", "--kubeconfig", kubeconfig, *arguments],
        capture_output=quiet,
        text=True,
        check=False,
    )


def _wait_for_node(server: subprocess.Popen[bytes], kubeconfig: Path) -> None:
    started = time.monotonic()
    while time.monotonic() - started < START_SECONDS:
        if server.poll() is not None:
            sys.exit(server.returncode or 1)
        if kubeconfig.exists():
            nodes = _sheepctl(kubeconfig, "nodes", quiet=True)
            if nodes.returncode == 0 and " Ready" in nodes.stdout:
                return
        time.sleep(0.1)
    sys.exit(f"the node was not Ready within {START_SECONDS:.0f} s; its log is above")


def _place_image(data_dir: Path) -> None:
    """Archives in <data-dir>/images are imported at start."""
    images = data_dir / "images"
    images.mkdir(parents=True, exist_ok=True)
    target = images / IMAGE.name
    if not target.exists() or target.stat().st_mtime < IMAGE.stat().st_mtime:
        partial = images / f".{IMAGE.name}"
        partial.write_bytes(IMAGE.read_bytes())
        partial.rename(target)


def _what_to_try(kubeconfig: Path) -> None:
    service = _sheepctl(kubeconfig, "get", "service", "web", quiet=True)
    address = service.stdout.splitlines()[-1].split()[2] if service.returncode == 0 else "?"
    print(
        f"""
In another terminal:

  export KUBECONFIG={kubeconfig}
  curl http://{address}/                 # each pod answers with its own name
  kubectl get pods -o wide                      # or .venv/bin/sheepctl, .venv/bin/kubectl
  kubectl scale deployment/web --replicas=5
  kubectl logs deployment/web
  kubectl delete -f examples/web.yaml

Ctrl-C stops the server and the agent; the containers go on and are adopted at the next start.
""",
        flush=True,
    )


def main() -> None:
    flags = sys.argv[1:]
    data_dir = Path(_flag(flags, "--data-dir", "/var/lib/shepherd")).absolute()
    _place_image(data_dir)
    kubeconfig = data_dir / "kubeconfig"
    server = subprocess.Popen([BIN / "shepherd", "--mode", "standalone", *flags])
    # A terminal's Ctrl-C reaches the server by itself; it is the server's end that ends us.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(server.pid, signal.SIGTERM))
    _wait_for_node(server, kubeconfig)
    if _sheepctl(kubeconfig, "apply", "--wait", "-f", str(EXAMPLE)).returncode == 0:
        _sheepctl(kubeconfig, "get", "pods", "-o", "wide")
        _what_to_try(kubeconfig)
    sys.exit(server.wait())


if __name__ == "__main__":
    main()
