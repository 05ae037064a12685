"""APIServices with a Service behind them: which there are, and whether they can be used.

Each is asked for its resources again and again; the answer is its Available condition and what
discovery says of it. Source: kube-aggregator pkg/controllers/status.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from shepherd.api import errors
from shepherd.api.kinds.cluster import API_SERVICE
from shepherd.api.meta import format_time, key_prefix
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.lib.clock import Clock
from shepherd.lib.tasks import all_of, wait_at_most
from shepherd.server.admission import Attributes
from shepherd.server.bootstrap import SELF
from shepherd.server.codec import decode
from shepherd.server.reach import Reach, Trust
from shepherd.server.registry import Registry, status
from shepherd.server.routes import Route
from shepherd.store.base import Span, Store

log = logging.getLogger("shepherd.server")

_AGAIN_SECONDS = 30.0
_UNAVAILABLE_AGAIN_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0

GroupVersion = tuple[str, str]


@dataclass(slots=True, eq=False)
class Remote:
    """One APIService that another server answers for."""

    name: str
    group: str
    version: str
    namespace: str
    service: str
    port: int
    trust: Trust
    priority: tuple[int, int]
    """Of its group among groups and of its version in the group; high ones first."""
    available: bool = False
    reason: str = ""
    message: str = "it was not asked yet"
    resources: list[Object] = field(default_factory=list)
    """What it serves: the `resources` of its APIResourceList."""

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}"

    def same(self, other: "Remote") -> bool:
        """Whether both are reached in one way."""
        return (self.namespace, self.service, self.port, self.trust) == (
            other.namespace, other.service, other.port, other.trust,
        )  # fmt: skip


def _read(service: Object) -> Remote | None:
    spec = service["spec"]
    backend = spec.get("service")
    if not backend:
        return None
    unverified = bool(spec.get("insecureSkipTLSVerify"))
    return Remote(
        service["metadata"]["name"],
        spec.get("group") or "",
        spec["version"],
        backend.get("namespace") or "",
        backend.get("name") or "",
        backend.get("port") or 443,
        Trust(spec.get("caBundle") or "", unverified, proven=True),
        (spec["groupPriorityMinimum"], spec["versionPriority"]),
    )


class Remotes:
    """Follows the APIServices as they are written, and keeps their condition true."""

    def __init__(
        self, store: Store, reach: Reach, clock: Clock, own: Iterable[GroupVersion]
    ) -> None:
        """`own` are the groups and versions that no other server can take over."""
        self._store = store
        self._reach = reach
        self._clock = clock
        self._own = frozenset(own)
        self._wake = asyncio.Event()
        self.served: dict[GroupVersion, Remote] = {}
        """Read only."""
        self.generation = 0
        """Counts the changes of what they serve."""

    async def load(self) -> None:
        """Take up what is stored."""
        page = await self._store.list(Span.prefix(key_prefix(API_SERVICE)))
        for item in page.items:
            self._take(decode(item.value))

    def follow(self, asked: Attributes) -> None:
        """An APIService is about to be stored."""

        def end(stored: bool) -> None:
            if stored and asked.operation == "delete":
                self._drop(asked.obj["metadata"]["name"])
            elif stored:
                self._take(asked.obj)

        asked.on_end(end)

    def _take(self, service: Object) -> None:
        remote = _read(service)
        if remote is None or (remote.group, remote.version) in self._own:
            self._drop(service["metadata"]["name"])
            return
        key = (remote.group, remote.version)
        present = self.served.get(key)
        if present and present.same(remote) and present.priority == remote.priority:
            return
        self.served[key] = remote
        self.generation += 1
        self._wake.set()

    def _drop(self, name: str) -> None:
        for key in [key for key, remote in self.served.items() if remote.name == name]:
            del self.served[key]
            self.generation += 1

    async def reach(self, remote: Remote) -> HttpTransport:
        """Raises ApiError, ConnectionError."""
        return await self._reach.service(
            remote.namespace, remote.service, remote.port, remote.trust
        )

    def failed(self, remote: Remote) -> None:
        """It did not answer: look at once whether it is still there."""
        remote.available = False
        self._wake.set()

    # -- whether they answer ---------------------------------------------------------------------

    async def run(self, registry: Registry) -> None:
        """Keep their conditions true, for ever."""
        while True:
            self._wake.clear()
            await all_of(self._look(remote, registry) for remote in list(self.served.values()))
            await wait_at_most(self._wake, self._patience(), self._clock)

    def _patience(self) -> float | None:
        if not self.served:
            return None
        if all(remote.available for remote in self.served.values()):
            return _AGAIN_SECONDS
        return _UNAVAILABLE_AGAIN_SECONDS

    async def _look(self, remote: Remote, registry: Registry) -> None:
        before = (remote.available, remote.resources)
        reason, message = await self._ask(remote)
        remote.available, remote.reason, remote.message = reason == "Passed", reason, message
        if before != (remote.available, remote.resources):
            self.generation += 1
        try:
            await registry.update(
                Route("update", API_SERVICE, API_SERVICE.group, "v1", "", remote.name, "status"),
                lambda service: _with_condition(service, remote, self._clock.now()),
                SELF,
                merge=status,
            )
        except errors.ApiError as error:
            if error.code != 404:
                log.warning("apiservice %s: %s", remote.name, error)

    async def _ask(self, remote: Remote) -> tuple[str, str]:
        """Reason and message of the condition."""
        where = f'service/{remote.service} in "{remote.namespace}"'
        try:
            transport = await self.reach(remote)
        except errors.ApiError as error:
            if error.code == 404:
                return "ServiceNotFound", f"{where} is not present"
            if "port" in error.message:
                return "ServicePortError", f"{where} is not listening on port {remote.port}"
            return "MissingEndpoints", f"endpoints for {where} have no addresses"
        except (OSError, ValueError) as error:
            return "FailedDiscoveryCheck", str(error)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                text = await Client(transport).raw("GET", remote.path)
            remote.resources = msgspec.json.decode(text).get("resources") or []
        except (errors.ApiError, OSError, TimeoutError, msgspec.DecodeError) as error:
            cause = "it did not answer in time" if isinstance(error, TimeoutError) else error
            url = f"{transport.url}{remote.path}"
            return "FailedDiscoveryCheck", f"failing or missing response from {url}: {cause}"
        return "Passed", "all checks passed"


def _with_condition(service: Object, remote: Remote, now: float) -> Object:
    found = service.get("status") or {}
    old = {condition["type"]: condition for condition in found.get("conditions") or ()}
    value = "True" if remote.available else "False"
    before = old.get("Available", {})
    since = before.get("lastTransitionTime") if before.get("status") == value else None
    condition = {
        "type": "Available",
        "status": value,
        "lastTransitionTime": since or format_time(now),
        "reason": remote.reason,
        "message": remote.message,
    }
    conditions = [*(c for c in old.values() if c["type"] != "Available"), condition]
    return service | {"status": found | {"conditions": conditions}}


def described(resources: Iterable[Object], group: str, version: str) -> list[Object]:
    """An APIResourceList's resources in the form of aggregated discovery.

    Source: apiserver pkg/endpoints/discovery/aggregated, ConvertAPIResourceList.
    """
    found: dict[str, Object] = {}
    for resource in resources:
        name, _, sub = resource["name"].partition("/")
        if not sub:
            found[name] = _description(resource, group, version)
    for resource in resources:
        name, _, sub = resource["name"].partition("/")
        if sub and name in found:
            entry = {
                "subresource": sub,
                "responseKind": _kind(resource, group, version),
                "verbs": resource.get("verbs") or [],
            }
            found[name].setdefault("subresources", []).append(entry)
    return list(found.values())


def _description(resource: Object, group: str, version: str) -> Object:
    entry: Object = {
        "resource": resource["name"],
        "responseKind": _kind(resource, group, version),
        "scope": "Namespaced" if resource.get("namespaced") else "Cluster",
        "singularResource": resource.get("singularName") or "",
        "verbs": resource.get("verbs") or [],
    }
    return entry | {
        name: resource[name] for name in ("shortNames", "categories") if resource.get(name)
    }


def _kind(resource: Object, group: str, version: str) -> Object:
    return {
        "group": resource.get("group") or group,
        "version": resource.get("version") or version,
        "kind": resource.get("kind") or "",
    }


def ordered(remotes: Iterable[Remote]) -> Iterator[Remote]:
    """Those with a high priority first."""
    yield from sorted(
        remotes, key=lambda one: (-one.priority[0], one.group, -one.priority[1], one.version)
    )
