"""Pods that ask for what cannot be: each is told why, and the node goes on."""

from typing import Any

import pytest

from shepherd.testing.program import Program, eventually

IMAGE = "shepherd.local/demo:1"
NUL = "a\0b"


def mounted(volume: dict[str, Any], **mount: Any) -> dict[str, Any]:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/v"} | mount]}
    return {"containers": [container], "volumes": [{"name": "v"} | volume]}


ODD: dict[str, dict[str, Any]] = {
    "command": {"containers": [{"command": [NUL]}]},
    "directory": {"containers": [{"workingDir": f"/{NUL}"}]},
    "variable": {"containers": [{"env": [{"name": "A", "value": NUL}]}]},
    "message": {"containers": [{"terminationMessagePath": f"/{NUL}"}]},
    "mount": mounted({"emptyDir": {}}, mountPath=f"/{NUL}"),
    "part": mounted({"emptyDir": {}}, subPath=NUL),
    "climbs": mounted({"emptyDir": {}}, subPathExpr="$(UP)") | {},
    "host-path": mounted({"hostPath": {"path": f"/{NUL}", "type": "DirectoryOrCreate"}}),
    "root": mounted({"emptyDir": {}}, mountPath="/"),
    "probe": {"containers": [{"livenessProbe": {"httpGet": {"host": "a..b", "port": 1}},
                              "readinessProbe": {"exec": {"command": [NUL]}}}]},
    "hook": {"containers": [{"lifecycle": {"postStart": {"exec": {"command": [NUL]}}}}]},
    "setting": {"securityContext": {"sysctls": [{"name": "kernel.panic", "value": "1"}]}},
    "image": {"containers": [{"image": NUL}]},
    "little": {"containers": [{"resources": {"limits": {"memory": "1"}}}]},
}  # fmt: skip
ODD["climbs"]["containers"][0]["env"] = [{"name": "UP", "value": "../../../../etc"}]


def odd_pod(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    containers = [
        {"name": "c", "image": IMAGE, "imagePullPolicy": "IfNotPresent"} | c
        for c in spec.get("containers", [{}])
    ]
    spec = {"terminationGracePeriodSeconds": 1} | spec | {"containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def odd(cluster: Program) -> Program:
    import json

    documents = [json.dumps(odd_pod(name, spec)) for name, spec in ODD.items()]
    manifest = cluster.data_dir / "odd.yaml"
    manifest.write_text("\n---\n".join(documents))
    cluster.kubectl("create", "--validate=false", "-f", str(manifest))
    return cluster


def test_the_node_goes_on(odd: Program) -> None:
    odd.kubectl("run", "plain", f"--image={IMAGE}")
    odd.kubectl("wait", "pod/plain", "--for=condition=Ready", "--timeout=30s")

    def all_told() -> bool:
        pods = odd.get("pods")["items"]
        return all(pod["status"].get("containerStatuses") or pod["status"].get("reason")
                   or pod["metadata"]["name"] == "host-path" for pod in pods)  # fmt: skip

    eventually(all_told, what="each pod has a status")
    assert odd.get("pod", "setting")["status"]["reason"] == "SysctlForbidden"
    assert "MountVolume.SetUp failed" in odd.kubectl("describe", "pod", "host-path")
    assert "Traceback" not in odd.log.read_text()
    odd.kubectl("delete", "pod", "--all", "--timeout=60s")
