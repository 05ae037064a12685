"""kubectl 1.37 on the kinds beyond the first dozen: create commands (protobuf bodies), questions
about oneself, tokens, certificates, drain."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from shepherd.client.kubeconfig import write_kubeconfig
from shepherd.lib.certificates import Workshop

OLD_AUTOSCALERS = "horizontalpodautoscalers.v1.autoscaling"
pytestmark = pytest.mark.parametrize("served", ["tls"], indirect=True)


async def get(served: Any, *what: str) -> Any:
    return json.loads(await served.kubectl("get", *what, "-o", "json"))


async def test_batch_and_policy_kinds_are_created_by_command(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "job", "once", "--image=busybox", "--", "true")
    job = await get(served, "job", "once")
    labels = job["spec"]["template"]["metadata"]["labels"]
    uid = job["metadata"]["uid"]
    assert labels["batch.kubernetes.io/controller-uid"] == labels["controller-uid"] == uid
    assert job["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    assert job["spec"]["backoffLimit"] == 6
    await kubectl("create", "cronjob", "often", "--image=busybox", "--schedule=*/5 * * * *")
    await kubectl("create", "job", "now", "--from=cronjob/often")
    row = (await kubectl("get", "cronjob", "often", "--no-headers")).split()
    assert row[:7] == ["often", "*/5", "*", "*", "*", "*", "<none>"]
    await kubectl("create", "quota", "small", "--hard=pods=3,requests.cpu=2")
    assert (await get(served, "quota", "small"))["spec"]["hard"]["pods"] == "3"
    await kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=1")
    row = (await kubectl("get", "pdb", "web", "--no-headers")).split()
    assert row[:4] == ["web", "1", "N/A", "0"]
    bad = await kubectl("create", "cronjob", "x", "--image=a", "--schedule=nine", code=1)
    assert "expected exactly 5 fields, found 1: [nine]" in bad


async def test_network_access_and_priority_kinds_are_created_by_command(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "ingress", "web", "--rule=a.example/x*=web:80", "--class=nginx")
    row = (await kubectl("get", "ingress", "web", "--no-headers")).split()
    assert row[:4] == ["web", "nginx", "a.example", "80"]
    await kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    await kubectl("create", "rolebinding", "r", "--role=reader", "--user=eve")
    await kubectl("create", "clusterrole", "r", "--verb=get", "--resource=nodes")
    await kubectl("create", "clusterrolebinding", "r", "--clusterrole=r", "--group=ops")
    wide = await kubectl("get", "rolebinding", "r", "-o", "wide", "--no-headers")
    assert wide.split()[1] == "Role/reader"
    assert "eve" in wide
    await kubectl("create", "priorityclass", "gold", "--value=1000", "--global-default")
    classes = await kubectl("get", "pc", "--no-headers")
    assert [line.split()[:3] for line in classes.splitlines()] == [
        ["gold", "1000", "true"],
        ["system-cluster-critical", "2000000000", "false"],
        ["system-node-critical", "2000001000", "false"],
    ]
    await kubectl("run", "p", "--image=busybox")
    spec = (await get(served, "pod", "p"))["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (1000, "gold")


async def test_a_deployment_is_autoscaled_and_read_in_both_versions(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "deployment", "web", "--image=web:1")
    await kubectl("autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu=70%")
    row = (await kubectl("get", "hpa", "web", "--no-headers")).split()
    assert row[:7] == ["web", "Deployment/web", "cpu:", "<unknown>/70%", "2", "5", "0"]
    old = json.loads(await kubectl("get", OLD_AUTOSCALERS, "web", "-o", "json"))
    assert old["apiVersion"] == "autoscaling/v1"
    assert old["spec"]["targetCPUUtilizationPercentage"] == 70
    patch = '{"spec":{"targetCPUUtilizationPercentage":50}}'
    await kubectl("patch", OLD_AUTOSCALERS, "web", "--type=merge", "-p", patch)
    new = await get(served, "hpa", "web")
    assert new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50


async def test_what_nothing_acts_on_yet_is_said(served: Any) -> None:
    process = await served.start_kubectl("create", "quota", "q", "--hard=pods=1")
    _, err = await process.communicate()
    assert err.decode() == (
        "Warning: ResourceQuota: accepted, and not acted on by this version of Shepherd\n"
    )


async def test_kubectl_asks_who_it_is_and_what_it_may(served: Any) -> None:
    kubectl = served.kubectl
    assert "shepherd-admin" in await kubectl("auth", "whoami")
    assert await kubectl("auth", "can-i", "delete", "nodes") == "yes\n"
    assert "[*]" in await kubectl("auth", "can-i", "--list")
    assert await kubectl("auth", "can-i", "get", "/metrics") == "yes\n"


async def test_a_token_is_made_and_works_until_what_it_is_bound_to_is_gone(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "serviceaccount", "robot")
    await kubectl("run", "p", "--image=busybox", '--overrides={"spec":{"serviceAccount":"robot"}}')
    bound = ("--bound-object-kind=Pod", "--bound-object-name=p")
    token = (await kubectl("create", "token", "robot", *bound, "--duration=30m")).strip()
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["exp"] - claims["iat"] == 1800
    assert claims["kubernetes.io"]["pod"]["name"] == "p"
    config = replace(served.config, certificate="", key="", token=token)
    write_kubeconfig(served.home / "robot", config)
    as_robot = ("--kubeconfig", str(served.home / "robot"))
    assert "system:serviceaccount:default:robot" in await kubectl("auth", "whoami", *as_robot)
    await kubectl("auth", "can-i", "get", "pods", *as_robot, code=1)
    refused = await kubectl("get", "pods", *as_robot, code=1)
    assert 'User "system:serviceaccount:default:robot" cannot list resource "pods"' in refused
    await kubectl("delete", "pod", "p", "--wait=false")
    assert "Unauthorized" in await kubectl("auth", "whoami", *as_robot, code=1)
    short = await kubectl("create", "token", "robot", "--duration=5m", code=1)
    assert "may not specify a duration less than 10 minutes" in short


async def test_a_certificate_is_asked_for_approved_and_issued(served: Any) -> None:
    kubectl = served.kubectl
    with Workshop() as workshop:
        _, request = workshop.new_request("eve")
    body: dict[str, Any] = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "eve"},
        "spec": {
            "request": base64.b64encode(request.encode()).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
            "username": "somebody-else",
        },
    }
    await kubectl("create", "-f", "-", stdin=json.dumps(body))
    row = (await kubectl("get", "csr", "eve", "--no-headers")).split()
    assert row[2:] == ["kubernetes.io/kube-apiserver-client", "shepherd-admin", "<none>", "Pending"]
    await kubectl("certificate", "approve", "eve")
    found = await get(served, "csr", "eve")
    certificate = base64.b64decode(found["status"]["certificate"]).decode()
    assert certificate.startswith("-----BEGIN CERTIFICATE-----")
    assert "Approved,Issued" in await kubectl("get", "csr", "eve")
    # A node's certificate is not given to everyone who asks.
    body["metadata"] = {"name": "n1"}
    body["spec"]["signerName"] += "-kubelet"
    await kubectl("create", "-f", "-", stdin=json.dumps(body))
    await kubectl("certificate", "approve", "n1")
    assert "Approved,Failed" in await kubectl("get", "csr", "n1")


async def test_every_kind_is_listed_once_with_its_short_name(served: Any) -> None:
    lines = (await served.kubectl("api-resources", "--no-headers")).splitlines()
    listed = {line.split()[0]: line.split() for line in lines}
    assert len(lines) >= 68
    for plural, short in (("statefulsets", "sts"), ("persistentvolumeclaims", "pvc"),
                          ("networkpolicies", "netpol"), ("storageclasses", "sc"),
                          ("certificatesigningrequests", "csr"), ("cronjobs", "cj")):  # fmt: skip
        assert listed[plural][1] == short
    components = await served.kubectl("get", "componentstatuses", "--no-headers")
    assert components.split("\n")[0].split() == ["controller-manager", "Healthy", "ok"]
    core = json.loads(await served.kubectl("get", "--raw", "/api/v1"))
    (eviction,) = (r for r in core["resources"] if r["name"] == "pods/eviction")
    assert (eviction["group"], eviction["version"], eviction["kind"]) == (
        "policy", "v1", "Eviction",
    )  # fmt: skip
