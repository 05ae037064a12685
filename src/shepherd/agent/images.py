"""Images on the node: pull policies, archives to import, and the removal of what nothing uses."""

import asyncio
import json
import logging
import shutil
from base64 import b64decode
from collections.abc import Callable, Iterable
from pathlib import Path

from shepherd.agent.references import Values
from shepherd.lib.clock import Clock
from shepherd.runtime.base import Credentials, ImageInfo, Runtime, SheepError

_log = logging.getLogger("shepherd.agent.images")

_PARALLEL_PULLS = 3
_SCAN_SECONDS = 2.0
_COLLECT_SECONDS = 300.0
_HIGH_USE, _LOW_USE = 0.85, 0.80
"""Image removal begins when the disk is fuller than the first, and ends below the second
(kubernetes imageGCHighThresholdPercent, imageGCLowThresholdPercent)."""

Say = Callable[[str, str, str], None]
"""Records an event: type, reason, message."""


class NodeImages:
    """The runtime's images, as pods ask for them."""

    def __init__(self, runtime: Runtime, *, archives: Path, record: Path, clock: Clock) -> None:
        """`archives` is the directory of archives to import, `record` the file that remembers
        which have been."""
        self._runtime = runtime
        self._images = runtime.images
        self._clock = clock
        self._archives = archives
        self._record = record
        self._slots = asyncio.Semaphore(_PARALLEL_PULLS)
        self._pulling: dict[str, asyncio.Lock] = {}
        self._imported: dict[str, list[str]] = {}
        """Archive (name, time, size) to the ids of its images."""
        self._seen: set[str] = set()
        self._first_scan = asyncio.Event()
        self.on_import: Callable[[], None] = lambda: None

    # What a pod needs

    async def ensure(
        self, reference: str, policy: str, credentials: Credentials, say: Say
    ) -> ImageInfo:
        """The image by the pull policy. Raises SheepError with a container's waiting reason."""
        if not policy:
            policy = "Always" if _is_latest(reference) else "IfNotPresent"
        found = await self._present(reference)
        if found and policy != "Always":
            text = f'Container image "{reference}" already present on machine'
            say("Normal", "Pulled", text)
            return found
        if policy == "Never":
            text = f'Container image "{reference}" is not present with pull policy of Never'
            say("Warning", "ErrImageNeverPull", text)
            raise SheepError("ErrImageNeverPull", text)
        lock = self._pulling.setdefault(reference, asyncio.Lock())
        try:
            async with lock:  # others that want the same image find it present afterwards
                if policy != "Always" and (found := await self._images.resolve(reference)):
                    say("Normal", "Pulled", f'Successfully pulled image "{reference}"')
                    return found
                return await self._pull(reference, credentials, say)
        finally:
            if not lock.locked():
                self._pulling.pop(reference, None)

    async def _present(self, reference: str) -> ImageInfo | None:
        """If it is not here, it may be in an archive that is being imported."""
        found = await self._images.resolve(reference)
        if found is None and not self._first_scan.is_set():
            await self._first_scan.wait()
            found = await self._images.resolve(reference)
        return found

    async def _pull(self, reference: str, credentials: Credentials, say: Say) -> ImageInfo:
        say("Normal", "Pulling", f'Pulling image "{reference}"')
        queued = self._clock.monotonic()
        try:
            async with self._slots:
                began = self._clock.monotonic()
                image = await self._images.pull(reference, credentials=credentials)
        except SheepError as error:
            say("Warning", "Failed", f'Failed to pull image "{reference}": {error.message}')
            raise
        now = self._clock.monotonic()
        say(
            "Normal",
            "Pulled",
            f'Successfully pulled image "{reference}" in {_seconds(now - began)} '
            f"({_seconds(now - queued)} including waiting). Image size: {image.size_bytes} bytes.",
        )
        return image

    # Archives

    async def load(self, path: Path) -> list[ImageInfo]:
        """Import an archive that somebody sent. Raises SheepError."""
        images = await self._images.load(str(path))
        self.on_import()
        return images

    async def import_archives(self) -> None:
        """Import what lies in the archive directory, now and as it appears; never returns.

        A directory listing every two seconds costs less than 0.01 % of a core and works on every
        file system.
        """
        self._imported = await asyncio.to_thread(self._recall)
        present = {image.id for image in await self._images.list()}
        self._imported = {
            archive: ids for archive, ids in self._imported.items() if present.issuperset(ids)
        }
        known = await self._scan(settled=None)
        self._first_scan.set()
        while True:
            await self._clock.sleep(_SCAN_SECONDS)
            known = await self._scan(settled=known)

    async def _scan(self, *, settled: set[str] | None) -> set[str]:
        """Import the new archives that are `settled` (None: all): copied to the end."""
        found = {_mark(path): path for path in self._list()}
        new = {
            mark: path
            for mark, path in found.items()
            if mark not in self._imported
            and mark not in self._seen
            and (settled is None or mark in settled)
        }
        for mark, path in new.items():
            self._seen.add(mark)
            await self._import(mark, path)
        self._seen &= found.keys()
        return set(found)

    async def _import(self, mark: str, path: Path) -> None:
        try:
            images = await self._images.load(str(path))
        except SheepError as error:
            _log.error("cannot import %s: %s", path, error.message)
            return
        names = ", ".join(tag for image in images for tag in image.tags)
        _log.info("imported %s from %s", names or "an image without a name", path.name)
        self._imported[mark] = [image.id for image in images]
        await asyncio.to_thread(self._remember)
        self.on_import()

    def _list(self) -> list[Path]:
        try:
            return sorted(p for p in self._archives.iterdir() if p.is_file())
        except FileNotFoundError:
            return []

    def _recall(self) -> dict[str, list[str]]:
        try:
            record: dict[str, list[str]] = json.loads(self._record.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return record

    def _remember(self) -> None:
        self._record.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._record.with_suffix(".tmp")
        fresh.write_text(json.dumps(self._imported))
        fresh.replace(self._record)

    # Removal

    async def collect(self, disk: Path) -> None:
        """Remove images that no container uses while the disk of `disk` is too full; never
        returns. Archives' images stay: nothing could bring them back."""
        while True:
            await self._clock.sleep(_COLLECT_SECONDS)
            if _use(disk) > _HIGH_USE:
                await self._remove_unused(disk)

    async def _remove_unused(self, disk: Path) -> None:
        used = {c.image for s in await self._runtime.sandboxes() for c in s.containers}
        kept = {image for ids in self._imported.values() for image in ids}
        images = [i for i in await self._images.list() if i.id not in used | kept]
        for image in sorted(images, key=lambda image: -image.size_bytes):
            _log.info("removing image %s: the disk is full", ", ".join(image.tags) or image.id)
            await self._images.remove(image.id)
            if _use(disk) < _LOW_USE:
                return


def _use(disk: Path) -> float:
    usage = shutil.disk_usage(disk)
    return 1.0 - usage.free / usage.total


def _mark(path: Path) -> str:
    """Tells a file from another that takes its name."""
    state = path.stat()
    return f"{path.name} {state.st_mtime_ns} {state.st_size}"


def _is_latest(reference: str) -> bool:
    name = reference.rsplit("/", 1)[-1]
    return "@" not in name and (":" not in name or name.endswith(":latest"))


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.3f}s"


def registry(reference: str) -> str:
    """The host that an image comes from."""
    head, slash, _ = reference.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        return head
    return "docker.io"


def credentials(reference: str, secrets: Iterable[Values]) -> Credentials:
    """The (user, password) pairs that pull secrets hold for the image's registry.

    Of the forms kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg. Pure.
    """
    host = registry(reference)
    found: Credentials = []
    for values in secrets:
        try:
            if ".dockerconfigjson" in values:
                accounts = json.loads(values[".dockerconfigjson"]).get("auths", {})
            else:
                accounts = json.loads(values.get(".dockercfg", b"{}"))
            for server, account in accounts.items():
                if _host(server) == host:
                    found.append(_account(account))
        except (ValueError, AttributeError, KeyError):
            _log.warning("a pull secret for %s cannot be read", host)
    return found


def _host(server: str) -> str:
    host = server.partition("://")[2] or server
    host = host.split("/")[0]
    return "docker.io" if host in ("index.docker.io", "registry-1.docker.io") else host


def _account(account: dict[str, str]) -> tuple[str, str]:
    if "auth" in account:
        user, _, password = b64decode(account["auth"]).decode().partition(":")
        return user, password
    return account["username"], account["password"]
