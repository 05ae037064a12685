"""Pulling images from registries (the OCI distribution spec). Imported when first needed.

Blobs stream to disk, a few at a time, and are used once their digest is right. A download that
breaks goes on where it broke.
"""

import base64
import hashlib
import json
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any

from shepherd.runtime.base import Credentials, SheepError
from shepherd.runtime.oci.archives import (
    INDEX_TYPES,
    METADATA_LIMIT_BYTES,
    ImageSource,
    bad,
    choose_platform,
    parse_json,
    verified,
)
from shepherd.runtime.oci.references import Reference
from shepherd.runtime.oci.registries import Registries

ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
        *INDEX_TYPES,
    )
)
PARALLEL_BLOBS = 3
ATTEMPTS = 4
RETRY_SECONDS = 0.5
IDLE_SECONDS = 30.0
"""A connection on which nothing comes for that long is broken."""
CHUNK_BYTES = 1 << 18

Progress = Callable[[int, int], None]


class Puller:
    """One pull of one image. Blocks: use it in a thread. Every failure is a SheepError."""

    def __init__(
        self, registries: Registries, reference: Reference, credentials: Credentials,
        architecture: str, scratch: Path,
    ) -> None:  # fmt: skip
        self._endpoints = registries.endpoints(reference.registry)
        self._reference = reference
        # Each pair in order, and nobody last: a public image needs none that works.
        self._logins: list[tuple[str, str] | None] = [*credentials, None]
        self._architecture = architecture
        self._scratch = scratch

    @contextmanager
    def fetch(
        self, present: Callable[[bytes], int], progress: Progress | None
    ) -> Iterator[ImageSource]:
        """Download; the image's blobs are there while the context lasts.

        `present` tells of an image config how many of its lowest layers are here already.
        """
        session, digest, manifest = self._find()
        config = session.small("blobs", manifest["config"]["digest"])
        needed = manifest["layers"][present(config) :]
        missing = [None] * (len(manifest["layers"]) - len(needed))
        meter = _Meter(sum(int(layer.get("size", 0)) for layer in needed), progress)
        paths = [self._scratch / f"{threading.get_ident()}-{index}" for index in range(len(needed))]
        try:
            with ThreadPoolExecutor(PARALLEL_BLOBS, "sheep-pull") as pool:
                jobs = [
                    pool.submit(session.download, layer["digest"], path, meter)
                    for layer, path in zip(needed, paths, strict=True)
                ]
                for job in jobs:
                    job.result()
            layers = [path_opener(path) for path in (*missing, *paths)]
            name = str(self._reference)
            yield ImageSource(
                config=config,
                layers=tuple(layers),
                tags=() if self._reference.digest else (name,),
                digests=(f"{self._reference.name}@{digest}",),
            )
        finally:
            for path in paths:
                path.unlink(missing_ok=True)

    def _find(self) -> tuple["_Session", str, dict[str, Any]]:
        """The first endpoint and login that have the image; its manifest and the digest asked."""
        failure = bad("no endpoint")
        for endpoint in self._endpoints:
            for login in self._logins:
                session = _Session(endpoint, self._reference.repository, login)
                try:
                    return (session, *self._manifest(session))
                except SheepError as error:
                    failure = error
        message = f'failed to pull image "{self._reference}": {failure.message}'
        raise SheepError(failure.reason, message)

    def _manifest(self, session: "_Session") -> tuple[str, dict[str, Any]]:
        wanted = self._reference.digest or self._reference.tag
        data = session.small("manifests", wanted)
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        manifest = parse_json(data, "manifest")
        if "manifests" in manifest:
            chosen = choose_platform(manifest, self._architecture)
            manifest = parse_json(session.small("manifests", chosen), "manifest")
        if "config" not in manifest or "layers" not in manifest:
            raise bad("its manifest is of a form from before 2016 (schema 1): not supported")
        return digest, manifest


def path_opener(path: Path | None) -> Callable[[], IO[bytes]]:
    def open_blob() -> IO[bytes]:
        if path is None:  # it was present when the pull began
            raise bad("a layer was removed during the pull; pull again")
        return path.open("rb")

    return open_blob


