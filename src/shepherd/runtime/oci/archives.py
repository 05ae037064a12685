"""Image archives: what `docker save` and `skopeo copy oci-archive:` write, plain or compressed."""

import hashlib
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from shepherd.runtime.base import SheepError
from shepherd.runtime.oci import references
from shepherd.runtime.oci.layers import OpenBlob, decompressed

METADATA_LIMIT_BYTES = 8 << 20
INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


@dataclass(frozen=True, slots=True)
class ImageSource:
    """An image before it is imported. `layers` opens the blobs, the lowest first."""

    config: bytes
    layers: tuple[OpenBlob, ...]
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()


def bad(message: str) -> SheepError:
    return SheepError("ErrImagePull", message)


def verified(data: bytes, digest: str) -> bytes:
    """`data`, whose digest must be the one given. Raises SheepError."""
    found = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if found != digest:
        raise bad(f"content has digest {found}, expected {digest}")
    return data


def parse_json(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise bad(f"{what} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise bad(f"{what} is not a JSON object")
    return value


def choose_platform(index: dict[str, Any], architecture: str) -> str:
    """The digest of the index's manifest for this machine. Raises SheepError if it has none."""
    offered = []
    for entry in index.get("manifests", ()):
        platform = entry.get("platform") or {}
        if platform.get("os", "linux") == "linux":
            if platform.get("architecture", architecture) == architecture:
                return str(entry["digest"])
            offered.append(str(platform.get("architecture")))
    message = f"no image for linux/{architecture} in the index, only {', '.join(offered) or 'none'}"
    raise bad(message)


@contextmanager
def open_archive(path: Path, architecture: str, scratch: Path) -> Iterator[list[ImageSource]]:
    """The images of an archive; their layers can be opened while the context lasts.

    `scratch` takes the decompressed form of a compressed archive. Raises SheepError.
    """
    try:
        with path.open("rb") as raw, tempfile.TemporaryFile(dir=scratch) as plain:
            stream = decompressed(raw)
            if stream is not raw:
                shutil.copyfileobj(stream, plain, 1 << 20)
                plain.seek(0)
                stream = plain
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                yield _Archive(tar).images(architecture)
    except (tarfile.TarError, EOFError, KeyError, TypeError, AttributeError) as error:
        raise bad(f"{path.name} is no image archive: {error}") from error
    except OSError as error:
        raise bad(f"{path.name}: {error}") from error


class _Archive:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members = {member.name.removeprefix("./"): member for member in tar}

    def images(self, architecture: str) -> list[ImageSource]:
        if "manifest.json" in self._members:
            return [self._docker(entry) for entry in json.loads(self._read("manifest.json"))]
        if "index.json" in self._members:
            index = parse_json(self._read("index.json"), "index.json")
            return [self._oci(entry, architecture) for entry in index["manifests"]]
        raise bad("neither manifest.json (docker save) nor index.json (OCI layout) in the archive")

    def _docker(self, entry: dict[str, Any]) -> ImageSource:
        return ImageSource(
            config=self._read(entry["Config"]),
            layers=tuple(self._opener(name) for name in entry["Layers"]),
            tags=tuple(str(references.parse(tag)) for tag in entry.get("RepoTags") or ()),
        )

    def _oci(self, entry: dict[str, Any], architecture: str) -> ImageSource:
        annotations = entry.get("annotations") or {}
        name = annotations.get("io.containerd.image.name") or annotations.get(
            "org.opencontainers.image.ref.name", ""
        )
        digest = entry["digest"]
        manifest = parse_json(self._blob(digest), "manifest")
        if "manifests" in manifest or entry.get("mediaType") in INDEX_TYPES:
            digest = choose_platform(manifest, architecture)
            manifest = parse_json(self._blob(digest), "manifest")
        return ImageSource(
            config=self._blob(manifest["config"]["digest"]),
            layers=tuple(self._opener(_blob_path(one["digest"])) for one in manifest["layers"]),
            # A bare tag ("latest") names nothing outside its own layout.
            tags=(str(references.parse(name)),) if "/" in name or ":" in name else (),
        )

    def _opener(self, name: str) -> OpenBlob:
        return lambda: self._open(name)

    def _open(self, name: str) -> IO[bytes]:
        member = self._members.get(name)
        file = None if member is None else self._tar.extractfile(member)
        if file is None:
            raise bad(f"{name} is missing in the archive")
        return file

    def _read(self, name: str) -> bytes:
        with self._open(name) as file:
            data = file.read(METADATA_LIMIT_BYTES + 1)
        if len(data) > METADATA_LIMIT_BYTES:
            raise bad(f"{name} is larger than {METADATA_LIMIT_BYTES} bytes")
        return data

    def _blob(self, digest: str) -> bytes:
        return verified(self._read(_blob_path(digest)), digest)


def _blob_path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
