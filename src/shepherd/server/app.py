"""The API server: the chain that every request passes.

parse -> authenticate -> route -> authorize -> admission -> registry -> encode. The API is a
function from request to response; `lib.httpd` puts it on a socket.
"""

import asyncio
import logging
from random import Random

from shepherd.api import errors
from shepherd.api.kinds import CUSTOM_RESOURCE_DEFINITION, RESOURCES
from shepherd.api.kinds.cluster import API_SERVICE
from shepherd.api.kinds.metrics import METRICS
from shepherd.api.resource import Resource
from shepherd.lib.clock import Clock
from shepherd.lib.http import Request, Response
from shepherd.server import bootstrap
from shepherd.server.access import Access, Signer
from shepherd.server.accounts import PodAccounts
from shepherd.server.admission import Admission, Follow, Guard
from shepherd.server.aggregation.relay import Relay, target
from shepherd.server.aggregation.remotes import Remotes
from shepherd.server.auth import Authenticator
from shepherd.server.authorization.actions import Authorizer
from shepherd.server.authorization.escalation import Escalation
from shepherd.server.authorization.parameters import ParameterReading
from shepherd.server.authorization.reconcile import lay_policy
from shepherd.server.callouts import Callouts
from shepherd.server.config import FrontProxy, ServerConfig
from shepherd.server.conversionwebhook import ConversionWebhook
from shepherd.server.customresources import CustomResources
from shepherd.server.discovery import Discovery, openapi
from shepherd.server.dynamic.chain import DynamicAdmission
from shepherd.server.handlers import AgentDialer, Call, Handlers, json_answer, warn
from shepherd.server.hub import Hub
from shepherd.server.metrics import Metrics
from shepherd.server.openapi_v2 import OpenApiV2
from shepherd.server.reach import Reach
from shepherd.server.registry import Registry
from shepherd.server.routes import Routes
from shepherd.server.served import Served
from shepherd.server.services import ServiceAllocator
from shepherd.server.subresources import VIEWS, find
from shepherd.server.tokens import ServiceAccountTokens
from shepherd.server.upkeep import upkeep
from shepherd.server.version import VERSION
from shepherd.server.versions import Versions
from shepherd.server.virtual import VIRTUAL
from shepherd.store.base import Store, StoreFullError

log = logging.getLogger("shepherd.server")

_HEALTH = ("/healthz", "/livez", "/readyz")


