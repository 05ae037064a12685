"""Service, EndpointSlice. Source: kubernetes/api core/v1 and discovery/v1 types.go."""

from typing import Any

from msgspec import field

from shepherd.api.objects.meta import ObjectMeta, View


class ServicePort(View):
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str = ""
    port: int = 0
    target_port: int | str = 0
    node_port: int = 0


class ServiceSpec(View):
    ports: list[ServicePort] = []
    selector: dict[str, str] | None = None
    cluster_ip: str = field(default="", name="clusterIP")
    cluster_ips: list[str] = field(default_factory=list, name="clusterIPs")
    type: str = "ClusterIP"
    external_ips: list[str] = field(default_factory=list, name="externalIPs")
    session_affinity: str = "None"
    session_affinity_config: dict[str, Any] = {}
    publish_not_ready_addresses: bool = False
    internal_traffic_policy: str = "Cluster"
    external_traffic_policy: str = "Cluster"


class Service(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ServiceSpec = field(default_factory=ServiceSpec)


class ObjectReference(View):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EndpointConditions(View):
    """Absent means ready and serving, not terminating."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(View):
    addresses: list[str] = []
    conditions: EndpointConditions = field(default_factory=EndpointConditions)
    hostname: str = ""
    node_name: str = ""
    target_ref: ObjectReference | None = None


class EndpointPort(View):
    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    app_protocol: str = ""


class EndpointSlice(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    address_type: str = "IPv4"
    endpoints: list[Endpoint] = []
    ports: list[EndpointPort] = []


class Endpoints(View):
    """The older form of EndpointSlice, all in one object. Source: core/v1."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    subsets: list[dict[str, Any]] = []
