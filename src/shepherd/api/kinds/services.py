"""Service."""

from shepherd.api.kinds.cells import AGE, NONE, labels_text
from shepherd.api.kinds.servicerules import (
    WITH_CLUSTER_IP,
    WITH_NODE_PORTS,
    prepare_service,
    service_warnings,
    validate_service,
    validate_service_update,
)
from shepherd.api.kinds.shape import child, fill
from shepherd.api.resource import Column, Object, Resource

AFFINITY_TIMEOUT_SECONDS = 3 * 60 * 60


def _default(service: Object) -> None:
    """Source: kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_Service."""
    child(child(service, "status"), "loadBalancer")
    spec = child(service, "spec")
    fill(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    if spec["sessionAffinity"] == "ClientIP":
        client_ip = child(child(spec, "sessionAffinityConfig"), "clientIP")
        fill(client_ip, {"timeoutSeconds": AFFINITY_TIMEOUT_SECONDS})
    elif spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    for port in spec.get("ports") or ():
        fill(port, {"protocol": "TCP"})
        if not port.get("targetPort") and port.get("port"):
            port["targetPort"] = port["port"]
    if spec["type"] in WITH_CLUSTER_IP:
        fill(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] in WITH_NODE_PORTS or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        fill(spec, {"allocateLoadBalancerNodePorts": True})


def _spec(service: Object) -> Object:
    return service.get("spec") or {}


def _external_ip(service: Object, now: float) -> str:
    spec = _spec(service)
    addresses = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ExternalName":
            return spec.get("externalName") or NONE
        case "LoadBalancer":
            balancer = (service.get("status") or {}).get("loadBalancer") or {}
            ingress = balancer.get("ingress") or ()
            addresses = [i.get("ip") or i.get("hostname") or "" for i in ingress] + addresses
            return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _ports(service: Object, now: float) -> str:
    texts = []
    for port in _spec(service).get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or NONE


def _fields(service: Object) -> dict[str, str]:
    spec = _spec(service)
    return {"spec.clusterIP": spec.get("clusterIP") or "", "spec.type": spec.get("type") or ""}


SERVICE = Resource(
    group="",
    version="v1",
    kind="Service",
    plural="services",
    shown_deleted=True,
    short_names=("svc",),
    categories=("all",),
    status=True,
    name_rule="dns1035label",
    columns=(
        Column("Type", lambda service, now: _spec(service).get("type") or "",
               description="How the service is reached."),
        Column("Cluster-IP", lambda service, now: _spec(service).get("clusterIP") or NONE,
               description="Its address inside the cluster."),
        Column("External-IP", _external_ip, description="Its addresses outside the cluster."),
        Column("Port(s)", _ports, description="Its ports, with the node port and the protocol."),
        AGE,
        Column("Selector", lambda service, now: labels_text(_spec(service).get("selector")),
               wide=True, description="Which pods answer."),
    ),
    default=_default,
    prepare=prepare_service,
    validate=validate_service,
    validate_update=validate_service_update,
    warnings=service_warnings,
    fields=_fields,
)  # fmt: skip
