"""Scheduler and controllers: the clients that act on what the API holds.

A server runs them over a transport that spares the socket, a simulated cluster over one that has
faults.
"""

from collections.abc import Callable
from random import Random

from shepherd.client.base import Client
from shepherd.client.transport import Transport
from shepherd.controllers.manager import ControllerConfig, ControllerManager
from shepherd.lib.clock import Clock
from shepherd.lib.http import User
from shepherd.scheduler.scheduler import Scheduler
from shepherd.server.auth import ADMIN_GROUP

Connect = Callable[[User], Transport]
"""Gives the transport on which requests come from that user."""


def scheduler(connect: Connect, *, clock: Clock, random: Random) -> Scheduler:
    """To be run."""
    return Scheduler(_client(connect, "system:kube-scheduler"), clock=clock, random=random)


def controllers(
    connect: Connect, *, clock: Clock, random: Random, config: ControllerConfig
) -> ControllerManager:
    """To be run."""
    client = _client(connect, "system:kube-controller-manager")
    return ControllerManager(client, clock=clock, random=random, config=config)


def _client(connect: Connect, name: str) -> Client:
    return Client(connect(User(name, (ADMIN_GROUP,))), user_agent=name.removeprefix("system:"))
