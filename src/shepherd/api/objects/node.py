"""Node. Source: kubernetes/api core/v1 types.go."""

from msgspec import field

from shepherd.api.objects.meta import Condition, LabelSelectorRequirement, ObjectMeta, View


class Taint(View):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSelectorTerm(View):
    """Expressions that must all hold; a term without any matches nothing."""

    match_expressions: list[LabelSelectorRequirement] = []
    match_fields: list[LabelSelectorRequirement] = []


class NodeSelector(View):
    """Terms of which one must hold."""

    node_selector_terms: list[NodeSelectorTerm] = []


class NodeSpec(View):
    pod_cidr: str = field(default="", name="podCIDR")
    unschedulable: bool = False
    taints: list[Taint] = []


class NodeAddress(View):
    type: str = ""
    address: str = ""


class DaemonEndpoint(View):
    port: int = field(default=0, name="Port")


class NodeDaemonEndpoints(View):
    kubelet_endpoint: DaemonEndpoint = field(default_factory=DaemonEndpoint)


class ContainerImage(View):
    names: list[str] = []
    size_bytes: int = 0


class NodeStatus(View):
    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    conditions: list[Condition] = []
    addresses: list[NodeAddress] = []
    daemon_endpoints: NodeDaemonEndpoints = field(default_factory=NodeDaemonEndpoints)
    images: list[ContainerImage] = []


class Node(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    def address(self, type: str = "InternalIP") -> str:
        """The first address of a type, or an empty string."""
        for address in self.status.addresses:
            if address.type == type:
                return address.address
        return ""
