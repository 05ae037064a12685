"""What a container sees: configuration, volumes, environment; and what probes decide."""

import json

from shepherd.testing.program import Program, eventually

IMAGE = "shepherd.local/demo:1"


def apply(cluster: Program, *objects: dict[str, object]) -> None:
    path = cluster.data_dir / "manifest.yaml"
    path.write_text("\n---\n".join(json.dumps(obj) for obj in objects))
    cluster.kubectl("apply", "-n", "scratch", "-f", str(path))


def pod(name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never"} | spec,
    }


def logs(cluster: Program, name: str) -> str:
    eventually(
        lambda: cluster.get("-n", "scratch", "pod", name)["status"]["phase"] == "Succeeded",
        what=f"{name} ends",
    )
    return cluster.kubectl("-n", "scratch", "logs", name)


def test_configuration_reaches_environment_and_files(scratch: Program) -> None:
    create = ("-n", "scratch", "create")
    scratch.kubectl(*create, "configmap", "settings", "--from-literal=colour=blue")
    scratch.kubectl(*create, "secret", "generic", "key", "--from-literal=pin=0000")
    script = "echo $GREETING $POD; cat /etc/settings/colour; echo; cat /etc/key/pin; ls /scratch"
    colour = {"configMapKeyRef": {"name": "settings", "key": "colour"}}
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sh", "-c"],
        "args": [script],
        "env": [
            {"name": "COLOUR", "valueFrom": colour},
            {"name": "GREETING", "value": "hello $(COLOUR)"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "volumeMounts": [
            {"name": "settings", "mountPath": "/etc/settings"},
            {"name": "key", "mountPath": "/etc/key", "readOnly": True},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
    }
    apply(
        scratch,
        pod(
            "reader",
            containers=[container],
            volumes=[
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "key", "secret": {"secretName": "key"}},
                {"name": "scratch", "emptyDir": {}},
            ],
        ),
    )
    assert logs(scratch, "reader").split() == ["hello", "blue", "reader", "blue", "0000"]


def test_containers_share_network_and_volumes_and_init_runs_first(scratch: Program) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    fetch = "cat /shared/word; until wget -qO- http://127.0.0.1:8080/; do sleep 0.1; done"
    apply(
        scratch,
        pod(
            "pair",
            initContainers=[
                {
                    "name": "server",
                    "image": IMAGE,
                    "restartPolicy": "Always",
                },
                {
                    "name": "first",
                    "image": IMAGE,
                    "command": ["sh", "-c", "echo prepared >/shared/word"],
                    "volumeMounts": mounts,
                },
            ],
            containers=[
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": ["sh", "-c", fetch],
                    "volumeMounts": mounts,
                }
            ],
            volumes=[{"name": "shared", "emptyDir": {}}],
        ),
    )
    assert logs(scratch, "pair").split() == ["prepared", "pair"]


def test_a_failing_liveness_probe_restarts_and_readiness_gates(scratch: Program) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1}
    apply(
        scratch,
        pod(
            "probed",
            restartPolicy="Always",
            containers=[
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": ["sh", "-c", "touch /tmp/up; sleep 2; rm /tmp/up; sleep 100"],
                    "livenessProbe": probe | {"failureThreshold": 1},
                    "readinessProbe": probe,
                }
            ],
        ),
    )

    def status() -> dict[str, object]:
        found: dict[str, object] = scratch.get("-n", "scratch", "pod", "probed")["status"][
            "containerStatuses"
        ][0]
        return found

    eventually(lambda: status()["ready"], what="ready")
    eventually(lambda: status()["restartCount"], what="restarted")
    assert "Liveness probe failed" in scratch.kubectl("-n", "scratch", "describe", "pod", "probed")
