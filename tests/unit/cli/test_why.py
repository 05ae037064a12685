"""`sheepctl why`: why an object is pending, not ready or still there."""

import time
from typing import Any

import pytest

from shepherd.api.kinds import CONFIG_MAP, POD
from shepherd.api.meta import format_time
from shepherd.api.resource import Object, Resource
from shepherd.cli.reasons import (
    conditions,
    held_back,
    lines,
    not_running,
    staying,
    unplaced,
    warnings,
)

SITE = Resource("example.com", "v1", "Site", "sites")
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
NODE = READY | {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "110"}}


def spec(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a", "image": "a:1"} | container]}


def owner(obj: dict[str, Any], kind: str, version: str = "apps/v1") -> dict[str, Any]:
    meta = obj["metadata"]
    return {
        "apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"],
        "controller": True,
    }  # fmt: skip


def test_a_pending_pod_names_every_node_and_who_holds_the_port(sheepctl: Any) -> None:
    """kubernetes/kubernetes#91340; kubernetes/ingress-nginx#4626: the holder of the port is
    named."""
    port = {"containerPort": 80, "hostPort": 80}
    for name in ("n1", "n2"):
        sheepctl.given("Node", name, status=NODE)
    old = sheepctl.given("Pod", "old", spec=spec(ports=[port]))
    sheepctl.bind(old, "n1")
    new = spec(ports=[port], resources={"requests": {"cpu": "2"}})
    sheepctl.given("Pod", "new", spec=new)
    assert sheepctl("why", "pod/new").out.splitlines() == [
        "pod/new: Pending, 0 of 1 containers ready",
        "  none of 2 nodes can take it",
        "    n1: NodePorts: node(s) didn't have free ports for the requested pod ports "
        "(80/TCP is held by default/old); "
        "NodeResourcesFit: Insufficient cpu (2 cpu asked for, 1 free)",
        "    n2: NodeResourcesFit: Insufficient cpu (2 cpu asked for, 1 free)",
    ]


def test_who_may_not_see_the_nodes_reads_what_the_scheduler_said(sheepctl: Any) -> None:
    unfit = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.",
    }  # fmt: skip
    sheepctl.given("Pod", "p", spec=spec(), status={"conditions": [unfit]})
    sheepctl.forbidden.add("/api/v1/nodes")
    out = sheepctl("why", "pod/p").out
    assert "0/3 nodes are available\n  - 1 Insufficient cpu\n  - 2 node(s) were" in out


def test_what_a_pod_waits_for_besides_a_node() -> None:
    assert lines(unplaced({"spec": {}}, {})) == ["there are no nodes"]
    gated = {"spec": {"schedulingGates": [{"name": "quota"}]}}
    assert "until these are removed: quota" in lines(unplaced(gated, {"n": []}))[0]
    free = {"spec": {"schedulerName": "mine"}}
    assert lines(unplaced(free, {"n": []})) == ["room on n: its scheduler is to bind it (mine)"]


