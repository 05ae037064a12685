"""Where a Service's traffic goes when the server itself sends it: proxies, webhooks, API services.

Source: kubernetes pkg/registry/core/service/storage, ResourceLocation; kube-aggregator
pkg/apiserver/resolvers.go.
"""

from collections.abc import Iterator
from random import Random

from shepherd.api import errors
from shepherd.api.kinds import ENDPOINTS, SERVICE
from shepherd.api.meta import object_key
from shepherd.api.objects import Service, decode
from shepherd.api.objects.network import Endpoints, ServicePort
from shepherd.store.base import Store


async def choose(
    store: Store, random: Random, namespace: str, name: str, wanted: str
) -> tuple[str, int]:
    """Address and port of one of the ready endpoints behind a service's port.

    The port by name or number; empty will do where there is only one. Raises ApiError 404, 503.
    """
    item = await store.get(object_key(SERVICE, namespace, name))
    if item is None:
        raise errors.not_found("", SERVICE.plural, name)
    port = _service_port(name, decode(item.value, Service).spec.ports, wanted)
    found = await store.get(object_key(ENDPOINTS, namespace, name))
    backends = list(_backends(decode(found.value, Endpoints), port)) if found else []
    if not backends:
        raise errors.unavailable(f'no endpoints available for service "{name}"')
    return random.choice(backends)


def bracketed(address: str) -> str:
    """An address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address


def _service_port(service: str, ports: list[ServicePort], wanted: str) -> str:
    """The name of the port that is meant. Raises ApiError 503, as upstream."""
    if not wanted and len(ports) == 1:
        return ports[0].name
    if not wanted.isdecimal():
        return wanted
    for port in ports:
        if port.port == int(wanted):
            return port.name
    raise errors.unavailable(f'no service port {wanted} found for service "{service}"')


def _backends(endpoints: Endpoints, port: str) -> Iterator[tuple[str, int]]:
    """The ready addresses, each with the number of the named port there."""
    for subset in endpoints.subsets:
        for one in subset.get("ports") or ():
            if one.get("name", "") == port:
                for address in subset.get("addresses") or ():
                    yield address["ip"], one["port"]
