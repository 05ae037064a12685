"""Build the demo image: busybox and a script that serves the pod's own name over HTTP.

    python tools/build_demo_image.py build/demo-image.tar

The archive is a docker-archive (what `docker save` writes), made from Debian's busybox-static with
the standard library alone, and the same bytes each time. `image` makes any such image.
"""

import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

REFERENCE = "shepherd.local/demo:1"
BUSYBOX = Path("/bin/busybox")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

# The shell stays process 1, which has no default signal actions: it must trap TERM itself. Like any
# well-behaved server it answers for a moment longer, while others still learn that it is leaving.
SERVE = """#!/bin/sh
port=${PORT:-8080}
mkdir -p /www
hostname >/www/index.html
echo "serving $(hostname) on port $port"
httpd -f -v -p "$port" -h /www &
trap 'echo stopping; sleep 1; kill $!; exit 0' TERM INT
wait
"""


def _add(tar: tarfile.TarFile, name: str, data: bytes = b"", *, kind: bytes = tarfile.REGTYPE,
         mode: int = 0o755, link: str = "") -> None:  # fmt: skip
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.mode = mode
    entry.size = len(data)
    entry.linkname = link
    tar.addfile(entry, io.BytesIO(data))


def _layer(files: Mapping[str, bytes]) -> bytes:
    applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, check=True, text=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder in ("bin", "etc", "root", "tmp", "usr", "var", "www"):
            _add(tar, folder, kind=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
        _add(tar, "bin/busybox", BUSYBOX.read_bytes())
        for applet in sorted(set(applets.stdout.split()) - {"busybox"}):
            _add(tar, f"bin/{applet}", kind=tarfile.SYMTYPE, link="busybox")
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", mode=0o644)
        _add(tar, "etc/group", b"root:x:0:\n", mode=0o644)
        for name, data in files.items():
            _add(tar, name, data)
    return buffer.getvalue()


def image(files: Mapping[str, bytes], config: Mapping[str, object]) -> tuple[bytes, bytes]:
    """An image of busybox and `files` (all executable): its OCI image configuration and its layer.

    `config` is the configuration's `config`: Cmd, Env, ExposedPorts.
    """
    layer = _layer(files)
    description = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], **config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    return json.dumps(description, sort_keys=True).encode(), layer


def build(path: Path) -> None:
    """Write the demo image's archive to `path`."""
    demo = {"Cmd": ["/bin/serve"], "ExposedPorts": {"8080/tcp": {}}}
    config, layer = image({"bin/serve": SERVE.encode()}, demo)
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{hashlib.sha256(layer).hexdigest()}/layer.tar"
    manifest = [{"Config": name, "RepoTags": [REFERENCE], "Layers": [layer_name]}]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode="w") as tar:
        _add(tar, name, config, mode=0o644)
        _add(tar, layer_name, layer, mode=0o644)
        _add(tar, "manifest.json", json.dumps(manifest).encode(), mode=0o644)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
