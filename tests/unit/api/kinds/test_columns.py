"""The rows of `kubectl get`, kind by kind, as upstream's printers write them."""

from typing import Any

import pytest

from shepherd.api.kinds import RESOURCES
from shepherd.api.meta import parse_time

BORN = "2026-01-01T00:00:00Z"
NOW = parse_time(BORN) + 90
BY_KIND = {resource.kind: resource for resource in RESOURCES}
TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}}


def row(kind: str, obj: dict[str, Any], *, wide: bool = False) -> dict[str, Any]:
    """Column name to cell, without AGE (always 90s here)."""
    obj = {"metadata": {"name": "x", "creationTimestamp": BORN}} | obj
    columns = BY_KIND[kind].columns
    cells = {c.name: c.cell(obj, NOW) for c in columns if wide or not c.wide}
    assert cells.pop("Age", "90s") == "90s"
    return cells


def test_deployment() -> None:
    selector = {"matchLabels": {"app": "web"}}
    obj = {
        "spec": {"replicas": 3, "selector": selector, "template": TEMPLATE},
        "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
    }
    assert row("Deployment", obj) == {"Ready": "2/3", "Up-to-date": 3, "Available": 1}
    wide = row("Deployment", obj, wide=True)
    assert list(wide.items())[3:] == [
        ("Containers", "a,b"), ("Images", "a:1,b:2"), ("Selector", "app=web"),
    ]  # fmt: skip


def test_replica_set() -> None:
    obj = {"spec": {"replicas": 2}, "status": {"replicas": 1}}
    assert row("ReplicaSet", obj) == {"Desired": 2, "Current": 1, "Ready": 0}


def test_pod_wide() -> None:
    obj = {"spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "lb"}]}, "status": {}}
    wide = list(row("Pod", obj, wide=True).items())[3:]
    assert wide == [
        ("IP", "<none>"), ("Node", "n1"), ("Nominated Node", "<none>"), ("Readiness Gates", "0/1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "status", "external", "ports"),
    [
        ({"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}, {}, "<none>", "80/TCP"),
        (
            {"type": "NodePort", "ports": [{"port": 53, "protocol": "UDP", "nodePort": 30053}]},
            {}, "<none>", "53:30053/UDP",
        ),
        ({"type": "LoadBalancer"}, {}, "<pending>", "<none>"),
        (
            {"type": "LoadBalancer", "externalIPs": ["192.0.2.1"]},
            {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}, "192.0.2.9,192.0.2.1", "<none>",
        ),
        ({"type": "ExternalName", "externalName": "a.example"}, {}, "a.example", "<none>"),
    ],
)  # fmt: skip
def test_service(spec: Any, status: Any, external: str, ports: str) -> None:
    cells = row("Service", {"spec": spec, "status": status}, wide=True)
    assert (cells["External-IP"], cells["Port(s)"]) == (external, ports)
    assert (cells["Type"], cells["Cluster-IP"], cells["Selector"]) == (
        spec["type"], "<none>", "<none>",
    )  # fmt: skip


def test_node() -> None:
    obj: dict[str, Any] = {
        "metadata": {
            "creationTimestamp": BORN,
            "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"},
        },
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1", "osImage": "Debian"},
        },
    }
    assert row("Node", obj, wide=True) == {
        "Status": "Ready,SchedulingDisabled",
        "Roles": "edge,worker",
        "Version": "v1",
        "Internal-IP": "10.0.0.1",
        "External-IP": "<none>",
        "OS-Image": "Debian",
        "Kernel-Version": "<unknown>",
        "Container-Runtime": "<unknown>",
    }
    assert row("Node", {})["Status"] == "Unknown"
    obj["status"]["conditions"][0]["status"] = "Unknown"
    assert row("Node", obj)["Status"] == "NotReady,SchedulingDisabled"


def test_event() -> None:
    obj = {
        "involvedObject": {"kind": "Pod", "name": "web-1", "fieldPath": "spec.containers{web}"},
        "type": "Warning",
        "reason": "BackOff",
        "message": "restarting\n",
        "source": {"component": "agent", "host": "n1"},
        "firstTimestamp": BORN,
        "lastTimestamp": "2026-01-01T00:01:00Z",
        "count": 4,
    }
    assert row("Event", obj, wide=True) == {
        "Last Seen": "30s",
        "Type": "Warning",
        "Reason": "BackOff",
        "Object": "pod/web-1",
        "Subobject": "spec.containers{web}",
        "Source": "agent, n1",
        "Message": "restarting",
        "First Seen": "90s",
        "Count": 4,
        "Name": "x",
    }


def test_an_event_of_the_new_form_tells_its_own_time() -> None:
    obj = {"eventTime": "2026-01-01T00:01:20.000000Z", "reportingComponent": "scheduler"}
    cells = row("Event", obj, wide=True)
    assert (cells["Last Seen"], cells["Count"], cells["Source"]) == ("10s", 1, "scheduler")


def test_endpoints_name_three_and_count_the_rest() -> None:
    addresses = [{"ip": f"10.0.0.{n}"} for n in range(1, 6)]
    obj: dict[str, Any] = {"subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]}
    text = "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more..."
    assert row("Endpoints", obj) == {"Endpoints": text}
    assert row("Endpoints", {}) == {"Endpoints": "<none>"}


def test_small_kinds() -> None:
    assert row("Namespace", {"status": {"phase": "Active"}}) == {"Status": "Active"}
    assert row("ConfigMap", {"data": {"a": ""}, "binaryData": {"b": ""}}) == {"Data": 2}
    assert row("Secret", {"type": "Opaque"}) == {"Type": "Opaque", "Data": 0}
    assert row("ServiceAccount", {}) == {"Secrets": 0}
    assert row("Lease", {"spec": {"holderIdentity": "n1"}}) == {"Holder": "n1"}
    slice_ = {"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["::1"]}]}
    assert row("EndpointSlice", slice_) == {
        "AddressType": "IPv4", "Ports": "80", "Endpoints": "::1",
    }  # fmt: skip
    assert row("EndpointSlice", {})["Ports"] == "<unset>"


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.kind)
def test_every_cell_takes_an_empty_object(resource: Any) -> None:
    for column in resource.columns:
        assert column.cell({}, NOW) is not None
    assert all(isinstance(value, str) for value in resource.fields({}).values())