def test_a_workload_tells_of_its_pods_those_with_one_cause_once(sheepctl: Any) -> None:
    sheepctl.given("Node", "n1", status=NODE)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec()}
    body = {"selector": {"matchLabels": {"app": "web"}}, "template": template, "replicas": 2}
    web = sheepctl.given("Deployment", "web", spec=body)
    owners = {"labels": {"app": "web"}, "ownerReferences": [owner(web, "Deployment")]}
    replicas = sheepctl.given("ReplicaSet", "web-1", spec=body, metadata=owners)
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "a:1"'}
    status = {
        "phase": "Pending",
        "containerStatuses": [
            {"name": "a", "image": "a:1", "imageID": "", "ready": False, "restartCount": 0,
             "state": {"waiting": waiting}}
        ],
    }  # fmt: skip
    metadata = {"labels": {"app": "web"}, "ownerReferences": [owner(replicas, "ReplicaSet")]}
    for name in ("web-1-a", "web-1-b"):
        pod = sheepctl.given("Pod", name, spec=spec(), metadata=metadata, status=status)
        sheepctl.bind(pod, "n1")
    out = sheepctl("why", "deployment", "web").out
    assert "  pod/web-1-a and 1 more: ImagePullBackOff, 0 of 1 containers ready\n" in out
    assert 'container a: Waiting (ImagePullBackOff): Back-off pulling image "a:1"' in out
    assert "web-1-b" not in out
    sheepctl.given("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
    assert "  none of its pods is ready\n    pod/web-1-a and" in sheepctl("why", "svc/web").out
    sheepctl.given("Service", "w", spec={"selector": {"app": "wep"}, "ports": [{"port": 80}]})
    assert "no pod has the labels that it selects: app=wep" in sheepctl("why", "svc/w").out


def test_a_container_that_crashed_tells_how_and_a_silent_node_is_named() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": ""}}
    container = {"name": "a", "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    pod = {
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "containerStatuses": [container | {"lastState": ended}]},
    }
    silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "message": "?"}]}}
    assert lines(not_running(pod, silent, 0.0)) == [
        'node "n1" is not Ready',
        "  Ready=Unknown: ?",
        "container a: Waiting (CrashLoopBackOff)",
        "  before that: Terminated (OOMKilled), exit code 137, <unknown> ago",
    ]


def test_a_pod_that_its_node_has_not_begun_with_tells_the_nodes_warnings(sheepctl: Any) -> None:
    sheepctl.given("Node", "n1", status=NODE)
    pod = sheepctl.given("Pod", "p", spec=spec())
    sheepctl.bind(pod, "n1")
    assert "  node n1 has told nothing of it yet\n" in sheepctl("why", "pod/p").out
    about = {"kind": "Pod", "namespace": "default", "name": "p", "uid": pod["metadata"]["uid"]}
    told = {"type": "Warning", "reason": "FailedMount", "message": "no such ConfigMap"}
    sheepctl.given("Event", "e", involvedObject=about, **told)
    assert "  FailedMount: no such ConfigMap (" in sheepctl("why", "pod/p").out


@pytest.mark.parametrize(
    ("reason", "message", "event"),
    [
        ("CreateContainerConfigError", 'configmap "x" not found', 'Error: configmap "x" not found'),
        ("ErrImagePull", "no such image", "Error: ErrImagePull"),
    ],
)
def test_a_warning_that_a_container_repeats_is_told_once(
    reason: str, message: str, event: str
) -> None:
    waiting = {"state": {"waiting": {"reason": reason, "message": message}}}
    pod = {"status": {"containerStatuses": [{"name": "a"} | waiting]}}

    def warning(reason: str, message: str) -> Object:
        return {"type": "Warning", "reason": reason, "message": message, "metadata": {}}

    told = warning("Failed", event)
    assert warnings([told, warning("BackOff", "Back-off restarting")], 0.0, known=pod) == []
    other = warning("Unhealthy", "Liveness probe failed")
    assert len(warnings([told, other], 0.0, known=pod)) == 1


def test_a_deleted_object_names_finalizer_and_age(sheepctl: Any) -> None:
    """zalando-incubator/kopf#75; ray-project/ray#21684: the operator is gone, its finalizer is
    not. The object stays, names it, and patching it away works at once."""
    held = {"finalizers": ["kopf.zalando.org/KopfFinalizerMarker"]}
    sheepctl.given("ConfigMap", "held", metadata=held)
    assert sheepctl("delete", "cm/held", "--no-wait").code == 0
    out = sheepctl("why", "cm/held").out
    assert "configmap/held: its deletion was asked for\n" in out
    assert 'finalizer "kopf.zalando.org/KopfFinalizerMarker" has held it for ' in out
    assert "kubectl patch configmap/held -n default --type=merge" in out
    free = {"metadata": {"finalizers": None}}
    sheepctl.ask(lambda client: client.patch(CONFIG_MAP, "held", "default", free))
    assert sheepctl("get", "cm", "held").code == 1


