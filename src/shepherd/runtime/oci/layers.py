"""The layers of images on disk: one directory per chain id, shared by all that build on it."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from shepherd.runtime.base import SheepError
from shepherd.runtime.oci import kernel

UNPACKED_LIMIT_BYTES = 64 << 30
"""A layer that unpacks to more is refused (a decompression bomb ends here)."""

OpenBlob = Callable[[], IO[bytes]]
"""Opens a layer's blob, compressed or not."""


def chain_ids(diff_ids: Iterable[str]) -> list[str]:
    """The identity of each layer together with all below it (OCI image spec, config.md)."""
    chain: list[str] = []
    for diff_id in diff_ids:
        if chain:
            diff_id = f"sha256:{hashlib.sha256(f'{chain[-1]} {diff_id}'.encode()).hexdigest()}"
        chain.append(diff_id)
    return chain


def directory_name(chain_id: str) -> str:
    """Short, because overlay options have room for 4 KiB: 127 layers need to fit."""
    return chain_id.removeprefix("sha256:")[:20]


def overlay_options(layers: list[str]) -> str:
    """The lower directories for mount(2), the topmost first, relative to the layers' directory
    (a worker's working directory)."""
    return "lowerdir=" + ":".join(reversed(layers))


def decompressed(blob: IO[bytes]) -> IO[bytes]:
    """The tar stream in a blob, told by its first bytes."""
    magic = blob.read(4)
    blob.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        import gzip

        return cast(IO[bytes], gzip.GzipFile(fileobj=blob, mode="rb"))
    if magic == b"\x28\xb5\x2f\xfd":
        import zstandard

        reader = zstandard.ZstdDecompressor().stream_reader(blob, read_across_frames=True)
        return cast(IO[bytes], reader)
    return blob


class LayerStore:
    """Call `extract` in a worker: it mounts relative to the working directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def __contains__(self, chain_id: str) -> bool:
        return (self.root / directory_name(chain_id)).is_dir()

    def extract(self, chain_id: str, diff_id: str, parents: list[str], blob: OpenBlob) -> None:
        """Unpack a layer over its parents (directory names). Nothing of a layer that fails, or
        whose content is not that of `diff_id`, remains. Raises SheepError (ErrImagePull)."""
        name = directory_name(chain_id)
        work = self.root / f"tmp-{name}"
        self._discard(work)
        try:
            with self._merged(work, parents) as merged, blob() as raw:
                digest = _feed(decompressed(raw), merged)
            if digest != diff_id:
                raise SheepError("ErrImagePull", f"layer has digest {digest}, expected {diff_id}")
            (work / "diff").rename(self.root / name)
        finally:
            self._discard(work)

    def keep_only(self, used: set[str]) -> None:
        """Delete every layer whose directory name is not in `used`, and remains of failures."""
        for path in self.root.iterdir():
            if path.name not in used:
                self._discard(path)

    def _discard(self, path: Path) -> None:
        kernel.unmount(path / "merged")
        shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def _merged(self, work: Path, parents: list[str]) -> Iterator[Path]:
        """The parents' files, writable; what is written lands in `work/diff`."""
        for folder in ("diff", "work", "merged"):
            (work / folder).mkdir(parents=True)
        if not parents:
            yield work / "diff"
            return
        options = f"{overlay_options(parents)},upperdir={work}/diff,workdir={work}/work"
        kernel.mount("overlay", work / "merged", "overlay", 0, f"{options},redirect_dir=off")
        try:
            yield work / "merged"
        finally:
            kernel.unmount(work / "merged")


def _feed(stream: IO[bytes], target: Path) -> str:
    """Send a tar stream to the extractor; the digest of the stream."""
    script = Path(__file__).with_name("extract.py")
    command = [sys.executable, "-I", "-S", str(script), str(target)]
    digest = hashlib.sha256()
    total = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            while chunk := stream.read(1 << 20):
                total += len(chunk)
                if total > UNPACKED_LIMIT_BYTES:
                    raise SheepError("ErrImagePull", "layer unpacks to more than 64 GiB")
                digest.update(chunk)
                process.stdin.write(chunk)
            process.stdin.close()
        except BrokenPipeError:
            pass  # the extractor gave up: its exit code and message tell
        except (OSError, EOFError, ValueError) as error:
            process.kill()
            raise SheepError("ErrImagePull", f"layer is damaged: {error}") from error
        except BaseException:
            process.kill()
            raise
        message = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        raise SheepError("ErrImagePull", f"layer cannot be unpacked: {message}")
    return f"sha256:{digest.hexdigest()}"
