"""What is refused of the other kinds, and what updates keep."""

import copy
from base64 import b64encode
from typing import Any

import pytest

from shepherd.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    ENDPOINTS,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    REPLICA_SET,
    SECRET,
    SERVICE,
)
from shepherd.api.kinds.daemonsets import DAEMON_SET
from shepherd.api.kinds.statefulsets import STATEFUL_SET
from shepherd.api.resource import Resource

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a", "image": "a:1"}]},
}


def found(resource: Resource, obj: dict[str, Any]) -> list[str]:
    obj = copy.deepcopy(obj)
    resource.default(obj)
    return [f"{error.field}: {error.message}" for error in resource.validate(obj)]


def changes(resource: Resource, obj: dict[str, Any], old: dict[str, Any]) -> list[str]:
    return [f"{error.field}: {error.message}" for error in resource.validate_update(obj, old)]


WORKLOADS = [DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET]


def deployment(**spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"metadata": {}, "spec": {"selector": selector, "template": TEMPLATE} | spec}


@pytest.mark.parametrize("resource", WORKLOADS, ids=lambda r: r.kind)
def test_a_sound_workload(resource: Resource) -> None:
    assert found(resource, deployment()) == []
    assert resource.warnings(deployment()) == []


@pytest.mark.parametrize("resource", WORKLOADS, ids=lambda r: r.kind)
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"selector": None}, "spec.selector: Required value"),
        ({"template": None}, "spec.template: Required value"),
        (
            {"selector": {}},
            "spec.selector: Invalid value: {}: empty selector is invalid for ",
        ),
        (
            {"selector": {"matchLabels": {"app": "other"}}},
            'spec.template.metadata.labels: Invalid value: {"app":"web"}: '
            "`selector` does not match template `labels`",
        ),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"template": TEMPLATE | {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}},
            'spec.template.spec.restartPolicy: Unsupported value: "Never": '
            'supported values: "Always"',
        ),
        (
            {"template": TEMPLATE | {"spec": {"containers": [{"name": "a"}]}}},
            "spec.template.spec.containers[0].image: Required value",
        ),
    ],
)
def test_workloads(resource: Resource, spec: dict[str, Any], message: str) -> None:
    assert any(text.startswith(message) for text in found(resource, deployment(**spec)))


@pytest.mark.parametrize("resource", WORKLOADS, ids=lambda r: r.kind)
def test_a_workload_keeps_its_selector(resource: Resource) -> None:
    """kubernetes/kubernetes#34466: another selector would leave its pods to nobody."""
    obj = deployment(selector={"matchLabels": {"app": "new"}})
    [message] = changes(resource, obj, deployment())
    fixed = 'spec.selector: Invalid value: {"matchLabels":{"app":"new"}}: field is immutable'
    forbidden = "spec: Forbidden: updates to statefulset spec for fields other than"
    assert message.startswith(forbidden if resource is STATEFUL_SET else fixed)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "0: cannot be 0"),
        ("0%", '"0%": cannot be 0'),
        (-1, "-1: must be greater than or equal to 0"),
        ("120%", '"120%": must not be greater than 100%'),
        ("half", '"half": a valid percent string must be a numeric string'),
    ],
)
def test_how_many_pods_of_a_stateful_set_may_be_missing(value: int | str, message: str) -> None:
    rolling = {"rollingUpdate": {"maxUnavailable": value}}
    [text] = found(STATEFUL_SET, deployment(updateStrategy=rolling))
    at = "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "
    assert text.startswith(at + message)


def test_who_asks_for_claims_is_told_that_nothing_fills_them() -> None:
    claim = {"metadata": {"name": "data"}}
    [warning] = STATEFUL_SET.warnings(deployment(volumeClaimTemplates=[claim]))
    assert warning.startswith("spec.volumeClaimTemplates: ")
    assert warning.endswith("pods with it do not start")


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (
            {"type": "Blue"},
            'spec.strategy.type: Unsupported value: "Blue": '
            'supported values: "Recreate", "RollingUpdate"',
        ),
        (
            {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
            "spec.strategy.rollingUpdate: Forbidden: "
            "may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}},
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": '
            "may not be 0 when `maxSurge` is 0",
        ),
        (
            {"rollingUpdate": {"maxUnavailable": "120%"}},
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "120%": '
            "must not be greater than 100%",
        ),
    ],
)
def test_strategies(strategy: dict[str, Any], message: str) -> None:
    assert message in found(DEPLOYMENT, deployment(strategy=strategy))


