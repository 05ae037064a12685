"""Pods and nodes as the scheduler reads them: narrow views, since it keeps every one in memory.

Source: kubernetes/api core/v1 types.go.
"""

from msgspec import field

from shepherd.api.objects.meta import Condition, ObjectMeta, View
from shepherd.api.objects.node import Taint
from shepherd.api.objects.pod import (
    Affinity,
    ContainerPort,
    ResourceRequirements,
    SourceName,
    Toleration,
    TopologySpreadConstraint,
)

Amounts = dict[str, str | int | float]


class Container(View):
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    ports: list[ContainerPort] = []
    restart_policy: str = ""


class PodSpec(View):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: Amounts = {}
    host_network: bool = False
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    scheduling_gates: list[SourceName] = []


class PodStatus(View):
    phase: str = "Pending"
    conditions: list[Condition] = []


class Pod(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def finished(self) -> bool:
        """Its containers have ended for good: it uses nothing of its node any more."""
        return self.status.phase in ("Succeeded", "Failed")


class NodeSpec(View):
    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(View):
    allocatable: Amounts = {}


class Node(View):
    """What of a node bears on scheduling; two equal ones are the same to every plugin."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)
