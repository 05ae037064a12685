"""`ControllerManager`: all controllers together, over one set of informers. The explicit table."""

import asyncio
from dataclasses import dataclass
from random import Random

from shepherd.api.kinds import RESOURCES
from shepherd.api.objects import Pod
from shepherd.api.resource import Resource
from shepherd.client.base import Client
from shepherd.client.recorder import Recorder
from shepherd.client.writer import Writer
from shepherd.controllers.attention import Attention
from shepherd.controllers.clusterrole_aggregation import ClusterRoleAggregation
from shepherd.controllers.controller import Controller, Reconciler
from shepherd.controllers.cronjob import CronJobController
from shepherd.controllers.daemonset import DaemonSetController
from shepherd.controllers.deployment import DeploymentController
from shepherd.controllers.disruption import DisruptionController
from shepherd.controllers.endpoints import EndpointsController
from shepherd.controllers.endpointslice import EndpointSliceController
from shepherd.controllers.garbage_collector import GarbageCollector
from shepherd.controllers.informers import Informers
from shepherd.controllers.job import JobController
from shepherd.controllers.job_orphans import JobOrphans
from shepherd.controllers.namespace import NamespaceController
from shepherd.controllers.node_ipam import NodeIpam, NodeRanges
from shepherd.controllers.node_lifecycle import NodeLifecycle
from shepherd.controllers.pod_gc import PodGc
from shepherd.controllers.replicaset import ReplicaSetController
from shepherd.controllers.root_ca import RootCaPublisher
from shepherd.controllers.service_account import ServiceAccountController
from shepherd.controllers.statefulset import StatefulSetController
from shepherd.controllers.taint_eviction import TaintEviction
from shepherd.controllers.ttl_after_finished import TtlAfterFinished
from shepherd.lib.clock import Clock


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """What an operator may set."""

    pod_cidr: str = "10.42.0.0/16"
    """The pod network, of which each node gets a part; empty: nodes get none."""
    node_cidr_prefix: int = 24
    """The length of a node's part."""
    node_grace_seconds: float = 40.0
    """The silence after which a node counts as lost."""
    finished_pods_limit: int = 1000
    """Pods that have ended and are kept for inspection, over all namespaces."""
    ca: str = ""
    """The cluster's CA certificate as PEM, published in each namespace; empty: it is not."""


class ControllerManager:
    """Runs every controller until cancelled. `resources` are all kinds that are served: garbage
    collection and namespace deletion concern each of them."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        random: Random,
        config: ControllerConfig | None = None,
        resources: tuple[Resource, ...] = RESOURCES,
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._recorders: list[Recorder] = []
        self._attention = Attention(clock)
        self.informers = Informers(client, resources, clock=clock, random=random)
        self.controllers = [
            Controller(reconciler, clock=clock, random=random)
            for reconciler in self._table(config or ControllerConfig())
        ]

    def _table(self, config: ControllerConfig) -> list[Reconciler]:
        client, informers, clock = self._client, self.informers, self._clock
        pods = Writer(client, informers.pods)
        nodes = Writer(client, informers.nodes)
        node_events = self._recorder("node-controller")
        table: list[Reconciler] = [
            *self._workloads(pods),
            *self._batch(pods),
            EndpointSliceController(informers, Writer(client, informers.slices)),
            EndpointsController(informers, Writer(client, informers.endpoints)),
            NodeLifecycle(
                client,
                informers,
                nodes,
                node_events,
                self._attention,
                clock=clock,
                grace_seconds=config.node_grace_seconds,
            ),
            TaintEviction(
                informers,
                pods,
                self._recorder("taint-eviction-controller"),
                self._attention,
                clock=clock,
            ),
            PodGc(client, informers, pods, clock=clock, finished_limit=config.finished_pods_limit),
            GarbageCollector(client, informers, self._recorder("garbage-collector-controller")),
            NamespaceController(
                client, informers, Writer(client, informers.namespaces), clock=clock
            ),
            DisruptionController(client, informers, Writer(client, informers.budgets), clock=clock),
            ServiceAccountController(informers, Writer(client, informers.service_accounts)),
            ClusterRoleAggregation(informers, Writer(client, informers.cluster_roles)),
        ]
        if config.pod_cidr:
            ranges = NodeRanges(config.pod_cidr, config.node_cidr_prefix)
            table.append(NodeIpam(informers, nodes, node_events, ranges=ranges))
        if config.ca:
            maps = Writer(client, informers.config_maps)
            table.append(RootCaPublisher(informers, maps, ca=config.ca))
        return table

    def _workloads(self, pods: Writer[Pod]) -> list[Reconciler]:
        """What makes pods."""
        client, informers, clock = self._client, self.informers, self._clock
        deployments = Writer(client, informers.deployments)
        sets = Writer(client, informers.replica_sets)
        revisions = Writer(client, informers.revisions)
        return [
            DeploymentController(
                informers, deployments, sets, self._recorder("deployment-controller"), clock=clock
            ),
            ReplicaSetController(
                informers, pods, sets, self._recorder("replicaset-controller"), clock=clock
            ),
            ReplicaSetController(
                informers,
                pods,
                Writer(client, informers.replication_controllers),
                self._recorder("replication-controller"),
                clock=clock,
            ),
            StatefulSetController(
                Writer(client, informers.stateful_sets),
                pods,
                Writer(client, informers.claims),
                revisions,
                self._recorder("statefulset-controller"),
                clock=clock,
            ),
            DaemonSetController(
                informers,
                Writer(client, informers.daemon_sets),
                pods,
                revisions,
                self._recorder("daemonset-controller"),
                clock=clock,
            ),
        ]

    def _batch(self, pods: Writer[Pod]) -> list[Reconciler]:
        """What makes pods that come to an end."""
        informers, clock = self.informers, self._clock
        jobs = Writer(self._client, informers.jobs)
        cron_jobs = Writer(self._client, informers.cron_jobs)
        return [
            JobController(informers, pods, jobs, self._recorder("job-controller"), clock=clock),
            JobOrphans(informers, pods),
            TtlAfterFinished(informers, jobs, clock=clock),
            CronJobController(
                informers, cron_jobs, jobs, self._recorder("cronjob-controller"), clock=clock
            ),
        ]

    def _recorder(self, component: str) -> Recorder:
        recorder = Recorder(self._client, component, clock=self._clock)
        self._recorders.append(recorder)
        return recorder

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._attention.run())
            group.create_task(self.informers.run())
            for recorder in self._recorders:
                group.create_task(recorder.run())
            await self.informers.synced()
            for controller in self.controllers:
                group.create_task(controller.run())
