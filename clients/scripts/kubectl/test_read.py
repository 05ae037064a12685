"""Commands that read: version, discovery, get in all its forms, describe, explain, events, auth."""

import json
import re
import subprocess

import pytest
from clients.scripts.kubectl.program import Kubectl, deployment, pod


def test_version(anywhere: Kubectl) -> None:
    server = json.loads(anywhere("version", "-o", "json"))["serverVersion"]
    assert (server["major"], server["minor"]) == ("1", "37")
    assert server["gitVersion"].startswith("v1.37")


def test_api_resources_and_versions(anywhere: Kubectl) -> None:
    lines = anywhere("api-resources", "--no-headers", "--api-group=").splitlines()
    rows = {line.split()[0]: line.split() for line in lines}
    assert rows["pods"] == ["pods", "po", "v1", "true", "Pod"]
    assert rows["nodes"][-2:] == ["false", "Node"]
    assert {"v1", "apps/v1", "events.k8s.io/v1"} <= set(anywhere("api-versions").split())
    if anywhere.minor >= 26:
        names = anywhere("api-resources", "--categories=all", "-o", "name").split()
        assert {"pods", "deployments.apps", "replicasets.apps", "services"} <= set(names)


def test_get_as_table(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "one", "--from-literal=a=b")
    kubectl("create", "configmap", "two")
    head, _, one, *_ = kubectl("get", "configmaps").splitlines()
    assert head.split() == ["NAME", "DATA", "AGE"]
    assert re.fullmatch(r"one +1 +\d+s", one)
    everywhere = kubectl("get", "cm", "-A").splitlines()
    assert everywhere[0].split() == ["NAMESPACE", "NAME", "DATA", "AGE"]
    assert any(line.split()[:3] == [kubectl.namespace, "two", "0"] for line in everywhere)
    assert kubectl("get", "cm", "--chunk-size=1", "--no-headers").count("\n") == 3
    assert "one" not in kubectl("get", "cm", "--field-selector=metadata.name!=one")
    kubectl("label", "cm", "two", "colour=red")
    chosen = kubectl("get", "cm", "-l", "colour in (red, blue)", "-L", "colour", "--no-headers")
    assert re.fullmatch(r"two +0 +\d+s +red\n", chosen)
    labelled = kubectl("get", "cm", "one", "--show-labels").splitlines()
    assert labelled[0].split()[-1] == "LABELS"
    assert labelled[1].split()[-1] == "<none>"


def test_get_sorted_and_server_print(kubectl: Kubectl) -> None:
    for name in ("b", "a"):
        kubectl("create", "configmap", name)
    ordered = kubectl("get", "cm", "--sort-by=.metadata.creationTimestamp", "--no-headers")
    assert {line.split()[0] for line in ordered.splitlines()} == {"a", "b", "kube-root-ca.crt"}
    by_name = kubectl("get", "cm", "--sort-by=.metadata.name", "--no-headers")
    assert [line.split()[0] for line in by_name.splitlines()] == ["a", "b", "kube-root-ca.crt"]
    plain = kubectl("get", "cm", "a", "--server-print=false").splitlines()
    assert plain[0].split() == ["NAME", "AGE"]


def test_get_in_other_forms(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "one", "--from-literal=a=b")
    assert kubectl("get", "cm/one", "-o", "jsonpath={.data.a}") == "b"
    assert kubectl("get", "cm", "one", "-o", "name") == "configmap/one\n"
    assert "  a: b\n" in kubectl("get", "cm", "one", "-o", "yaml")
    assert kubectl.get("cm")["kind"] == "List"
    columns = kubectl("get", "cm", "one", "-o", "custom-columns=N:.metadata.name,A:.data.a")
    assert columns.split() == ["N", "A", "one", "b"]
    assert kubectl("get", "cm", "one", "-o", "go-template={{.data.a}}") == "b"
    assert kubectl("get", "cm", "none", code=1) == (
        'Error from server (NotFound): configmaps "none" not found\n'
    )
    assert kubectl("get", "cm", "none", "--ignore-not-found") == ""
    assert "doesn't have a resource type" in kubectl("get", "sheep", code=1)


@pytest.mark.since(24)
def test_get_a_subresource(kubectl: Kubectl) -> None:
    kubectl.apply(deployment(replicas=0))
    scale = json.loads(kubectl("get", "deploy", "web", "--subresource=scale", "-o", "json"))
    assert scale["kind"] == "Scale"
    assert not scale["spec"].get("replicas")
    status = json.loads(kubectl("get", "deploy", "web", "--subresource=status", "-o", "json"))
    assert status["kind"] == "Deployment"


def test_get_watches(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "one")
    watching = kubectl.start("get", "cm", "one", "-w", "--no-headers")
    assert watching.stdout is not None
    assert watching.stdout.readline().split()[:2] == ["one", "0"]
    kubectl("patch", "cm", "one", "-p", '{"data":{"a":"b"}}')
    assert watching.stdout.readline().split()[:2] == ["one", "1"]
    watching.kill()
    watching.wait()
    whole = kubectl.start("get", "cm", "-w", "-o", "jsonpath={.metadata.name}{.data.a}|")
    assert whole.stdout is not None
    kubectl("patch", "cm", "one", "-p", '{"data":{"a":"c"}}')
    told = ""
    while "onec|" not in told:
        told += whole.stdout.read(1)
    whole.kill()
    whole.wait()


