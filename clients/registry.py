"""A registry on loopback that serves the stand-in images (OCI distribution spec, pulls only)."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from clients import images

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Registry:
    """Images by repository; a repository has one image, whatever the tag."""

    def __init__(self) -> None:
        self._manifests: dict[str, bytes] = {}
        self._blobs: dict[str, bytes] = {}
        for repositories, config, layer in images.build():
            manifest = {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": self._blob(config, "application/vnd.oci.image.config.v1+json"),
                "layers": [self._blob(layer, "application/vnd.oci.image.layer.v1.tar")],
            }
            for repository in repositories:
                self._manifests[repository] = json.dumps(manifest).encode()

    def _blob(self, data: bytes, media_type: str) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._blobs[digest] = data
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def answer(self, path: str) -> tuple[bytes, str] | None:
        """The body and media type for a path below /v2/; None: not found."""
        repository, _, rest = path.rpartition("/manifests/")
        if repository in self._manifests and rest:
            return self._manifests[repository], _MANIFEST
        blob = self._blobs.get(path.rpartition("/blobs/")[2])
        return None if blob is None else (blob, "application/octet-stream")


@contextmanager
def serve(registry: Registry) -> Iterator[str]:
    """Serve on loopback while the context lasts; gives host:port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = registry.answer(self.path.removeprefix("/v2/"))
            body, media_type = found or (b"{}", "application/json")
            self.send_response(200 if found or self.path == "/v2/" else 404)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(body).hexdigest()}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
