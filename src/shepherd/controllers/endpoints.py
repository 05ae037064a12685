"""Endpoints: the older form of the addresses behind a Service, still read by many clients.

Source: kubernetes pkg/controller/endpoint (endpoints_controller.go, RepackSubsets).
"""

from typing import Any

from shepherd.api.objects import Service
from shepherd.api.objects.network import Endpoints
from shepherd.api.resource import Object
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.endpoint_rules import (
    Backend,
    Port,
    backends,
    service_labels,
    watch_backends,
)
from shepherd.controllers.informers import Informers

_COALESCE_SECONDS = 0.25
"""Traffic follows the slices; this object may come a little later, for it is written whole."""
ADDRESS_LIMIT = 1000
"""More addresses are left out, and an annotation says so."""
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
MANAGED_LABELS = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}


def subsets(service: Service, members: list[Backend]) -> list[Object]:
    """The members by the ports they have in common, ready and not ready ones apart. A pod on its
    way out is in neither list, unless the Service publishes whatever there is."""
    groups: dict[tuple[Port, ...], tuple[list[Object], list[Object]]] = {}
    for member in members[:ADDRESS_LIMIT]:
        if member.terminating and not service.spec.publish_not_ready_addresses:
            continue
        ready, unready = groups.setdefault(member.ports, ([], []))
        (ready if member.ready else unready).append(_address(member))
    found = []
    for ports, (ready, unready) in sorted(groups.items(), key=lambda item: str(item[0])):
        subset: Object = {}
        if ready:
            subset["addresses"] = ready
        if unready:
            subset["notReadyAddresses"] = unready
        if ports:
            subset["ports"] = [_port(port) for port in ports]
        found.append(subset)
    return found


def _address(member: Backend) -> Object:
    address: Object = {"ip": member.address, "targetRef": member.target()}
    if member.hostname:
        address["hostname"] = member.hostname
    if member.node:
        address["nodeName"] = member.node
    return address


def _port(port: Port) -> Object:
    return {key: value for key, value in port.as_json().items() if value}


def _bare(value: Any) -> Any:
    """Without empty fields, which a server may add or drop."""
    if isinstance(value, dict):
        return {k: _bare(v) for k, v in value.items() if v not in ("", None, [], {})}
    return [_bare(item) for item in value] if isinstance(value, list) else value


class EndpointsController:
    """Keeps one Endpoints object for each Service with a selector."""

    name = "endpoint"

    def __init__(self, informers: Informers, endpoints: Writer[Endpoints]) -> None:
        self._informers = informers
        self._endpoints = endpoints

    def connect(self, queue: WorkQueue) -> None:
        watch_backends(self._informers, queue, coalesce_seconds=_COALESCE_SECONDS)

        def endpoints_changed(old: Endpoints | None, new: Endpoints | None) -> None:
            queue.add_after((new or old or Endpoints()).metadata.key, 1.0)

        self._informers.endpoints.on_change(endpoints_changed)

    async def reconcile(self, key: str) -> float | None:
        service = self._informers.services.get(key)
        present = self._informers.endpoints.get(key)
        managed = present is not None and MANAGED_LABELS.items() <= present.metadata.labels.items()
        if service is None or service.spec.type == "ExternalName":
            if present is not None and managed:
                await self._endpoints.delete(present.metadata)
            return None
        if not service.spec.selector or service.metadata.deletion_timestamp:
            return None
        pods = self._informers.pods.by_index("namespace", service.metadata.namespace)
        members = backends(service, pods)
        labels = service_labels(service) | MANAGED_LABELS
        over = "truncated" if len(members) > ADDRESS_LIMIT else None
        meta: Object = {"labels": labels}
        if over or (present and OVER_CAPACITY in present.metadata.annotations):
            meta["annotations"] = {OVER_CAPACITY: over}
        body = {"metadata": meta, "subsets": subsets(service, members)}
        if present is None:
            place = {"name": service.metadata.name, "namespace": service.metadata.namespace}
            await self._endpoints.create(body | {"metadata": meta | place})
        elif self._differs(present, body):
            dropped = dict.fromkeys(present.metadata.labels.keys() - labels.keys())
            meta["labels"] = labels | dropped
            await self._endpoints.patch(present.metadata, body)
        return None

    @staticmethod
    def _differs(present: Endpoints, body: Object) -> bool:
        return (
            present.metadata.labels != body["metadata"]["labels"]
            or "annotations" in body["metadata"]
            or _bare(present.subsets) != _bare(body["subsets"])
        )
