"""`Rest`: a client of the API in a few lines, for tests that want no other."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from shepherd.testing.settings import Settings


class Rest:
    """Blocking requests, each over a connection of its own, as JSON.

    A path without a leading slash ("pods/web") is one of core/v1 in the settings' namespace.
    """

    def __init__(self, settings: Settings, *, token: str = "", seconds: float = 20.0) -> None:
        """`token` is shown as bearer token; `seconds` bounds each wait."""
        self._address = settings.url.partition("://")[2]
        self._namespace = settings.namespace
        self._ssl = settings.context.ssl_context()
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._seconds = seconds

    @contextmanager
    def send(self, method: str, path: str, body: Any = None) -> Iterator[http.client.HTTPResponse]:
        """The response itself, while the context lasts."""
        if not path.startswith("/"):
            path = f"/api/v1/namespaces/{self._namespace}/{path}"
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body)
        with closing(self._connection()) as connection:
            connection.request(method, path, data, self._headers | {"content-type": kind})
            yield connection.getresponse()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What is answered, be it an object or the Status of an error."""
        with self.send(method, path, body) as response:
            return json.load(response)

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def text(self, path: str) -> str:
        """An answer that is no JSON, such as a log."""
        with self.send("GET", path) as response:
            return response.read().decode()

    def watch(self, path: str) -> Iterator[Any]:
        """Events as they come, to the end of the stream. Raises OSError or HTTPException when it
        breaks."""
        with self.send("GET", f"{path}{'&' if '?' in path else '?'}watch=true") as response:
            rest = b""
            while chunk := response.read1():
                *lines, rest = (rest + chunk).split(b"\n")
                yield from map(json.loads, lines)

    def until(self, path: str, holds: Callable[[Any], Any]) -> Any:
        """What is under the path, once the condition is true of it. Raises AssertionError."""
        deadline = time.monotonic() + self._seconds
        while True:
            found = self.get(path)
            if _holds(holds, found):
                return found
            assert time.monotonic() < deadline, f"{path} did not become so: {found}"
            time.sleep(0.005)

    def _connection(self) -> http.client.HTTPConnection:
        if self._ssl is None:
            return http.client.HTTPConnection(self._address, timeout=self._seconds)
        return http.client.HTTPSConnection(self._address, timeout=self._seconds, context=self._ssl)


def _holds(condition: Callable[[Any], Any], found: Any) -> bool:
    try:
        return bool(condition(found))
    except (LookupError, TypeError):
        return False  # it has no such field yet


def is_gone(answer: Any) -> bool:
    """For `until`: there is no such object (any more)."""
    return bool(answer.get("code") == 404)


def is_running(pod: Any) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def pod(name: str, script: str = "", **spec: Any) -> dict[str, Any]:
    """A pod that does as a little shell script says (see `runtime.script`); without one it runs."""
    container: dict[str, Any] = {"name": "main", "image": "demo:1"}
    if script:
        container["command"] = ["sh", "-c", script]
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
