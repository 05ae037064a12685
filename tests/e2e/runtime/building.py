"""Builds small images: layers from entries, archives and blobs from layers."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shepherd.runtime.oci.images import ARCHITECTURE


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    link: str = ""
    mode: int = 0o644
    owner: int = 0
    device: tuple[int, int] = (0, 0)
    xattrs: dict[str, str] = field(default_factory=dict)


def folder(name: str, mode: int = 0o755, owner: int = 0) -> Entry:
    return Entry(name, kind=tarfile.DIRTYPE, mode=mode, owner=owner)


def symlink(name: str, target: str) -> Entry:
    return Entry(name, kind=tarfile.SYMTYPE, link=target)


def hardlink(name: str, target: str, mode: int = 0o644) -> Entry:
    return Entry(name, kind=tarfile.LNKTYPE, link=target, mode=mode)


def layer(*entries: Entry) -> bytes:
    """A layer's tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.type, info.linkname, info.mode = entry.kind, entry.link, entry.mode
            info.uid = info.gid = entry.owner
            info.devmajor, info.devminor = entry.device
            info.size, info.mtime = len(entry.data), 1_600_000_000
            info.pax_headers = {f"SCHILY.xattr.{key}": one for key, one in entry.xattrs.items()}
            tar.addfile(info, io.BytesIO(entry.data))
    return buffer.getvalue()


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


Compress = Callable[[bytes], bytes]


def plain(data: bytes) -> bytes:
    return data


def zstd(data: bytes) -> bytes:
    import zstandard

    compressed: bytes = zstandard.compress(data)
    return compressed


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


@dataclass(slots=True)
class Image:
    """An image as blobs by digest, and the digest of its manifest."""

    blobs: dict[str, bytes]
    manifest: str


def image(
    *layers: bytes, compress: Compress = gz, architecture: str = ARCHITECTURE, **config: Any
) -> Image:
    config_file = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [digest(one) for one in layers]},
        }
    ).encode()
    packed = [compress(one) for one in layers]
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "config": {"digest": digest(config_file), "size": len(config_file)},
            "layers": [{"digest": digest(one), "size": len(one)} for one in packed],
        }
    ).encode()
    blobs = {digest(one): one for one in (*packed, config_file, manifest)}
    return Image(blobs, digest(manifest))


def index(*images: tuple[Image, str]) -> Image:
    """A multi-platform image: each with its architecture."""
    content = json.dumps(
        {
            "schemaVersion": 2,
            "manifests": [
                {"digest": one.manifest, "platform": {"os": "linux", "architecture": architecture}}
                for one, architecture in images
            ],
        }
    ).encode()
    blobs = {name: data for one, _ in images for name, data in one.blobs.items()}
    return Image({**blobs, digest(content): content}, digest(content))


def oci_archive(path: Path, built: Image, name: str, *, compress: Compress = plain) -> Path:
    """An OCI layout in a tar."""
    entry = {"digest": built.manifest, "annotations": {"org.opencontainers.image.ref.name": name}}
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
    }
    files |= {f"blobs/{name.replace(':', '/')}": data for name, data in built.blobs.items()}
    path.write_bytes(compress(layer(*(Entry(name, data) for name, data in files.items()))))
    return path
