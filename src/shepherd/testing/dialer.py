"""How a server reaches the agents in its own process: by calling them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from shepherd.lib.http import Request, Response, User
from shepherd.server.auth import ADMIN_GROUP
from shepherd.server.handlers import AgentDialer

if TYPE_CHECKING:
    from shepherd.testing.parts import Machine

_SERVER = User("system:shepherd-server", (ADMIN_GROUP,))


class NodeDialer:
    """An `AgentDialer` to the agents of some machines, told apart by address and port.

    What is none of them is `beyond`; without one, nothing is there: hollow pods answer nobody.
    """

    def __init__(self, machines: "Mapping[str, Machine]") -> None:
        self._machines = machines
        self.beyond: AgentDialer | None = None

    async def send(self, origin: str, request: Request) -> Response:
        """Raises ConnectionError."""
        asked = urlsplit(origin)
        for machine in self._machines.values():
            if machine.agent and (machine.config.node_ip, machine.agent.port) == (
                asked.hostname, asked.port,
            ):  # fmt: skip
                return await machine.agent.handle(replace(request, peer=_SERVER))
        if self.beyond:
            return await self.beyond.send(origin, request)
        raise ConnectionError(f"dial tcp {urlsplit(origin).netloc}: connect: connection refused")
