"""`Informers`: one informer a kind, shared by all controllers, with the indices they look up by."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from shepherd.api.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
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
from shepherd.api.kinds.daemonsets import DAEMON_SET
from shepherd.api.kinds.disruption import POD_DISRUPTION_BUDGET
from shepherd.api.kinds.jobs import CRON_JOB, JOB
from shepherd.api.kinds.rbac import CLUSTER_ROLE
from shepherd.api.kinds.replicationcontrollers import CONTROLLER_REVISION, REPLICATION_CONTROLLER
from shepherd.api.kinds.statefulsets import STATEFUL_SET
from shepherd.api.kinds.storage import PERSISTENT_VOLUME_CLAIM
from shepherd.api.objects import (
    ControllerRevision,
    CustomResourceDefinition,
    DaemonSet,
    Deployment,
    EndpointSlice,
    Lease,
    Namespace,
    Node,
    Pod,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from shepherd.api.objects.batch import CronJob, Job
from shepherd.api.objects.network import Endpoints
from shepherd.api.objects.policy import PodDisruptionBudget
from shepherd.api.objects.rbac import Role
from shepherd.api.resource import Resource
from shepherd.client.base import Client
from shepherd.client.informer import Identified, Informer, PartialObject
from shepherd.lib.clock import Clock

T = TypeVar("T", bound=Identified)
OnKind = Callable[[Informer[Any]], None]

SERVICE_NAME_LABEL = "kubernetes.io/service-name"


class Informers:
    """Every kind in `resources` has its informer in `every`, by `Resource.storage`: typed where a
    controller needs more than metadata. Events are left out: there are many and none has parts.
    The kinds that CustomResourceDefinitions define come and go while it runs.

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
        self._fixed = resources
        self.kinds: dict[tuple[str, str], Resource] = {}
        """By apiVersion and kind, all that is served and can be asked for."""
        self._group: asyncio.TaskGroup
        self._custom: dict[str, _CustomKind] = {}
        self._on_kind: list[OnKind] = []
        self.pods = self._add(POD, Pod)
        self.nodes = self._add(NODE, Node)
        self.leases = self._add(LEASE, Lease)
        self.namespaces = self._add(NAMESPACE, Namespace)
        self.deployments = self._add(DEPLOYMENT, Deployment)
        self.replica_sets = self._add(REPLICA_SET, ReplicaSet)
        self.replication_controllers = self._add(REPLICATION_CONTROLLER, ReplicationController)
        self.jobs = self._add(JOB, Job)
        self.cron_jobs = self._add(CRON_JOB, CronJob)
        self.stateful_sets = self._add(STATEFUL_SET, StatefulSet)
        self.daemon_sets = self._add(DAEMON_SET, DaemonSet)
        self.revisions = self._add(CONTROLLER_REVISION, ControllerRevision)
        self.claims = self._add(PERSISTENT_VOLUME_CLAIM, PartialObject)
        self.services = self._add(SERVICE, Service)
        self.slices = self._add(ENDPOINT_SLICE, EndpointSlice)
        self.endpoints = self._add(ENDPOINTS, Endpoints)
        self.budgets = self._add(POD_DISRUPTION_BUDGET, PodDisruptionBudget)
        self.cluster_roles = self._add(CLUSTER_ROLE, Role)
        self.service_accounts = self._add(SERVICE_ACCOUNT, PartialObject)
        self.config_maps = self._add(CONFIG_MAP, PartialObject)
        definitions = self._add(CUSTOM_RESOURCE_DEFINITION, CustomResourceDefinition)
        definitions.on_change(self._definition_changed)
        for resource in resources:
            self.kinds[resource.api_version, resource.kind] = resource
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

    @property
    def resources(self) -> list[Resource]:
        """Every kind that is served, custom ones too, each once."""
        return [*self._fixed, *(custom.served[0] for custom in self._custom.values())]

    def on_kind(self, handler: OnKind) -> None:
        """Call `handler` with the informer of each kind, now and whenever a kind comes."""
        for informer in self.every.values():
            handler(informer)
        self._on_kind.append(handler)

    def _definition_changed(
        self, old: CustomResourceDefinition | None, new: CustomResourceDefinition | None
    ) -> None:
        """Follow the objects of each CRD that is established, and of no other."""
        name = (new or old or CustomResourceDefinition()).metadata.name
        served = new.resources if new else []
        present = self._custom.get(name)
        if present and present.served == served:
            return
        if present:
            self._leave(self._custom.pop(name))
        if served:
            self._custom[name] = self._follow(served)

    def _follow(self, served: list[Resource]) -> "_CustomKind":
        for resource in served:
            self.kinds[resource.api_version, resource.kind] = resource
        informer = self._add(served[0], PartialObject)
        for handler in self._on_kind:
            handler(informer)
        return _CustomKind(served, informer, self._group.create_task(informer.run()))

    def _leave(self, custom: "_CustomKind") -> None:
        for resource in custom.served:
            self.kinds.pop((resource.api_version, resource.kind), None)
        custom.task.cancel()
        self.every.pop(custom.informer.resource.storage, None)
        custom.informer.forget()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            for informer in self.every.values():
                group.create_task(informer.run())

    async def synced(self) -> None:
        """Return once all hold what the server holds."""
        for informer in list(self.every.values()):
            await informer.synced()


@dataclass(frozen=True, slots=True)
class _CustomKind:
    """What is followed of one CRD."""

    served: list[Resource]
    informer: Informer[PartialObject]
    task: asyncio.Task[None]


def _owners(obj: Identified) -> list[str]:
    return list({owner.uid for owner in obj.metadata.owner_references})


def _orphan(obj: Identified) -> list[str]:
    return [] if obj.metadata.controller else [obj.metadata.namespace]


def _labelled_service(labels: dict[str, str], obj: Identified) -> list[str]:
    name = labels.get(SERVICE_NAME_LABEL)
    return [f"{obj.metadata.namespace}/{name}"] if name else []
