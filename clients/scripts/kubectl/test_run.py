"""Commands about what runs: rollout, logs, exec, attach, cp, port-forward, debug, wait, nodes."""

import re
import socket
import urllib.request
from pathlib import Path

import pytest
from clients.scripts.kubectl.program import Kubectl, deployment, pod, workload

from shepherd.testing.program import eventually


def start(kubectl: Kubectl, name: str = "box", script: str = "sleep 3600") -> None:
    kubectl.apply(pod(name, script))
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")


def test_rollout(kubectl: Kubectl) -> None:
    kubectl.apply(deployment())
    status = kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    assert status.endswith('deployment "web" successfully rolled out\n')
    kubectl("set", "image", "deploy/web", "main=nginx:1.15.4")
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    history = kubectl("rollout", "history", "deploy/web").split()
    assert history[:4] == ["deployment.apps/web", "REVISION", "CHANGE-CAUSE", "1"]
    assert "nginx:1.14.2" in kubectl("rollout", "history", "deploy/web", "--revision=1")
    undone = kubectl("rollout", "undo", "deploy/web")
    assert undone == "deployment.apps/web rolled back\n"
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    template = kubectl.get("deploy", "web")["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "nginx:1.14.2"
    assert kubectl("rollout", "restart", "deploy/web") == "deployment.apps/web restarted\n"
    annotations = kubectl.get("deploy", "web")["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in annotations
    assert kubectl("rollout", "pause", "deploy/web") == "deployment.apps/web paused\n"
    assert kubectl.get("deploy", "web")["spec"]["paused"] is True
    assert kubectl("rollout", "resume", "deploy/web") == "deployment.apps/web resumed\n"
    assert "paused" not in kubectl.get("deploy", "web")["spec"]


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_rollout_of_a_set(kubectl: Kubectl, kind: str) -> None:
    kubectl.apply(workload(kind))
    name, full = f"{kind.lower()}/web", f"{kind.lower()}.apps/web"
    status = kubectl("rollout", "status", name, "--timeout=60s")
    done = "partitioned roll out complete" if kind == "StatefulSet" else "successfully rolled out"
    assert done in status
    kubectl("set", "image", name, "main=nginx:1.15.4")
    kubectl("rollout", "status", name, "--timeout=60s")
    history = kubectl("rollout", "history", name).split()
    assert history[:6] == [full, "REVISION", "CHANGE-CAUSE", "1", "<none>", "2"]
    assert "nginx:1.14.2" in kubectl("rollout", "history", name, "--revision=1")
    assert kubectl("rollout", "undo", name) == f"{full} rolled back\n"
    kubectl("rollout", "status", name, "--timeout=60s")
    images = "jsonpath={.items[*].spec.containers[0].image}"
    assert kubectl("get", "pods", "-l", "app=web", "-o", images) == "nginx:1.14.2"
    assert kubectl("rollout", "restart", name) == f"{full} restarted\n"
    assert done in kubectl("rollout", "status", name, "--timeout=60s")


def test_a_job_runs_to_its_end(kubectl: Kubectl) -> None:
    kubectl("create", "job", "once", "--image=busybox:1.36", "--", "echo", "done")
    waited = kubectl("wait", "--for=condition=complete", "job/once", "--timeout=30s")
    assert waited == "job.batch/once condition met\n"
    assert kubectl("logs", "job/once") == "done\n"


def test_logs(kubectl: Kubectl) -> None:
    start(kubectl, script="echo one; echo two; echo three; sleep 3600")
    eventually(lambda: kubectl("logs", "box") == "one\ntwo\nthree\n", what="its lines")
    assert kubectl("logs", "box", "--tail=1") == "three\n"
    stamped = kubectl("logs", "box", "--timestamps", "--tail=1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z three\n", stamped)
    assert kubectl("logs", "-l", "app=box", "--since=1h") == "one\ntwo\nthree\n"
    assert kubectl("logs", "box", "-c", "main", "--limit-bytes=4") == "one\n"
    assert "container nope is not valid" in kubectl("logs", "box", "-c", "nope", code=1)
    following = kubectl.start("logs", "-f", "box")
    assert following.stdout is not None
    assert [following.stdout.readline() for _ in range(3)] == ["one\n", "two\n", "three\n"]
    kubectl("delete", "pod", "box")
    assert following.wait(30) == 0
    assert "NotFound" in kubectl("logs", "box", code=1)


def test_logs_of_what_ran_before_and_of_a_deployment(kubectl: Kubectl) -> None:
    manifest = deployment()
    template = manifest["spec"]["template"]["spec"]
    script = "test -e /kept/first && echo two && sleep 99; touch /kept/first; echo one"
    template["containers"][0] |= {
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "kept", "mountPath": "/kept"}],
    }
    template["volumes"] = [{"name": "kept", "emptyDir": {}}]
    kubectl.apply(manifest)
    kubectl("rollout", "status", "deploy/web", "--timeout=60s")
    (name,) = kubectl("get", "pods", "-l", "app=web", "-o", "name").split()
    eventually(lambda: kubectl("logs", "deploy/web") == "two\n", what="its second life")
    assert kubectl("logs", name, "--previous") == "one\n"


