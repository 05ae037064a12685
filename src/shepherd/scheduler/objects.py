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
from shepherd.api.quantity import millis

Amounts = dict[str, str | int | float]


class Container(View):
    name: str = ""
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


class ContainerStatus(View):
    name: str = ""
    allocated_resources: Amounts = {}
    resources: ResourceRequirements | None = None


class PodStatus(View):
    phase: str = "Pending"
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class Pod(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    def __post_init__(self) -> None:
        """While a resize is under way a pod counts for what it asks for, what it has been granted
        or what it still has, whichever is most; one that its node can never grant does not count
        for what it asks for (component-helpers `resource.PodRequests`, UseStatusResources)."""
        status, spec = self.status, self.spec
        statuses = status.container_statuses + status.init_container_statuses
        if not statuses:
            return
        infeasible = any(
            c.type == "PodResizePending" and c.reason == "Infeasible" for c in status.conditions
        )
        known = {one.name: one for one in statuses}
        for container in (*spec.containers, *spec.init_containers):
            if (one := known.get(container.name)) and one.resources:
                container.resources.requests = _most(
                    {} if infeasible else container.resources.requests,
                    one.allocated_resources,
                    one.resources.requests,
                )
        status.container_statuses = status.init_container_statuses = []

    @property
    def finished(self) -> bool:
        """Its containers have ended for good: it uses nothing of its node any more."""
        return self.status.phase in ("Succeeded", "Failed")


def _most(*each: Amounts) -> Amounts:
    """The largest amount of each resource."""
    result: Amounts = {}
    for amounts in each:
        for name, amount in amounts.items():
            if name not in result or millis(result[name]) < millis(amount):
                result[name] = amount
    return result


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