def test_get_raw(kubectl: Kubectl) -> None:
    path = f"/api/v1/namespaces/{kubectl.namespace}/configmaps"
    body = json.dumps({"metadata": {"name": "raw"}, "data": {"a": "b"}})
    made = json.loads(kubectl("create", "--raw", path, "-f", "-", stdin=body))
    assert made["data"] == {"a": "b"}
    found = json.loads(kubectl("get", "--raw", f"{path}/raw"))
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert kubectl("get", "--raw", "/healthz") == "ok"


def test_get_all(kubectl: Kubectl) -> None:
    kubectl.apply(deployment(replicas=1))
    kubectl("wait", "--for=condition=Available", "deploy/web", "--timeout=30s")
    shown = kubectl("get", "all")
    assert re.search(r"pod/web-\w+-\w+ +1/1 +Running", shown)
    assert re.search(r"deployment.apps/web +1/1 +1 +1", shown)
    assert re.search(r"replicaset.apps/web-\w+ +1 +1 +1", shown)


def test_describe(kubectl: Kubectl) -> None:
    kubectl.apply(deployment())
    kubectl("wait", "--for=condition=Available", "deploy/web", "--timeout=30s")
    kubectl("expose", "deploy", "web", "--port=80")
    shown = kubectl("describe", "deployment", "web")
    assert "1 desired | 1 updated | 1 total | 1 available | 0 unavailable" in shown
    assert "ScalingReplicaSet" in shown
    pods = kubectl("describe", "pods", "-l", "app=web")
    assert re.search(r"Status: +Running", pods)
    assert "Started" in pods
    service = kubectl("describe", "service", "web")
    assert re.search(r"Endpoints: +10\.\d+\.\d+\.\d+:80", service)
    (node,) = kubectl.get("nodes")["items"]
    described = kubectl("describe", "node", node["metadata"]["name"])
    assert f"{kubectl.namespace}" in described
    assert "Allocated resources:" in described
    kubectl("create", "quota", "limit", "--hard=pods=9")
    namespace = kubectl("describe", "namespace", kubectl.namespace)
    assert re.search(r"Status: +Active", namespace)
    assert re.search(r"Resource Quotas\n +Name: +limit\n", namespace)


def test_explain(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "deployment.spec.replicas")
    assert re.search(r"FIELD: +replicas <integer>", shown)
    assert "containers" in kubectl("explain", "pod.spec", "--recursive")
    if kubectl.minor >= 27:
        older = kubectl("explain", "deployment.spec.replicas", "--output=plaintext-openapiv2")
        assert re.search(r"FIELD: +replicas <integer>", older)
    if kubectl.minor >= 27:  # the form of those before it
        old = kubectl("explain", "deployment.spec", "--output=plaintext-openapiv2")
        assert "replicas\t<integer>" in old


@pytest.mark.since(26)
def test_events(kubectl: Kubectl) -> None:
    kubectl.apply(pod())
    kubectl("wait", "--for=condition=Ready", "pod/box", "--timeout=30s")
    shown = kubectl("events", "--for", "pod/box")
    assert shown.splitlines()[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert re.search(r"Normal +Scheduled +Pod/box +Successfully assigned", shown)


def test_auth(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    if kubectl.minor >= 28:
        assert "shepherd-admin" in kubectl("auth", "whoami")


def test_auth_of_others(kubectl: Kubectl) -> None:
    robot = f"--as=system:serviceaccount:{kubectl.namespace}:default"
    assert kubectl("auth", "can-i", "get", "pods", robot, code=1, out=True) == "no\n"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader", "namespace": kubectl.namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    reconciled = kubectl("auth", "reconcile", "-f", "-", stdin=json.dumps(role))
    assert "role.rbac.authorization.k8s.io/reader reconciled" in reconciled
    kubectl("create", "rolebinding", "readers", "--role=reader", "--user=eve")
    subject = f"--serviceaccount={kubectl.namespace}:default"
    told = kubectl("set", "subject", "rolebinding", "readers", subject)
    assert told == "rolebinding.rbac.authorization.k8s.io/readers subjects updated\n"
    assert kubectl("auth", "can-i", "get", "pods", robot) == "yes\n"
    assert "Forbidden" in kubectl("get", "secrets", robot, code=1)


def test_cluster_info(anywhere: Kubectl) -> None:
    shown = re.sub(r"\x1b\[[\d;]*m", "", anywhere("cluster-info"))
    assert re.match(r"Kubernetes control plane is running at https://[\d.:]+\n", shown)


def test_top(kubectl: Kubectl) -> None:
    kubectl.apply(pod())
    kubectl("wait", "--for=condition=Ready", "pod/box", "--timeout=30s")
    head, line = kubectl("top", "node").splitlines()
    assert head.split()[0] == "NAME"
    assert re.search(r"\d+m +\d+% +\d+Mi +\d+%", line)
    assert re.search(r"box +\d+m +\d+Mi", kubectl("top", "pod"))


def test_proxy(kubectl: Kubectl) -> None:
    proxy = kubectl.start("proxy", "--port=0")
    assert proxy.stdout is not None
    found = re.search(r"127\.0\.0\.1:(\d+)", proxy.stdout.readline())
    assert found
    url = f"http://{found[0]}/api/v1/namespaces/{kubectl.namespace}"
    answer = subprocess.run(
        ["busybox", "wget", "-q", "-O", "-", url], capture_output=True, check=True, text=True
    )
    assert json.loads(answer.stdout)["metadata"]["name"] == kubectl.namespace
    proxy.kill()
    proxy.wait()
