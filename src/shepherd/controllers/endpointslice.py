"""EndpointSlices: the addresses behind each Service that has a selector.

Source: kubernetes staging/src/k8s.io/endpointslice (reconciler.go).
"""

from dataclasses import dataclass, field
from typing import Any

from shepherd.api.objects import EndpointSlice, Service
from shepherd.api.objects.network import Endpoint
from shepherd.api.resource import Object
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.endpoint_rules import (
    Backend,
    Port,
    Ports,
    backends,
    service_labels,
    service_reference,
    watch_backends,
)
from shepherd.controllers.informers import SERVICE_NAME_LABEL, Informers

MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
_COALESCE_SECONDS = 0.03
SLICE_LIMIT = 100
"""Endpoints in one slice."""

Group = tuple[str, Ports]
"""addressType and ports: what all endpoints of a slice have in common."""


@dataclass(slots=True)
class SlicePlan:
    """Slices to make, to rewrite and to remove. The other ones are right as they are."""

    create: list[Object] = field(default_factory=list)
    update: list[tuple[EndpointSlice, Object]] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)


def plan_slices(
    service: Service, wanted: list[Backend], existing: list[EndpointSlice]
) -> SlicePlan:
    """The least change that brings the slices in line. An endpoint stays in the slice where it is;
    new ones fill what has room. A Service without any endpoint keeps one empty slice."""
    groups: dict[Group, dict[str, Backend]] = {}
    for backend in wanted:
        groups.setdefault((backend.family, backend.ports), {})[backend.uid] = backend
    if not groups:
        groups[("IPv4", ())] = {}
    plan = SlicePlan()
    by_group: dict[Group, list[EndpointSlice]] = {}
    for item in existing:
        group = (item.address_type, _ports(item))
        if group in groups:
            by_group.setdefault(group, []).append(item)
        else:
            plan.delete.append(item)
    for group, members in groups.items():
        _plan_group(service, group, members, by_group.get(group, []), plan)
    return plan


def _plan_group(
    service: Service,
    group: Group,
    members: dict[str, Backend],
    slices: list[EndpointSlice],
    plan: SlicePlan,
) -> None:
    left = dict(members)
    contents: list[tuple[EndpointSlice, list[Backend]]] = []
    for item in slices:
        uids = [e.target_ref.uid for e in item.endpoints if e.target_ref]
        contents.append((item, [left.pop(uid) for uid in uids if uid in left]))
    rest = list(left.values())
    placeholder = slices[0] if slices and not members else None
    for item, content in sorted(contents, key=lambda entry: -len(entry[1])):
        room = SLICE_LIMIT - len(content)
        content, rest = content + rest[:room], rest[room:]
        if not content and item is not placeholder:
            plan.delete.append(item)
        elif _differs(service, item, content):
            plan.update.append((item, slice_body(service, group, content)))
    if not members and not placeholder:
        plan.create.append(slice_body(service, group, []))
    while rest:
        plan.create.append(slice_body(service, group, rest[:SLICE_LIMIT]))
        rest = rest[SLICE_LIMIT:]


def _differs(service: Service, item: EndpointSlice, content: list[Backend]) -> bool:
    labels = _labels(service)
    return item.metadata.labels != labels or {_seen(e) for e in item.endpoints} != {
        _shown(b) for b in content
    }


def _seen(endpoint: Endpoint) -> tuple[Any, ...]:
    state = endpoint.conditions
    uid = endpoint.target_ref.uid if endpoint.target_ref else ""
    flags = (state.ready, state.serving, state.terminating)
    return (*endpoint.addresses, *flags, endpoint.node_name, endpoint.hostname, uid)


def _shown(backend: Backend) -> tuple[Any, ...]:
    flags = (backend.ready, backend.serving, backend.terminating)
    return (backend.address, *flags, backend.node, backend.hostname, backend.uid)


def _ports(item: EndpointSlice) -> Ports:
    return tuple(Port(p.name, p.protocol, p.port, p.app_protocol) for p in item.ports)


def _labels(service: Service) -> dict[str, str]:
    return service_labels(service) | {
        SERVICE_NAME_LABEL: service.metadata.name,
        MANAGER_LABEL: MANAGER,
    }


def endpoint_body(backend: Backend) -> Object:
    """discovery.k8s.io/v1 Endpoint."""
    body: Object = {
        "addresses": [backend.address],
        "conditions": {
            "ready": backend.ready,
            "serving": backend.serving,
            "terminating": backend.terminating,
        },
        "targetRef": backend.target(),
    }
    if backend.hostname:
        body["hostname"] = backend.hostname
    if backend.node:
        body["nodeName"] = backend.node
    return body


def slice_body(service: Service, group: Group, content: list[Backend]) -> Object:
    """A whole slice, but for its name."""
    family, ports = group
    return {
        "metadata": {
            "generateName": f"{service.metadata.name}-",
            "namespace": service.metadata.namespace,
            "labels": _labels(service),
            "ownerReferences": [service_reference(service)],
        },
        "addressType": family,
        "endpoints": [endpoint_body(backend) for backend in content],
        "ports": [port.as_json() for port in ports],
    }


class EndpointSliceController:
    """Keeps the slices of each Service with a selector; those of others are their users' own."""

    name = "endpointslice"

    def __init__(self, informers: Informers, slices: Writer[EndpointSlice]) -> None:
        self._informers = informers
        self._slices = slices

    def connect(self, queue: WorkQueue) -> None:
        watch_backends(self._informers, queue, coalesce_seconds=_COALESCE_SECONDS)

        def slice_changed(old: EndpointSlice | None, new: EndpointSlice | None) -> None:
            item = new or old
            if item and item.metadata.labels.get(MANAGER_LABEL) == MANAGER:
                name = item.metadata.labels.get(SERVICE_NAME_LABEL)
                queue.add_after(f"{item.metadata.namespace}/{name}", 1.0)

        self._informers.slices.on_change(slice_changed)

    async def reconcile(self, key: str) -> float | None:
        existing = [
            item
            for item in self._informers.slices.by_index("service", key)
            if item.metadata.labels.get(MANAGER_LABEL) == MANAGER
        ]
        service = self._informers.services.get(key)
        if service is None or service.spec.type == "ExternalName":
            for item in existing:
                await self._slices.delete(item.metadata)
            return None
        if not service.spec.selector or service.metadata.deletion_timestamp:
            return None
        pods = self._informers.pods.by_index("namespace", service.metadata.namespace)
        plan = plan_slices(service, backends(service, pods), existing)
        for body in plan.create:
            await self._slices.create(body)
        for item, body in plan.update:
            labels = body["metadata"]["labels"]
            dropped = dict.fromkeys(item.metadata.labels.keys() - labels.keys())
            patch = {"metadata": {"labels": labels | dropped}, "endpoints": body["endpoints"]}
            await self._slices.patch(item.metadata, patch)
        for item in plan.delete:
            await self._slices.delete(item.metadata)
        return None
