"""Stand-ins for the public images that the suites name.

Machines that run the suites reach no image registry. Each stand-in is busybox with what a suite
expects of the image: nginx answers on port 80, pause does nothing, python is the machine's own.
"""

import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.build_demo_image import image

# Process 1 has no default signal actions: it must trap TERM itself.
_SERVE = b"""#!/bin/sh
httpd -f -p 80 -h /usr/share/nginx/html &
trap 'kill $!; exit 0' TERM INT QUIT
wait
"""
_PAUSE = b"""#!/bin/sh
trap 'exit 0' TERM INT
sleep 2147483647 &
wait
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_WELCOME = b"<html><body><h1>Welcome to nginx!</h1></body></html>\n"


@dataclass(frozen=True, slots=True)
class StandIn:
    """One image: the repositories that hold it under whatever tag is asked for, its command, and
    its files beside busybox."""

    repositories: tuple[str, ...]
    command: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)


def _python() -> dict[str, bytes]:
    """The machine's Python: its program, what that is linked with, and its standard library."""
    program = Path(f"/usr/bin/python{sysconfig.get_python_version()}")
    library = Path(sysconfig.get_path("stdlib", vars={"base": "/usr", "installed_base": "/usr"}))
    linked = subprocess.run(["ldd", program], capture_output=True, check=True, text=True).stdout
    libraries = [Path(word) for word in linked.split() if word.startswith("/")]
    modules = [
        path
        for path in library.rglob("*")
        if path.suffix in (".py", ".so") and not {"test", "site-packages"} & set(path.parts)
    ]
    files = {str(path.relative_to("/")): path.read_bytes() for path in (*libraries, *modules)}
    return files | {"usr/local/bin/python": program.read_bytes()}


def stand_ins() -> tuple[StandIn, ...]:
    """All of them."""
    pause = {"pause": _PAUSE}
    nginx = {"usr/local/bin/nginx": _SERVE, "usr/share/nginx/html/index.html": _WELCOME}
    return (
        StandIn(("library/busybox", "library/alpine", "library/ubuntu"), ("sh",)),
        StandIn(("library/nginx",), ("/usr/local/bin/nginx",), nginx),
        StandIn(("pause", "google_containers/pause", "library/redis"), ("/pause",), pause),
        StandIn(("library/python",), ("python",), _python()),
    )


def build() -> Iterator[tuple[tuple[str, ...], bytes, bytes]]:
    """Every stand-in: its repositories, image configuration and layer."""
    for one in stand_ins():
        config = {"Cmd": list(one.command), "Env": [f"PATH={_PATH}"]}
        yield one.repositories, *image(one.files, config)
