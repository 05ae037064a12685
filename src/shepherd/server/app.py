"""The API server: the chain that every request passes.

parse -> authenticate -> route -> authorize -> admission -> registry -> encode. The API is a
function from request to response; `lib.httpd` puts it on a socket.
"""

import asyncio
import ipaddress
import logging
from dataclasses import dataclass
from random import Random

from shepherd.api import errors
from shepherd.api.kinds import NAMESPACE, RESOURCES
from shepherd.lib.clock import Clock
from shepherd.lib.http import Request, Response, User
from shepherd.server.admission import Admission
from shepherd.server.auth import ADMIN_GROUP, Authenticator, Authorizer
from shepherd.server.handlers import Call, Handlers, json_answer
from shepherd.server.hub import Hub
from shepherd.server.registry import Registry
from shepherd.server.routes import Route, Routes
from shepherd.store.base import Store, StoreFullError

log = logging.getLogger("shepherd.server")

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
"""Made at start if they are not there."""
SELF = User("system:apiserver", (ADMIN_GROUP,))
_COMPACT_SECONDS = 300.0
_KEEP_REVISIONS = 10_000


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What the API server must know of its cluster."""

    pod_cidr: str = "10.42.0.0/16"
    service_cidr: str = "10.43.0.0/16"
    cluster_domain: str = "cluster.local"
    node_ports: tuple[int, int] = (30000, 32767)
    """First and last."""

    @property
    def cluster_dns(self) -> str:
        """The tenth address of the service range."""
        return str(ipaddress.ip_network(self.service_cidr)[10])


class ApiServer:
    """Serves the Kubernetes API over a store."""

    def __init__(
        self,
        store: Store,
        *,
        config: ServerConfig,
        clock: Clock,
        random: Random,
        authenticator: Authenticator,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._routes = Routes(RESOURCES)
        self._registry = Registry(store, Admission(store), clock=clock, random=random)
        self._handlers = Handlers(self._registry, Hub(store, RESOURCES), clock=clock, random=random)

    async def start(self) -> None:
        """Make what must exist."""
        for name in NAMESPACES:
            route = Route("create", NAMESPACE, "", "v1")
            try:
                await self._registry.create(route, {"metadata": {"name": name}}, SELF)
            except errors.ApiError as error:
                if error.reason != "AlreadyExists":
                    raise

    async def run(self) -> None:
        """Keep the store small, for ever."""
        while True:
            await self._clock.sleep(_COMPACT_SECONDS)
            await self._store.compact(_KEEP_REVISIONS)

    async def handle(self, request: Request) -> Response:
        """Answer a request. Never raises for what a client sends."""
        try:
            return await self._serve(request)
        except errors.ApiError as error:
            response = json_answer(error.status(), error.code)
            response.headers |= error.headers
            return response
        except StoreFullError as error:
            return json_answer(errors.insufficient_storage(str(error)).status(), 507)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return json_answer(errors.internal("the server's log says more").status(), 500)

    async def _serve(self, request: Request) -> Response:
        user = await self._authenticator.authenticate(request)
        route = self._routes.find(request)
        if route is None:
            raise errors.path_not_found()
        if self._authorizer:
            await self._authorizer.authorize(
                user, route.verb, route.resource, route.namespace, route.name, route.sub
            )
        query: dict[str, str] = {}
        for name, value in request.query:
            query.setdefault(name, value)
        return await self._handlers.handle(Call(request, route, user, query))