class ApiServer:
    """Serves the Kubernetes API over a store.

    `dialer` reaches the agents. `tokens` issues service account tokens; without it they are signed
    with a secret that ends with this object. `signer` issues the certificates of approved requests.
    `front_proxy` is how it proves itself to the API servers behind it.
    """

    def __init__(
        self,
        store: Store,
        *,
        config: ServerConfig,
        clock: Clock,
        random: Random,
        authenticator: Authenticator,
        authorizer: Authorizer | None = None,
        dialer: AgentDialer | None = None,
        tokens: ServiceAccountTokens | None = None,
        signer: Signer | None = None,
        front_proxy: FrontProxy | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._random = random
        self._front_proxy = front_proxy
        # What agents measure is listed only where they can be asked: clients rely on it.
        self._served = Served(RESOURCES + METRICS if dialer else RESOURCES)
        self._routes = Routes(self._served)
        self._reach = Reach(store, random, front_proxy.prove if front_proxy else None)
        self._remotes = Remotes(store, self._reach, clock, bootstrap.OWN)
        self._relay = Relay(self._remotes)
        self._discovery = Discovery(self._served, self._remotes)
        self._openapi_v2 = OpenApiV2(self._served, clock)
        hub = Hub(store, self._served)
        self._definitions = CustomResources(store, self._served, hub, clock)
        self._services = ServiceAllocator(config.service_cidr, config.node_ports, random)
        callouts = Callouts(self._reach)
        versions = Versions(ConversionWebhook(callouts).convert)
        self._dynamic = DynamicAdmission(store, self._served, versions, callouts, VIEWS, authorizer)
        followers: dict[Resource, Follow] = {CUSTOM_RESOURCE_DEFINITION: self._definitions.reserve}
        followers[API_SERVICE] = self._remotes.follow
        followers |= dict.fromkeys(self._dynamic.followed, self._dynamic.follow)
        accounts = PodAccounts(store, clock, random, tokens=config.pod_tokens)
        guards: tuple[Guard, ...] = ()
        if authorizer:
            reading = ParameterReading(store, authorizer, self._served)
            guards = (Escalation(store, authorizer), reading)
        self._registry = Registry(
            store,
            Admission(store, self._services, followers, accounts, guards),
            self._dynamic,
            versions,
            clock=clock,
            random=random,
        )
        tokens = tokens or ServiceAccountTokens(random.randbytes(32), clock, random)
        self._handlers = Handlers(
            self._registry,
            hub,
            clock=clock,
            random=random,
            dialer=dialer,
            access=Access(authenticator, authorizer, tokens, signer),
        )
        self._metrics = Metrics(self._handlers)
        self._ready = False

    async def start(self) -> None:
        """Make what must exist; then the server is ready."""
        await self._services.load(self._store)
        await self._definitions.load()
        await lay_policy(self._store, self._clock.now(), self._random)
        await bootstrap.make(self._registry, self._config, self._front_proxy)
        # Last: what the server itself makes does not wait for webhooks that may not run yet.
        await self._dynamic.load()
        await self._remotes.load()
        self._ready = True

    async def run(self) -> None:
        """Keep the store small, and finish what CRDs leave to be done, for ever."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(upkeep(self._store, self._clock))
                group.create_task(self._definitions.run(self._registry))
                group.create_task(self._openapi_v2.run())
                group.create_task(self._remotes.run(self._registry))
        finally:
            await self._reach.close()

    async def handle(self, request: Request) -> Response:
        """Answer a request. Never raises for what a client sends."""
        try:
            return await self._serve(request)
        except errors.ApiError as error:
            response = json_answer(error.status(), error.code)
            response.headers |= error.headers
            return warn(response, error.warnings)
        except StoreFullError as error:
            return json_answer(errors.insufficient_storage(str(error)).status(), 507)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return json_answer(errors.internal("the server's log says more").status(), 500)

    async def _serve(self, request: Request) -> Response:
        access = self._handlers.access
        user = await access.authenticator.authenticate(request)
        if remote := self._relay.find(request.path):
            user = await access.admit(user, request, target(remote, request))
            return await self._relay.send(remote, request, user)
        route = self._routes.find(request)
        user = await access.admit(user, request, route)
        if route is None:
            document = await self._document(request)
            if request.method not in ("GET", "HEAD"):
                raise errors.method_not_allowed(request.method)
            return document
        if "content-encoding" in request.headers and route.sub != "proxy":
            message = "the body of the request must not be encoded (Content-Encoding)"
            raise errors.unsupported_media_type(message)
        query: dict[str, str] = {}
        for name, value in request.query:
            query.setdefault(name, value)
        call = Call(request, route, user, query)
        if route.resource in METRICS and not route.sub:
            return await self._metrics.handle(call)
        if not route.sub:
            virtual = VIRTUAL.get((route.verb, route.resource.storage))
            return await (virtual or Handlers.handle)(self._handlers, call)
        serve = find(route.resource, route.sub).verbs.get(route.verb)
        if serve is None:
            raise errors.method_not_allowed(request.method)
        await self._dynamic.judge(call)
        return await serve(self._handlers, call)

    async def _document(self, request: Request) -> Response:
        """What is served beside objects: how the server is, what it has, and what agents must know
        of it."""
        path = request.path
        if path.startswith(_HEALTH):
            return self._health(path, "verbose" in dict(request.query))
        if path in ("/version", "/version/"):  # kr8s asks with a slash
            return json_answer(VERSION)
        if path == "/openapi/v2":
            return await self._openapi_v2.answer(request)
        response = self._discovery.answer(request)
        if response := response or openapi(request, self._served, self._remotes):
            return response
        if path == "/shepherd/v1/cluster":
            return json_answer(self._config.document())
        raise errors.path_not_found()

    def _health(self, path: str, verbose: bool) -> Response:
        name = path.strip("/")
        if name not in ("healthz", "livez", "readyz"):
            raise errors.path_not_found()
        plain = {"content-type": "text/plain; charset=utf-8"}
        checks = {"ping": True, "store": True}
        if name == "readyz":
            checks["start"] = self._ready
        passed = all(checks.values())
        if passed and not verbose:
            return Response(200, plain, b"ok")
        lines = [
            f"[+]{check} ok" if good else f"[-]{check} failed" for check, good in checks.items()
        ]
        lines.append(f"{name} check {'passed' if passed else 'failed'}")
        return Response(200 if passed else 500, plain, "\n".join(lines).encode() + b"\n")