def test_pods_of_a_stateful_set_may_mount_its_claims_and_nothing_else_that_is_not_there() -> None:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("data", "none")]
    container = {"name": "a", "image": "a", "volumeMounts": mounts}
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip
    template = TEMPLATE | {"spec": {"containers": [container]}}
    obj = deployment(template=template, volumeClaimTemplates=[claim])
    STATEFUL_SET.default(obj)
    assert found(STATEFUL_SET, obj) == [
        'spec.template.spec.containers[0].volumeMounts[1].name: Not found: "none"'
    ]


@pytest.mark.parametrize(
    ("resource", "field"), [(DEPLOYMENT, "strategy"), (DAEMON_SET, "updateStrategy")]
)
def test_a_host_port_and_a_surge_are_warned_of(resource: Resource, field: str) -> None:
    """kubernetes/ingress-nginx#4626; rancher/rancher#14048: the new pod waits for the port of the
    old one."""
    container = {"name": "a", "image": "a", "ports": [{"containerPort": 80, "hostPort": 80}]}
    obj = deployment(template=TEMPLATE | {"spec": {"containers": [container]}})
    resource.default(obj)
    rolling = obj["spec"][field]["rollingUpdate"]
    rolling |= {"maxSurge": 1, "maxUnavailable": 0}
    [warning] = resource.warnings(obj)
    assert warning.startswith(f"spec.{field}.rollingUpdate.maxSurge: pods with a hostPort cannot ")
    assert warning.endswith("set maxSurge to 0 and maxUnavailable to 1")
    rolling["maxSurge"] = 0
    assert resource.warnings(obj) == []


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]} | spec}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"ports": []}, "spec.ports: Required value"),
        ({"ports": [{"port": 1}, {"port": 2, "name": "b"}]}, "spec.ports[0].name: Required value"),
        (
            {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]},
            'spec.ports[1]: Duplicate value: {"port":1,"protocol":"TCP"}',
        ),
        (
            {"ports": [{"port": 0}]},
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            {"ports": [{"port": 1, "nodePort": 30000}]},
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        (
            {"type": "Cluster"},
            'spec.type: Unsupported value: "Cluster": supported values: '
            '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
        ),
        ({"type": "ExternalName"}, "spec.externalName: Required value"),
        (
            {"type": "NodePort", "clusterIP": "None"},
            'spec.clusterIPs[0]: Invalid value: "None": '
            "may not be set to 'None' for NodePort services",
        ),
        (
            {"selector": {"app": "a b"}},
            'spec.selector: Invalid value: "a b": a valid label must be an empty string or consist '
            "of alphanumeric characters",
        ),
    ],
)
def test_services(spec: dict[str, Any], message: str) -> None:
    assert any(text.startswith(message) for text in found(SERVICE, service(**spec)))


def test_a_headless_service_needs_no_ports() -> None:
    assert found(SERVICE, service(ports=[], clusterIP="None")) == []


def test_a_service_keeps_its_address() -> None:
    old = service(type="ClusterIP", clusterIP="10.43.0.5", clusterIPs=["10.43.0.5"])
    obj = service(type="ClusterIP")
    SERVICE.prepare(obj, old)
    assert obj["spec"]["clusterIPs"] == ["10.43.0.5"]
    assert changes(SERVICE, obj, old) == []
    obj["spec"] |= {"clusterIP": "10.43.0.6", "clusterIPs": ["10.43.0.6"]}
    assert changes(SERVICE, obj, old) == [
        'spec.clusterIPs[0]: Invalid value: ["10.43.0.6"]: may not change once set'
    ]


def test_node_ports_stay_with_their_name_and_go_with_the_type() -> None:
    ports = [{"name": "a", "port": 80, "nodePort": 30080}]
    old = service(type="NodePort", clusterIP="10.43.0.5", ports=ports)
    obj = service(type="NodePort", ports=[{"name": "a", "port": 81}])
    SERVICE.prepare(obj, old)
    assert obj["spec"]["ports"] == [{"name": "a", "port": 81, "nodePort": 30080}]
    obj = service(type="ClusterIP", ports=copy.deepcopy(ports))
    SERVICE.prepare(obj, old)
    assert obj["spec"]["ports"] == [{"name": "a", "port": 80}]


def b64(text: str) -> str:
    return b64encode(text.encode()).decode()


