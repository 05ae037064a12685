"""What carries a request to the API: a socket, or a direct call of the server's handler."""

from typing import Protocol

from shepherd.lib.http import Handler, Request, Response, User


class Transport(Protocol):
    """Carries one request. Raises `ConnectionError` when the server cannot be reached."""

    async def send(self, request: Request) -> Response:
        """The response; a streamed body is an async iterator that the caller closes."""
        ...

    async def close(self) -> None: ...


class InProcessTransport:
    """Calls the server's handler directly, as `user`: same bytes, same rules, no socket."""

    def __init__(self, handler: Handler, user: User) -> None:
        self._handler = handler
        self._user = user

    async def send(self, request: Request) -> Response:
        request.peer = self._user
        return await self._handler(request)

    async def close(self) -> None:
        pass
