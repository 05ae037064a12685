"""How a server reaches the agents in its own process: by calling them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from shepherd.lib.http import Request, Response, User
from shepherd.server.auth import ADMIN_GROUP

if TYPE_CHECKING:
    from shepherd.testing.parts import Machine

_SERVER = User("system:shepherd-server", (ADMIN_GROUP,))


class NodeDialer:
    """An `AgentDialer` to the agents of some machines, told apart by their addresses."""

    def __init__(self, machines: "Mapping[str, Machine]") -> None:
        self._machines = machines

    async def send(self, origin: str, request: Request) -> Response:
        """Raises ConnectionError where no agent is: hollow pods answer nobody."""
        host = urlsplit(origin).hostname
        for machine in self._machines.values():
            if machine.agent and machine.config.node_ip == host:
                return await machine.agent.handle(replace(request, peer=_SERVER))
        raise ConnectionError(f"dial tcp {urlsplit(origin).netloc}: connect: connection refused")
