"""Pulling from a registry, which the test itself serves on loopback."""

import base64
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from shepherd.runtime.base import Runtime, SheepError
from shepherd.runtime.oci import registry as puller
from shepherd.runtime.oci.images import ARCHITECTURE

from .building import Entry, Image, gz, image, index, layer, plain
from .conftest import OpenRuntime

REPOSITORY = "team/app"


@dataclass(slots=True)
class Served:
    """What the registry offers and how it behaves."""

    port: int = 0
    blobs: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    login: str = ""
    """`user:password` that it demands."""
    scheme: str = "bearer"
    break_after: int = 0
    """Close the connection once in the middle of each blob larger than that."""
    busy: int = 0
    """Answer 429 so many times."""
    redirect_to: int = 0
    """Send blobs' readers to the same path on another port."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Path and Authorization header of each."""
    broken: set[str] = field(default_factory=set)

    def offer(self, built: Image, tag: str) -> None:
        self.blobs |= built.blobs
        self.tags[tag] = built.manifest

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}/{REPOSITORY}"

    def fetched(self) -> list[str]:
        return [path for path, _ in self.requests if "/blobs/" in path]


def handler(served: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            authorization = self.headers.get("Authorization", "")
            served.requests.append((self.path, authorization))
            basic = f"Basic {base64.b64encode(served.login.encode()).decode()}"
            if self.path.startswith("/token"):
                known = authorization == basic
                self.answer(200 if known else 401, json.dumps({"token": "t0"}).encode())
                return
            expected = "Bearer t0" if served.scheme == "bearer" else basic
            if served.login and authorization != expected:
                realm = f'realm="http://127.0.0.1:{served.port}/token",service="reg"'
                challenge = f"Bearer {realm}" if served.scheme == "bearer" else 'Basic realm="x"'
                self.answer(401, b"", {"WWW-Authenticate": challenge})
            elif served.busy:
                served.busy -= 1
                self.answer(429, b"")
            else:
                self.serve()

        def serve(self) -> None:
            found = re.fullmatch(rf"/v2/{REPOSITORY}/(manifests|blobs)/(.+)", self.path)
            name = found[2] if found else ""
            data = served.blobs.get(served.tags.get(name, name))
            if found is None or data is None:
                self.answer(404, b"")
                return
            if found[1] == "blobs" and served.redirect_to:
                target = f"http://127.0.0.1:{served.redirect_to}{self.path}"
                self.answer(307, b"", {"Location": target})
                return
            start = int(self.headers.get("Range", "bytes=0-")[6:-1])
            whole = data[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            if served.break_after and len(data) > served.break_after and name not in served.broken:
                served.broken.add(name)
                whole = whole[: served.break_after]
            self.wfile.write(whole)

        def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def serve(served: Served) -> Iterator[Served]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(served))
    served.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(puller, "RETRY_SECONDS", 0.001)
    yield from serve(Served())


@pytest.fixture
def storage() -> Iterator[Served]:
    yield from serve(Served())


@pytest.fixture
async def runtime(open_runtime: OpenRuntime) -> Runtime:
    return await open_runtime()


LOWER = layer(Entry("lower", bytes(range(256)) * 4000))


async def test_a_pull_brings_the_image_and_tells_its_progress(
    runtime: Runtime, registry: Served
) -> None:
    ours = image(LOWER, layer(Entry("upper")), User="9")
    registry.offer(index((image(LOWER, architecture="s390x"), "s390x"), (ours, ARCHITECTURE)), "1")
    seen: list[tuple[int, int]] = []
    found = await runtime.images.pull(
        f"{registry.name}:1", progress=lambda done, total: seen.append((done, total))
    )
    assert found.user == "9"
    assert found.tags == (f"{registry.name}:1",)
    assert found.digests == (f"{registry.name}@{registry.tags['1']}",)
    assert seen[-1][0] == seen[-1][1] > 0
    assert await runtime.images.resolve(found.digests[0]) == found
    again = await runtime.images.pull(f"{registry.name}@{registry.tags['1']}")
    assert again == found


async def test_present_layers_are_not_fetched_again(runtime: Runtime, registry: Served) -> None:
    registry.offer(image(LOWER), "1")
    registry.offer(image(LOWER, layer(Entry("upper"))), "2")
    await runtime.images.pull(f"{registry.name}:1")
    before = len(registry.fetched())
    await runtime.images.pull(f"{registry.name}:2")
    assert len(registry.fetched()) - before == 2, "config and upper layer"


@pytest.mark.parametrize("scheme", ["bearer", "basic"])
async def test_the_right_credentials_are_found(
    runtime: Runtime, registry: Served, scheme: str
) -> None:
    registry.login, registry.scheme = "me:secret", scheme
    registry.offer(image(LOWER), "1")
    with pytest.raises(SheepError, match="authorization failed") as refused:
        await runtime.images.pull(f"{registry.name}:1", credentials=[("me", "wrong")])
    assert refused.value.reason == "ErrImagePull"
    found = await runtime.images.pull(
        f"{registry.name}:1", credentials=[("you", "x"), ("me", "secret")]
    )
    assert found.tags


async def test_credentials_do_not_follow_a_redirect(
    runtime: Runtime, registry: Served, storage: Served
) -> None:
    registry.login = "me:secret"
    registry.redirect_to = storage.port
    built = image(LOWER)
    registry.offer(built, "1")
    storage.offer(built, "1")
    await runtime.images.pull(f"{registry.name}:1", credentials=[("me", "secret")])
    assert storage.requests
    assert {authorization for _, authorization in storage.requests} == {""}


async def test_a_broken_download_goes_on_where_it_broke(runtime: Runtime, registry: Served) -> None:
    registry.break_after = 1000
    registry.busy = 2
    registry.offer(image(LOWER, compress=plain), "1")
    seen: list[int] = []
    await runtime.images.pull(f"{registry.name}:1", progress=lambda done, _: seen.append(done))
    assert seen[-1] == len(LOWER), "no byte twice"


async def test_false_content_is_refused(runtime: Runtime, registry: Served, tmp_path: Path) -> None:
    built = image(LOWER)
    registry.offer(built, "1")
    [blob] = [name for name, data in built.blobs.items() if data == gz(LOWER)]
    registry.blobs[blob] = gz(layer(Entry("evil")))
    with pytest.raises(SheepError, match="blob has digest"):
        await runtime.images.pull(f"{registry.name}:1")
    assert await runtime.images.list() == []
    images = tmp_path / "agent" / "images"
    assert not list((images / "layers").iterdir()) + list((images / "scratch").iterdir())


async def test_what_is_not_there_is_told(runtime: Runtime, registry: Served) -> None:
    with pytest.raises(SheepError) as missing:
        await runtime.images.pull(f"{registry.name}:1")
    assert missing.value.reason == "ErrImagePull"
    assert f'failed to pull image "{registry.name}:1": not found' in missing.value.message
    with pytest.raises(SheepError, match=r"app:1\": Connection refused \(after"):
        await runtime.images.pull("127.0.0.1:1/app:1")
