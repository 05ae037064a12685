"""Services as this node serves them.

`rules` decides, from Services and EndpointSlices, what the dataplane must hold; `ServiceKeeper`
follows both and applies. Source: kubernetes pkg/proxy (service, endpointslicecache, topology).
"""

import asyncio
import logging
from collections.abc import Iterable
from random import Random

from shepherd.api.kinds import ENDPOINT_SLICE, SERVICE
from shepherd.api.objects import EndpointSlice, Service
from shepherd.api.objects.network import Endpoint, EndpointPort, ServicePort
from shepherd.client.base import Client
from shepherd.client.informer import Informer
from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock
from shepherd.runtime.base import Backend, Dataplane, ServiceRule, SheepError

_log = logging.getLogger("shepherd.agent.services")

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
_COALESCE_SECONDS = 0.02
"""Changes come in bunches (a rollout, a re-list): one transaction serves them all."""
_BACKOFF = Backoff(initial=0.5, cap=30.0)
_DEFAULT_AFFINITY_SECONDS = 10800


def rules(
    services: Iterable[Service], slices: Iterable[EndpointSlice], node_name: str
) -> list[ServiceRule]:
    """What the node must serve, in a stable order. Pure.

    A service without ready endpoints has a rule without backends: its connections are refused.
    """
    by_service: dict[str, list[EndpointSlice]] = {}
    for piece in slices:
        name = piece.metadata.labels.get(SERVICE_NAME_LABEL, "")
        by_service.setdefault(f"{piece.metadata.namespace}/{name}", []).append(piece)
    result = []
    for service in sorted(services, key=lambda s: s.metadata.key):
        if service.spec.type == "ExternalName" or service.spec.cluster_ip in ("", "None"):
            continue
        pieces = by_service.get(service.metadata.key, [])
        for port in service.spec.ports:
            result += _port_rules(service, port, pieces, node_name)
    return result


def _port_rules(
    service: Service, port: ServicePort, pieces: list[EndpointSlice], node_name: str
) -> list[ServiceRule]:
    """The rule of one port; two where traffic from outside goes to fewer backends."""
    spec = service.spec
    inner_local = spec.internal_traffic_policy == "Local"
    outer_local = spec.external_traffic_policy == "Local" and spec.type != "ClusterIP"
    everywhere = _backends(port, pieces, "")
    here = _backends(port, pieces, node_name)
    cluster = tuple(spec.cluster_ips or [spec.cluster_ip])
    external = tuple(spec.external_ips)
    inner = here if inner_local else everywhere
    outer = here if outer_local else everywhere
    name = f"{service.metadata.key}:{port.name or port.port}"
    affinity = _affinity_seconds(service)
    if inner == outer or not (external or port.node_port):
        return [
            ServiceRule(name, (*cluster, *external), port.port, port.protocol, inner,
                        port.node_port, affinity)
        ]  # fmt: skip
    return [
        ServiceRule(name, cluster, port.port, port.protocol, inner, 0, affinity),
        ServiceRule(f"{name}/external", external, port.port, port.protocol, outer,
                    port.node_port, affinity),
    ]  # fmt: skip


def _affinity_seconds(service: Service) -> int:
    if service.spec.session_affinity != "ClientIP":
        return 0
    client = service.spec.session_affinity_config.get("clientIP") or {}
    return int(client.get("timeoutSeconds") or _DEFAULT_AFFINITY_SECONDS)


def _backends(
    port: ServicePort, pieces: list[EndpointSlice], node_name: str
) -> tuple[Backend, ...]:
    """The ready endpoints (on one node, if named); failing that those which still serve while
    they end, so that a rollout refuses nobody."""
    ready: set[tuple[str, int]] = set()
    ending: set[tuple[str, int]] = set()
    for piece in pieces:
        target = _target_port(port, piece.ports)
        if target is None:
            continue
        for endpoint in piece.endpoints:
            if not endpoint.addresses or (node_name and endpoint.node_name != node_name):
                continue
            if _is_ready(endpoint):
                ready.add((endpoint.addresses[0], target))
            elif endpoint.conditions.serving and endpoint.conditions.terminating:
                ending.add((endpoint.addresses[0], target))
    return tuple(Backend(address, number) for address, number in sorted(ready or ending))


def _is_ready(endpoint: Endpoint) -> bool:
    return endpoint.conditions.ready is not False


def _target_port(port: ServicePort, ports: list[EndpointPort]) -> int | None:
    for candidate in ports:
        if candidate.name == port.name and candidate.protocol == port.protocol:
            return candidate.port
    return None


class ServiceKeeper:
    """Follows Services and EndpointSlices and keeps the dataplane as they say."""

    def __init__(
        self, client: Client, dataplane: Dataplane, node_name: str, *, clock: Clock, random: Random
    ) -> None:
        self.services = Informer(client, SERVICE, Service, clock=clock, random=random)
        self._slices = Informer(client, ENDPOINT_SLICE, EndpointSlice, clock=clock, random=random)
        self._dataplane = dataplane
        self._node_name = node_name
        self._clock = clock
        self._changed = asyncio.Event()
        self.known = asyncio.Event()
        """Set once all services are known."""

    async def run(self) -> None:
        """Never returns."""
        self.services.on_change(lambda old, new: self._changed.set())
        self._slices.on_change(lambda old, new: self._changed.set())
        async with asyncio.TaskGroup() as group:
            group.create_task(self.services.run())
            group.create_task(self._slices.run())
            await self.services.synced()
            self.known.set()
            await self._slices.synced()
            group.create_task(self._keep())

    async def _keep(self) -> None:
        await self._dataplane.start()
        applied: list[ServiceRule] | None = None
        failures = 0
        while True:
            self._changed.clear()
            wanted = rules(self.services.all(), self._slices.all(), self._node_name)
            if wanted != applied:
                try:
                    await self._dataplane.apply(wanted)
                    applied, failures = wanted, 0
                except (SheepError, OSError) as error:
                    failures += 1
                    _log.warning("service addresses: %s; retrying", error)
                    await self._clock.sleep(_BACKOFF.delay(failures))
                    continue
            await self._changed.wait()
            await self._clock.sleep(_COALESCE_SECONDS)
