"""Which runtime works on this machine? The answer comes from creating a container, not from reading
version numbers, and is kept for as long as neither the machine was booted nor a binary changed."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import msgspec

from shepherd.runtime.base import SheepError
from shepherd.runtime.oci import pause
from shepherd.runtime.oci.images import write_atomically
from shepherd.runtime.oci.monitor import CONMON, OciCommand, OciError

CANDIDATES = ("crun", "runc")
"""The preferred one first: crun is written in C and starts a container in half the time."""


class Probed(msgspec.Struct, frozen=True):
    binary: str
    version: str
    problems: tuple[str, ...] = ()
    key: str = ""


def probe(root: Path, state: Path, cgroup: str) -> Probed:
    """The runtime to use. Raises SheepError when nothing can run containers here."""
    key = _key()
    cache = root / "probe.json"
    try:
        known = msgspec.json.decode(cache.read_bytes(), type=Probed)
        if known.key == key:
            return known
    except (OSError, msgspec.DecodeError):
        pass
    found = _choose(root / "probe", state, cgroup, key)
    write_atomically(cache, msgspec.json.encode(found))
    return found


def _choose(scratch: Path, state: Path, cgroup: str, key: str) -> Probed:
    if shutil.which(CONMON) is None:
        raise SheepError("RuntimeNotReady", "conmon is not installed: apt-get install conmon")
    problems = []
    for name in CANDIDATES:
        binary = shutil.which(name)
        if binary is None:
            problems.append(f"{name} is not installed: apt-get install {name}")
            continue
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            _create(OciCommand(state, binary), scratch, f"{cgroup}/probe-{name}")
        except (OciError, OSError) as error:
            problems.append(f"{name} cannot create a container here: {error}")
            continue
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return Probed(binary, _version(binary), tuple(problems), key)
    raise SheepError("RuntimeNotReady", "; ".join(problems))


def _create(command: OciCommand, bundle: Path, cgroup: str) -> None:
    """Create and delete the smallest container. Raises OciError, OSError."""
    pause.write_bundle(bundle, cgroup, dict.fromkeys(("pid", "ipc", "network"), ""))
    name = f"probe-{hashlib.sha256(str(bundle).encode()).hexdigest()[:12]}"
    command.delete(name)
    try:
        command.run("create", "--bundle", str(bundle), name)
    finally:
        command.delete(name)


def _version(binary: str) -> str:
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0].rpartition(" ")[2]


def _key() -> str:
    """Changes whenever the answer may."""
    parts = [Path("/proc/sys/kernel/random/boot_id").read_text().strip()]
    for name in (*CANDIDATES, CONMON):
        binary = shutil.which(name)
        if binary is not None:
            status = Path(binary).stat()
            parts.append(f"{binary}:{status.st_size}:{status.st_mtime_ns}")
    return " ".join(parts)