def test_string_data_is_laid_over_data_and_not_kept() -> None:
    """kubernetes/kubernetes#89938: write-only, and laid over what data has.
    kubernetes/kubernetes#37216: an empty value is a value."""
    obj = {"data": {"a": b64("old"), "b": b64("b")}, "stringData": {"a": "new", "c": ""}}
    SECRET.default(obj)
    assert obj == {"type": "Opaque", "data": {"a": b64("new"), "b": b64("b"), "c": ""}}


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"data": {"a/b": ""}}, 'data[a/b]: Invalid value: "a/b": a valid config key must consist'),
        ({"data": {"a": b64("x" * (2**20 + 1))}}, "data: Too long: may not be more than 1048576"),
        ({"type": "kubernetes.io/tls"}, "data[tls.crt]: Required value"),
        ({"type": "kubernetes.io/basic-auth"}, "data[username]: Required value"),
        (
            {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": b64("{")}},
            'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>"',
        ),
    ],
)
def test_secrets(obj: dict[str, Any], message: str) -> None:
    assert any(text.startswith(message) for text in found(SECRET, obj))


def test_config_maps() -> None:
    assert found(CONFIG_MAP, {"data": {"a": "x", "b.c-d_e": ""}}) == []
    assert found(CONFIG_MAP, {"data": {"..": ""}}) == [
        "data[..]: Invalid value: \"..\": must not be '..'"
    ]
    assert found(CONFIG_MAP, {"data": {"a": "x"}, "binaryData": {"a": ""}}) == [
        'data[a]: Invalid value: "a": duplicate of key present in binaryData'
    ]
    big = {"a": "ä" * 2**19, "b": "x"}
    assert found(CONFIG_MAP, {"data": big}) == [": Too long: may not be more than 1048576 bytes"]


@pytest.mark.parametrize("resource", [CONFIG_MAP, SECRET], ids=lambda r: r.kind)
def test_immutable_data(resource: Resource) -> None:
    old = {"immutable": True, "data": {"a": "YQ=="}}
    assert changes(resource, old | {"metadata": {}}, old) == []
    assert changes(resource, {"data": {}}, old) == [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ]


def test_a_secret_keeps_its_type() -> None:
    assert changes(SECRET, {"type": "b"}, {"type": "a"}) == [
        'type: Invalid value: "b": field is immutable'
    ]


def test_nodes() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    assert found(NODE, {"spec": {"taints": [taint]}}) == []
    assert found(NODE, {"spec": {"taints": [taint, taint]}}) == [
        'spec.taints[1]: Duplicate value: {"key":"a","effect":"NoSchedule"}'
    ]
    assert found(NODE, {"spec": {"taints": [{"key": "a"}]}}) == [
        "spec.taints[0].effect: Required value"
    ]
    old = {"spec": {"podCIDRs": ["10.42.0.0/24"]}}
    assert changes(NODE, old, {"spec": {}}) == []
    assert changes(NODE, {"spec": {}}, old)[0].startswith("spec.podCIDRs: Forbidden: node updates")


def test_a_namespace_is_held_until_its_content_is_gone() -> None:
    obj: dict[str, Any] = {"metadata": {"name": "a"}}
    NAMESPACE.default(obj)
    NAMESPACE.prepare(obj, None)
    assert obj["spec"] == {"finalizers": ["kubernetes"]}
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}
    update: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {}}
    NAMESPACE.prepare(update, obj)
    assert update["spec"] == {"finalizers": ["kubernetes"]}


def test_an_event_lies_in_the_namespace_of_its_object() -> None:
    obj = {"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "b"}}
    assert found(EVENT, obj) == [
        'involvedObject.namespace: Invalid value: "b": does not match event.namespace'
    ]
    cluster = {"metadata": {"namespace": "default"}, "involvedObject": {"kind": "Node"}}
    assert found(EVENT, cluster) == []


def test_leases_endpoints_and_slices() -> None:
    assert found(LEASE, {"spec": {"leaseDurationSeconds": 0}}) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]
    assert found(ENDPOINTS, {"subsets": [{"addresses": [{"ip": "x"}]}]})[0].startswith(
        'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address'
    )
    assert found(ENDPOINT_SLICE, {}) == ["addressType: Required value"]
    slice_ = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}
    assert found(ENDPOINT_SLICE, slice_) == []
    assert changes(ENDPOINT_SLICE, slice_, slice_ | {"addressType": "IPv6"}) == [
        'addressType: Invalid value: "IPv4": field is immutable'
    ]
