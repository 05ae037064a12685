"""Requests passed on to other API servers, as whoever sent them.

Source: kube-aggregator pkg/apiserver/handler_proxy.go; "Authenticating Proxy".
"""

from collections.abc import Iterable, Iterator

from shepherd.api import errors
from shepherd.api.resource import Resource
from shepherd.lib.http import Request, Response, User
from shepherd.server.aggregation.remotes import Remote, Remotes
from shepherd.server.proxy import passed_back, passed_on
from shepherd.server.routes import TRUE, Route

_REMOTE = "x-remote-"
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch",
          "DELETE": "delete"}  # fmt: skip
_ON_COLLECTION = {"get": "list", "delete": "deletecollection"}


class Relay:
    """Passes requests on."""

    def __init__(self, remotes: Remotes) -> None:
        self._remotes = remotes

    def find(self, path: str) -> Remote | None:
        """Who answers for a path, if it is another server."""
        if not self._remotes.served:
            return None
        parts = path.removeprefix("/openapi/v3").split("/", 4)
        if len(parts) < 4 or parts[1] != "apis":
            return None
        return self._remotes.served.get((parts[2], parts[3]))

    async def send(self, remote: Remote, request: Request, user: User) -> Response:
        """The other server's answer to what was authorized here. Raises ApiError."""
        if not remote.available:
            raise _unavailable(remote, remote.message)
        passed = passed_on(request, request.path)
        passed.headers = _without_claims(passed.headers) | dict(_claims(user))
        try:
            transport = await self._remotes.reach(remote)
            response = await transport.send(passed)
        except (errors.ApiError, OSError) as error:
            self._remotes.failed(remote)
            raise _unavailable(remote, str(error)) from error
        return passed_back(response)


def _unavailable(remote: Remote, cause: str) -> errors.ApiError:
    return errors.unavailable(
        "the server is currently unable to handle the request: "
        f"apiservice {remote.name} is not available: {cause}"
    )


def _without_claims(headers: dict[str, str]) -> dict[str, str]:
    """What a request says of its sender itself counts for nothing."""
    return {name: value for name, value in headers.items() if not name.startswith(_REMOTE)}


def _claims(user: User) -> Iterator[tuple[str, str]]:
    """Who sends it. A header of several lines is sent as often."""
    yield f"{_REMOTE}user", _lines([user.name])
    if user.uid:
        yield f"{_REMOTE}uid", _lines([user.uid])
    if user.groups:
        yield f"{_REMOTE}group", _lines(user.groups)
    for key, values in user.extra.items():
        if values:
            yield f"{_REMOTE}extra-{_escaped(key)}", _lines(values)


def _lines(texts: Iterable[str]) -> str:
    """Each in one line: a certificate may name a group `a<line break>system:masters`."""
    return "\n".join(" ".join(text.splitlines()) for text in texts)


def _escaped(key: str) -> str:
    """A key as part of a header's name. Source: client-go transport, headerKeyEscape."""
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "!#$&'*+-.^_`|~") else _percent(char)
        for char in key.lower()
    )


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


def target(remote: Remote, request: Request) -> Route | None:
    """What a request asks for, as authorization is asked; None for discovery."""
    parts = request.path.removeprefix(remote.path).strip("/").split("/")
    if request.path.startswith("/openapi/") or parts == [""]:
        return None
    watched = parts[0] == "watch" and len(parts) > 1
    if watched:
        parts = parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    plural, name, sub = (*parts, "", "")[:3]
    verb = _VERBS.get(request.method, request.method.lower())
    if not name:
        verb = _ON_COLLECTION.get(verb, verb)
        if verb == "list" and request.param("watch") in TRUE:
            verb = "watch"
    if watched and verb in ("get", "list"):
        verb = "watch"
    resource = Resource(remote.group, remote.version, plural, plural, namespaced=bool(namespace))
    return Route(verb, resource, remote.group, remote.version, namespace, name, sub)