def test_a_pod_whose_node_cannot_stop_it() -> None:
    now = time.time()
    meta = {"name": "p", "namespace": "default", "deletionTimestamp": format_time(now - 300)}
    pod = {"metadata": meta, "spec": {"nodeName": "n1"}}
    silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Gone"}]}}
    [first, second] = lines(staying(POD, pod, silent, (), now))
    assert "if it is off for good: kubectl delete node n1" in first
    assert second == "  Ready=Unknown (Gone)"
    assert "is gone" in lines(staying(POD, pod, None, (), now))[0]


def test_a_terminating_namespace_names_what_remains_of_every_kind(sheepctl: Any) -> None:
    """kubernetes/kubernetes#60807, #19317, #77086: Terminating, with no cause shown. Objects of
    custom kinds are what it mostly hangs on."""
    sheepctl.given("Namespace", "team")
    sheepctl.given(
        "CustomResourceDefinition", "sites.example.com", metadata={"namespace": None},
        spec={
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "sites", "kind": "Site"},
            "versions": [{
                "name": "v1", "served": True, "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    )  # fmt: skip
    site = {
        "apiVersion": "example.com/v1", "kind": "Site",
        "metadata": {"name": "blog", "finalizers": ["example.com/hold"]},
    }  # fmt: skip
    sheepctl.ask(lambda client: client.create(SITE, site, "team"))
    sheepctl.ask(lambda client: client.delete(SITE, "blog", "team"))
    assert sheepctl("delete", "ns/team", "--no-wait").code == 0
    out = sheepctl("why", "namespace/team").out
    assert '  site.example.com/blog\n    finalizer "example.com/hold" has held it for ' in out
    assert "has held it for" in sheepctl("why", "site/blog", "-n", "team").out


def test_foreground_deletion_names_what_it_waits_for(sheepctl: Any) -> None:
    parent = sheepctl.given("ConfigMap", "parent")
    reference = owner(parent, "ConfigMap", "v1") | {"blockOwnerDeletion": True}
    sheepctl.given("Secret", "child", metadata={"ownerReferences": [reference]})
    sheepctl("delete", "cm/parent", "--cascade=foreground", "--no-wait")
    out = sheepctl("why", "cm/parent").out
    assert "it goes after all that it owns\n    secret/child\n" in out


def test_what_is_well_has_nothing_against_it(sheepctl: Any) -> None:
    sheepctl.given("ConfigMap", "c")
    assert sheepctl("why", "cm/c").out == "configmap/c\n  nothing stands against it\n"
    result = sheepctl("why", "cm/none")
    assert (result.code, result.out) == (1, "")


def test_what_the_spec_holds_back_and_an_unwell_phase_are_told(sheepctl: Any) -> None:
    assert lines(held_back({"spec": {"suspend": True}})) == [
        "it is suspended: spec.suspend is true"
    ]
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    sheepctl.given("PersistentVolumeClaim", "data", spec=claim, status={"phase": "Pending"})
    out = sheepctl("why", "pvc/data").out
    assert out == "persistentvolumeclaim/data: Pending\n  it is Pending: no cause is told\n"
    assert lines(held_back({"status": {"phase": "Active"}})) == []


def test_conditions_are_read_by_what_their_type_means() -> None:
    said = [
        {"type": "Available", "status": "False", "reason": "TooFew", "message": "1 of 2"},
        {"type": "ReplicaFailure", "status": "True", "reason": "Quota"},
        {"type": "DiskPressure", "status": "False"},
        {"type": "Progressing", "status": "True"},
    ]
    found = lines(conditions({"status": {"conditions": said}}))
    assert found == ["Available=False (TooFew): 1 of 2", "ReplicaFailure=True (Quota)"]
