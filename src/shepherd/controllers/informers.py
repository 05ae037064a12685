"""`Informers`: one informer a kind, shared by all controllers, with the indices they look up by."""

import asyncio
from random import Random
from typing import Any, TypeVar

from shepherd.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    ENDPOINTS,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    SERVICE,
    SERVICE_ACCOUNT,
)
from shepherd.api.kinds.disruption import POD_DISRUPTION_BUDGET
from shepherd.api.objects import (
    Deployment,
    EndpointSlice,
    Lease,
    Namespace,
    Node,
    Pod,
    ReplicaSet,
    Service,
)
from shepherd.api.objects.network import Endpoints
from shepherd.api.objects.policy import PodDisruptionBudget
from shepherd.api.resource import Resource
from shepherd.client.base import Client
from shepherd.client.informer import Identified, Informer, PartialObject
from shepherd.lib.clock import Clock

T = TypeVar("T", bound=Identified)

SERVICE_NAME_LABEL = "kubernetes.io/service-name"


class Informers:
    """Every kind in `resources` has its informer in `every`, by `Resource.storage`: typed where a
    controller needs more than metadata. Events are left out: there are many and none has parts.

    Indices: `owner` (the UIDs that ownerReferences name) and `uid`, of every kind; `namespace`;
    `orphan` (the namespace, of objects that no controller owns); of pods `node`; of slices
    `service` (its key).
    """

    def __init__(
        self, client: Client, resources: tuple[Resource, ...], *, clock: Clock, random: Random
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self.every: dict[str, Informer[Any]] = {}
        self.resources = resources
        self.pods = self._add(POD, Pod)
        self.nodes = self._add(NODE, Node)
        self.leases = self._add(LEASE, Lease)
        self.namespaces = self._add(NAMESPACE, Namespace)
        self.deployments = self._add(DEPLOYMENT, Deployment)
        self.replica_sets = self._add(REPLICA_SET, ReplicaSet)
        self.services = self._add(SERVICE, Service)
        self.slices = self._add(ENDPOINT_SLICE, EndpointSlice)
        self.endpoints = self._add(ENDPOINTS, Endpoints)
        self.budgets = self._add(POD_DISRUPTION_BUDGET, PodDisruptionBudget)
        self.service_accounts = self._add(SERVICE_ACCOUNT, PartialObject)
        self.config_maps = self._add(CONFIG_MAP, PartialObject)
        for resource in resources:
            watchable = {"list", "watch"} <= set(resource.verbs) and resource is not EVENT
            if watchable and resource.storage not in self.every:
                self._add(resource, PartialObject)
        self.pods.index("node", lambda pod: [pod.spec.node_name])
        self.slices.index("service", lambda item: _labelled_service(item.metadata.labels, item))

    def _add(self, resource: Resource, as_type: type[T]) -> Informer[T]:
        informer = Informer(self._client, resource, as_type, clock=self._clock, random=self._random)
        informer.index("owner", _owners)
        informer.index("uid", lambda obj: [obj.metadata.uid])
        informer.index("namespace", lambda obj: [obj.metadata.namespace])
        informer.index("orphan", _orphan)
        self.every[resource.storage] = informer
        return informer

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self.every.values():
                group.create_task(informer.run())

    async def synced(self) -> None:
        """Return once all hold what the server holds."""
        for informer in self.every.values():
            await informer.synced()


def _owners(obj: Identified) -> list[str]:
    return list({owner.uid for owner in obj.metadata.owner_references})


def _orphan(obj: Identified) -> list[str]:
    return [] if obj.metadata.controller else [obj.metadata.namespace]


def _labelled_service(labels: dict[str, str], obj: Identified) -> list[str]:
    name = labels.get(SERVICE_NAME_LABEL)
    return [f"{obj.metadata.namespace}/{name}"] if name else []