class _Meter:
    """Adds up the bytes of parallel downloads."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress = total, progress
        self._done = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            if self._progress is not None:
                self._progress(self._done, self._total)


class _Session:
    """Talks to one registry about one repository as one user."""

    def __init__(self, endpoint: str, repository: str, login: tuple[str, str] | None) -> None:
        self._base = f"{endpoint}/v2/{repository}"
        self._repository = repository
        self._login = login
        self._authorization = ""

    def small(self, kind: str, name: str) -> bytes:
        """A manifest or config, whole. By digest it is verified."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._get(f"{kind}/{name}") as answer:
                    data = answer.read(METADATA_LIMIT_BYTES + 1)
                break
            except (_BrokenError, OSError, HTTPException) as error:
                _retry(attempt, error)
        if len(data) > METADATA_LIMIT_BYTES:
            raise bad(f"{name} is larger than {METADATA_LIMIT_BYTES} bytes")
        return verified(data, name) if name.startswith("sha256:") else data

    def download(self, digest: str, path: Path, meter: _Meter) -> None:
        """A blob into a file. Raises SheepError when its content is not that of its digest."""
        hasher = hashlib.sha256()
        with path.open("wb") as file:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._continue(digest, file, hasher, meter)
                    break
                except (_BrokenError, OSError, HTTPException) as error:
                    _retry(attempt, error)
        found = f"sha256:{hasher.hexdigest()}"
        if found != digest:
            raise bad(f"blob has digest {found}, expected {digest}")

    def _continue(self, digest: str, file: IO[bytes], hasher: Any, meter: _Meter) -> None:
        start = file.tell()
        with self._get(f"blobs/{digest}", start) as answer:
            if start and answer.status != 206:
                answer.read(start)  # it knows no ranges and begins at the beginning
            expected = answer.length
            while chunk := answer.read(CHUNK_BYTES):
                file.write(chunk)
                hasher.update(chunk)
                meter.add(len(chunk))
                expected = None if expected is None else expected - len(chunk)
            if expected:
                raise _BrokenError(f"connection closed {expected} bytes before the end")

    def _get(self, path: str, start: int = 0) -> HTTPResponse:
        request = urllib.request.Request(f"{self._base}/{path}", headers={"Accept": ACCEPT})
        if start:
            request.add_header("Range", f"bytes={start}-")
        for challenged in (False, True):
            if self._authorization:
                # Not sent on to where a blob's redirect leads (a storage service).
                request.add_unredirected_header("Authorization", self._authorization)
            try:
                answer: HTTPResponse = urllib.request.urlopen(request, timeout=IDLE_SECONDS)
                return answer
            except urllib.error.HTTPError as error:
                if error.code == 401 and not challenged:
                    self._authorize(error.headers.get("WWW-Authenticate", ""))
                    continue
                raise _failure(error) from error
        raise AssertionError(path)

    def _authorize(self, challenge: str) -> None:
        """Answer a registry's challenge (the distribution project's token authentication)."""
        scheme, _, rest = challenge.partition(" ")
        fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        basic = ""
        if self._login is not None:
            basic = f"Basic {base64.b64encode(':'.join(self._login).encode()).decode()}"
        if scheme.lower() != "bearer":
            self._authorization = basic
            return
        query = {"scope": fields.get("scope", f"repository:{self._repository}:pull")}
        if "service" in fields:
            query["service"] = fields["service"]
        url = f"{fields.get('realm', '')}?{urllib.parse.urlencode(query)}"
        if not url.startswith(("https://", "http://")):
            raise bad(f"the registry names no address for tokens: {challenge}")
        request = urllib.request.Request(url)
        if basic:
            request.add_unredirected_header("Authorization", basic)
        try:
            with urllib.request.urlopen(request, timeout=IDLE_SECONDS) as answer:
                tokens = json.loads(answer.read(METADATA_LIMIT_BYTES))
        except urllib.error.HTTPError as error:
            raise _failure(error) from error
        self._authorization = f"Bearer {tokens.get('token') or tokens.get('access_token', '')}"


class _BrokenError(Exception):
    """Worth another try: the connection broke, or the registry is busy."""


def _failure(error: urllib.error.HTTPError) -> Exception:
    if error.code == 429 or error.code >= 500:
        return _BrokenError(f"registry answers {error.code} {error.reason}")
    if error.code in (401, 403):
        return bad(f"{error.code} {error.reason}: authorization failed (check the credentials)")
    if error.code == 404:
        return bad("not found in the registry")
    return bad(f"registry answers {error.code} {error.reason}")


def _retry(attempt: int, error: Exception) -> None:
    if attempt == ATTEMPTS:
        cause = getattr(error, "reason", error)
        text = getattr(cause, "strerror", None) or cause  # without [Errno -3]
        raise bad(f"{text} (after {ATTEMPTS} attempts)") from error
    time.sleep(RETRY_SECONDS * 2 ** (attempt - 1))