def test_exec(kubectl: Kubectl) -> None:
    start(kubectl)
    assert kubectl("exec", "box", "--", "echo", "hello") == "hello\n"
    assert kubectl("exec", "-i", "box", "--", "cat", stdin="over\n") == "over\n"
    failed = kubectl("exec", "box", "--", "sh", "-c", "echo no >&2; exit 7", code=7)
    assert failed == "no\ncommand terminated with exit code 7\n"
    large = "x" * 79 + "\n"
    assert kubectl("exec", "-i", "box", "--", "cat", stdin=large * 20000) == large * 20000
    assert "not found" in kubectl("exec", "none", "--", "true", code=1)
    kubectl.apply(deployment())
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    assert kubectl("exec", "deploy/web", "--", "echo", "hello") == "hello\n"


def test_attach(kubectl: Kubectl) -> None:
    start(kubectl, script="while sleep 0.1; do echo tick; done")
    attached = kubectl.start("attach", "box")
    assert attached.stdout is not None
    assert any(attached.stdout.readline() == "tick\n" for _ in range(5))
    attached.kill()
    attached.wait()


def test_run(kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    if kubectl.minor == 22:  # waits for watches that it closed itself: kubernetes/kubectl#1098
        monkeypatch.setenv("KUBECTL_COMMAND_HEADERS", "false")
    flags = ("--image=busybox:1.36", "--restart=Never")
    assert kubectl("run", "one", *flags, "--", "true") == "pod/one created\n"
    out = kubectl("run", "two", "-i", "--rm", *flags, "--", "cat", stdin="through\n")
    assert "through\n" in out
    assert 'pod "two" deleted' in out
    assert "NotFound" in kubectl("get", "pod", "two", code=1)


def test_cp(kubectl: Kubectl, tmp_path: Path) -> None:
    start(kubectl)
    data = bytes(range(256)) * 4096
    (tmp_path / "there").write_bytes(data)
    kubectl("cp", str(tmp_path / "there"), f"{kubectl.namespace}/box:/tmp/there")
    assert kubectl("exec", "box", "--", "wc", "-c", "/tmp/there").split()[0] == str(len(data))
    kubectl("cp", f"{kubectl.namespace}/box:/tmp/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


@pytest.mark.parametrize("target", ["deploy/web", "service/web", "pod"])
def test_port_forward(kubectl: Kubectl, target: str) -> None:
    manifest = deployment()
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 1}
    manifest["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
    kubectl.apply(manifest)
    kubectl("expose", "deploy", "web", "--port=8080", "--target-port=80")
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    remote = 8080 if target.startswith("service") else 80
    if target == "pod":
        (target,) = kubectl("get", "pods", "-l", "app=web", "-o", "name").split()
    forward = kubectl.start("port-forward", target, f"{port}:{remote}", "--address=127.0.0.1")
    assert forward.stdout is not None
    assert f"127.0.0.1:{port} -> 80" in forward.stdout.readline()
    for _ in range(3):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            assert b"Welcome to nginx!" in answer.read()
    forward.kill()
    forward.wait()


@pytest.mark.since(25)
def test_debug(kubectl: Kubectl) -> None:
    start(kubectl)
    kubectl("debug", "box", "--image=busybox:1.36", "-c", "look", "--", "sh", "-c", "echo seen")
    kubectl(
        "wait", "pod/box", "--timeout=30s",
        "--for=jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.reason}=Completed",
    )  # fmt: skip
    assert kubectl("logs", "box", "-c", "look") == "seen\n"
    kubectl("debug", "box", "--copy-to=copy", "--image=busybox:1.36", "--", "sleep", "60")
    assert len(kubectl.get("pod", "copy")["spec"]["containers"]) == 2
    node = kubectl.get("nodes")["items"][0]["metadata"]["name"]
    made = kubectl("debug", f"node/{node}", "--image=busybox:1.36", "--", "ls", "/host")
    name = re.match(rf"Creating debugging pod (\S+) with container debugger on node {node}", made)
    assert name
    succeeded = "--for=jsonpath={.status.phase}=Succeeded"
    kubectl("wait", f"pod/{name[1]}", succeeded, "--timeout=30s")
    assert {"etc", "usr"} <= set(kubectl("logs", name[1]).split())


def test_wait(kubectl: Kubectl) -> None:
    kubectl.apply(pod(script="sleep 0.3"))
    met = kubectl("wait", "--for=condition=Ready", "pod/box", "--timeout=30s")
    assert met == "pod/box condition met\n"
    if kubectl.minor >= 23:
        kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/box", "--timeout=30s")
    kubectl("delete", "pod", "box", "--wait=false")
    kubectl("wait", "--for=delete", "pod/box", "--timeout=30s")
    if kubectl.minor >= 31:
        waiting = kubectl.start("wait", "--for=create", "cm/later", "--timeout=30s")
        kubectl("create", "configmap", "later")
        assert waiting.communicate()[0] == "configmap/later condition met\n"
    never = ("wait", "--for=condition=Never", "ns", kubectl.namespace, "--timeout=1s")
    timed = kubectl(*never, code=1)
    assert "timed out waiting for the condition" in timed


def test_nodes(kubectl: Kubectl) -> None:
    node = kubectl.get("nodes")["items"][0]["metadata"]["name"]
    assert kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert "SchedulingDisabled" in kubectl("get", "node", node)
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert kubectl("taint", "node", node, "a=b:PreferNoSchedule") == f"node/{node} tainted\n"
    taints = "jsonpath={.spec.taints}"
    assert '"key":"a","value":"b"' in kubectl("get", "node", node, "-o", taints)
    assert kubectl("taint", "node", node, "a-") == f"node/{node} untainted\n"


def test_drain(kubectl: Kubectl) -> None:
    node = kubectl.get("nodes")["items"][0]["metadata"]["name"]
    kubectl.apply(deployment())
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    (name,) = kubectl("get", "pods", "-l", "app=web", "-o", "name").split()
    try:
        drained = kubectl("drain", node, "--pod-selector=app=web", "--timeout=30s")
    finally:
        kubectl("uncordon", node)
    assert f"pod/{name.partition('/')[2]} evicted" in drained
    assert f"node/{node} {'drained' if kubectl.minor > 22 else 'evicted'}" in drained
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")


def test_drain_minds_a_budget(kubectl: Kubectl) -> None:
    node = kubectl.get("nodes")["items"][0]["metadata"]["name"]
    kubectl.apply(deployment())
    kubectl("create", "pdb", "keep", "--selector=app=web", "--min-available=1")
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    eventually(lambda: kubectl.get("pdb", "keep")["status"]["currentHealthy"] == 1)
    try:
        refused = kubectl("drain", node, "--pod-selector=app=web", "--timeout=1s", code=1)
        assert "it would violate the pod's disruption budget" in refused
        drain = kubectl.start("drain", node, "--pod-selector=app=web", "--timeout=60s")
        kubectl("delete", "pdb", "keep")
        assert " evicted\n" in drain.communicate()[0]
        assert drain.returncode == 0
    finally:
        kubectl("uncordon", node)


def test_config_and_kustomize(kubectl: Kubectl, tmp_path: Path) -> None:
    assert kubectl("config", "current-context").strip()
    (tmp_path / "kustomization.yaml").write_text(
        "configMapGenerator: [{name: made, literals: [a=b]}]\n"
        "generatorOptions: {disableNameSuffixHash: true}\n"
    )
    assert "name: made" in kubectl("kustomize", str(tmp_path))
    assert kubectl("apply", "-k", str(tmp_path)) == "configmap/made created\n"


def test_nothing_is_left_of_a_cut_connection(kubectl: Kubectl) -> None:
    start(kubectl)
    running = kubectl.start("exec", "box", "--", "sh", "-c", "echo begun; sleep 1234")
    assert running.stdout is not None
    assert running.stdout.readline() == "begun\n"
    running.kill()
    running.wait()
    assert kubectl("exec", "box", "--", "echo", "well") == "well\n"
