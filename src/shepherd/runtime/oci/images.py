"""The node's images. An image is one small record on disk; its layers are shared (`layers`)."""

import asyncio
import hashlib
import os
import platform
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from shepherd.runtime.base import Credentials, ImageInfo, ImageList, SheepError
from shepherd.runtime.oci import kernel, references
from shepherd.runtime.oci.archives import ImageSource, bad, open_archive
from shepherd.runtime.oci.layers import LayerStore, chain_ids, directory_name
from shepherd.runtime.oci.registries import Registries
from shepherd.runtime.oci.workers import Workers

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class ImageDefaults(msgspec.Struct, frozen=True, rename="pascal"):
    """What an image says of its containers (`config` in the OCI image config)."""

    user: str = ""
    env: list[str] | None = None
    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    working_dir: str = ""
    stop_signal: str = ""


class _RootFs(msgspec.Struct):
    diff_ids: list[str]


class _ConfigFile(msgspec.Struct):
    rootfs: _RootFs
    architecture: str = ""
    os: str = "linux"
    config: ImageDefaults | None = None


class ImageRecord(msgspec.Struct, frozen=True):
    """An image as it is on disk. `layers` are directory names, the lowest first."""

    id: str
    layers: list[str]
    size_bytes: int
    defaults: ImageDefaults
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()

    def info(self) -> ImageInfo:
        return ImageInfo(
            id=self.id, tags=self.tags, digests=self.digests, size_bytes=self.size_bytes,
            user=self.defaults.user, stop_signal=self.defaults.stop_signal,
        )  # fmt: skip


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file as a whole: a reader, or a crash, finds the old or the new."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(data)
    os.replace(temporary, path)


class ImageStore:
    """`base.Images` over a directory. `in_use` names the layers that containers stand on."""

    def __init__(
        self, root: Path, workers: Workers, registries: Registries,
        in_use: Callable[[], set[str]],
    ) -> None:  # fmt: skip
        self.layers = LayerStore(root / "layers")
        self._records_path = root / "records"
        self._scratch = root / "scratch"
        self._workers = workers
        self._registries = registries
        self._in_use = in_use
        self._records: dict[str, ImageRecord] = {}
        self._lock = threading.Lock()
        """Held while layers are unpacked or deleted, and records change."""

    def open(self) -> None:
        """Read the records; remove what an interrupted import left."""
        self._records_path.mkdir(parents=True, exist_ok=True)
        self._scratch.mkdir(exist_ok=True)
        for path in self._scratch.iterdir():
            path.unlink()
        for path in self._records_path.glob("*.json"):
            record = msgspec.json.decode(path.read_bytes(), type=ImageRecord)
            self._records[record.id] = record
        self._collect()

    def record(self, image_id: str) -> ImageRecord | None:
        return self._records.get(image_id)

    async def resolve(self, reference: str) -> ImageInfo | None:
        record = self._find(reference)
        return None if record is None else record.info()

    async def list(self) -> ImageList:
        return [record.info() for record in self._records.values()]

    async def load(self, path: str) -> ImageList:
        # A worker has a working directory of its own.
        return await self._workers.run(self._load, await asyncio.to_thread(Path(path).absolute))

    async def remove(self, image_id: str) -> None:
        await self._workers.run(self._remove, image_id)

    async def pull(
        self, reference: str, *, credentials: Credentials | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> ImageInfo:  # fmt: skip
        parsed = references.parse(reference)
        return await self._workers.run(self._pull, parsed, credentials or [], progress)

    def _find(self, reference: str) -> ImageRecord | None:
        if reference in self._records:
            return self._records[reference]
        if f"sha256:{reference}" in self._records:
            return self._records[f"sha256:{reference}"]
        try:
            name = str(references.parse(reference))
        except SheepError:
            return None
        for record in list(self._records.values()):
            if name in record.tags or name in record.digests:
                return record
        return None

    def _load(self, path: Path) -> ImageList:
        with open_archive(path, ARCHITECTURE, self._scratch) as sources:
            return [self._import(source) for source in sources]

    def _pull(
        self, reference: references.Reference, credentials: Credentials,
        progress: Callable[[int, int], None] | None,
    ) -> ImageInfo:  # fmt: skip
        from shepherd.runtime.oci.registry import Puller

        puller = Puller(self._registries, reference, credentials, ARCHITECTURE, self._scratch)
        with puller.fetch(self._present, progress) as source:
            return self._import(source)

    def _present(self, config: bytes) -> int:
        """How many of an image's lowest layers are here and need no download."""
        chain = chain_ids(_parse_config(config).rootfs.diff_ids)
        present = [one in self.layers for one in chain]
        return [*present, False].index(False)

    def _import(self, source: ImageSource) -> ImageInfo:
        config = _parse_config(source.config)
        if config.os != "linux" or (config.architecture or ARCHITECTURE) != ARCHITECTURE:
            wanted = f"linux/{ARCHITECTURE}"
            raise bad(f"image is for {config.os}/{config.architecture}, this node is {wanted}")
        diff_ids = config.rootfs.diff_ids
        if not diff_ids or len(diff_ids) != len(source.layers):
            raise bad(f"image has {len(source.layers)} layers, its config {len(diff_ids)}")
        with self._lock:
            names: list[str] = []
            for chain, diff, blob in zip(chain_ids(diff_ids), diff_ids, source.layers, strict=True):
                if chain not in self.layers:
                    self.layers.extract(chain, diff, names, blob)
                names.append(directory_name(chain))
            kernel.sync_filesystem(self.layers.root)
            record = ImageRecord(
                id=f"sha256:{hashlib.sha256(source.config).hexdigest()}", layers=names,
                size_bytes=sum(_size(self.layers.root / name) for name in names),
                defaults=config.config or ImageDefaults(),
                tags=source.tags, digests=source.digests,
            )  # fmt: skip
            return self._save(record).info()

    def _save(self, record: ImageRecord) -> ImageRecord:
        """Store a record; its tags now mean this image and no other."""
        for other in list(self._records.values()):
            if other.id == record.id:
                record = msgspec.structs.replace(
                    record,
                    tags=tuple(dict.fromkeys(other.tags + record.tags)),
                    digests=tuple(dict.fromkeys(other.digests + record.digests)),
                )
            elif set(other.tags) & set(record.tags):
                kept = tuple(tag for tag in other.tags if tag not in record.tags)
                self._write(msgspec.structs.replace(other, tags=kept))
        self._write(record)
        return record

    def _write(self, record: ImageRecord) -> None:
        write_atomically(self._path(record.id), msgspec.json.encode(record))
        self._records[record.id] = record

    def _path(self, image_id: str) -> Path:
        return self._records_path / f"{image_id.removeprefix('sha256:')}.json"

    def _remove(self, image_id: str) -> None:
        with self._lock:
            if self._records.pop(image_id, None) is not None:
                self._path(image_id).unlink(missing_ok=True)
                self._collect()

    def _collect(self) -> None:
        """Delete the layers that no image and no container needs."""
        used = {name for record in self._records.values() for name in record.layers}
        self.layers.keep_only(used | self._in_use())


def _parse_config(data: bytes) -> _ConfigFile:
    try:
        return msgspec.json.decode(data, type=_ConfigFile)
    except msgspec.ValidationError as error:
        raise bad(f"image config: {error}") from error
    except msgspec.DecodeError as error:
        raise bad(f"image config is not JSON: {error}") from error


def _size(path: Path) -> int:
    """The bytes of the files below a directory."""
    total = 0
    for folder, _, files in os.walk(path):
        total += sum(os.lstat(os.path.join(folder, name)).st_size for name in files)
    return total
