"""How the server reaches agents and pods: over sockets, as itself."""

import ssl

from shepherd.client.http import HttpTransport
from shepherd.lib.http import Request, Response


class SocketDialer:
    """Keeps a few connections to each agent that was ever asked for something."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._transports: dict[str, HttpTransport] = {}

    async def send(self, origin: str, request: Request) -> Response:
        """Send `request` to `origin`. Raises ConnectionError."""
        if self._context is None:  # --insecure: agents serve without TLS too.
            origin = origin.replace("https:", "http:", 1)
        transport = self._transports.get(origin)
        if transport is None:
            ssl_context = self._context if origin.startswith("https:") else None
            transport = HttpTransport(origin, ssl=ssl_context, connections=32)
            self._transports[origin] = transport
        return await transport.send(request)

    async def close(self) -> None:
        for transport in self._transports.values():
            await transport.close()
