"""The defaults that a client sees in what it created."""

import copy
from typing import Any

import pytest

from shepherd.api.kinds import DEPLOYMENT, POD, REPLICA_SET, SERVICE
from shepherd.api.kinds.podspec import pull_policy


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "a", "image": "busybox:1"}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers} | spec}


def test_a_pod_gets_the_defaults_of_upstream() -> None:
    obj = pod()
    POD.default(obj)
    assert obj["spec"] == {
        "containers": [
            {
                "name": "a",
                "image": "busybox:1",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {},
            }
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "enableServiceLinks": True,
    }


def test_null_and_empty_count_as_absent() -> None:
    obj = pod(restartPolicy="", dnsPolicy=None, securityContext=None)
    POD.default(obj)
    assert obj["spec"]["restartPolicy"] == "Always"
    assert obj["spec"]["dnsPolicy"] == "ClusterFirst"
    assert obj["spec"]["securityContext"] == {}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("registry:5000/nginx", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
        ("nginx:latest@sha256:abc", "Always"),
    ],
)
def test_the_tag_decides_when_an_image_is_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_ports_probes_and_variables() -> None:
    container = {
        "name": "a",
        "image": "a:1",
        "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": 80}},
        "livenessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 3},
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    }
    obj = pod(containers=[container])
    POD.default(obj)
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    timing = {"timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}
    assert container["readinessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 10, **timing,
    }  # fmt: skip
    assert container["livenessProbe"] == {"tcpSocket": {"port": 80}, "periodSeconds": 3, **timing}
    env: Any = container["env"]
    assert env[0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"


def test_volumes() -> None:
    volumes: list[dict[str, Any]] = [
        {"name": "scratch"},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "key", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "host", "hostPath": {"path": "/var"}},
        {"name": "all", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
    ]
    POD.default(pod(volumes=volumes))
    assert volumes[0]["emptyDir"] == {}
    assert volumes[1]["configMap"]["defaultMode"] == 0o644
    assert volumes[2]["secret"]["defaultMode"] == 0o400
    assert volumes[3]["hostPath"]["type"] == ""
    token = volumes[4]["projected"]["sources"][0]["serviceAccountToken"]
    assert token["expirationSeconds"] == 3600


def test_requests_follow_limits_in_a_pod_and_not_in_a_template() -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}
    obj = pod(containers=[{"name": "a", "image": "a:1", "resources": copy.deepcopy(resources)}])
    deployment = {"spec": {"template": copy.deepcopy(obj)}}
    POD.default(obj)
    requests = obj["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "100m", "memory": "1Gi"}
    DEPLOYMENT.default(deployment)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["resources"] == resources


def test_ports_of_a_pod_on_the_host_network_are_the_hosts() -> None:
    container = {"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}
    POD.default(pod(hostNetwork=True, containers=[container]))
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]


def test_a_deployment_rolls_by_a_quarter() -> None:
    obj: dict[str, Any] = {"metadata": {}, "spec": {"template": pod()}}
    DEPLOYMENT.default(obj)
    spec = obj["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (
        1, 10, 600,
    )  # fmt: skip
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert spec["template"]["spec"]["dnsPolicy"] == "ClusterFirst"


def test_a_replica_set_always_tells_its_replicas() -> None:
    obj: dict[str, Any] = {"spec": {}}
    REPLICA_SET.default(obj)
    assert obj == {"spec": {"replicas": 1}, "status": {"replicas": 0}}


def test_a_service() -> None:
    obj: dict[str, Any] = {"spec": {"ports": [{"port": 80}, {"port": 53, "targetPort": "dns"}]}}
    SERVICE.default(obj)
    assert obj["spec"] == {
        "ports": [
            {"port": 80, "protocol": "TCP", "targetPort": 80},
            {"port": 53, "protocol": "TCP", "targetPort": "dns"},
        ],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    }
    assert obj["status"] == {"loadBalancer": {}}


def test_defaults_are_idempotent() -> None:
    obj: dict[str, Any] = {"metadata": {}, "spec": {"template": pod(volumes=[{"name": "v"}])}}
    DEPLOYMENT.default(obj)
    before = copy.deepcopy(obj)
    DEPLOYMENT.default(obj)
    assert obj == before
