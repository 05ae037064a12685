"""`sheepctl apply`, `scale`, `delete` and `rollout`: what they change, and what they say."""

import json
from pathlib import Path
from typing import Any

import pytest

from shepherd.api.kinds import DEPLOYMENT
from shepherd.cli.rollout import Bars, progress, trouble

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {team: a}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "demo:1", env: [{name: A, value: "1"}, {name: B, value: "2"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80}]
"""


def test_apply_creates_leaves_alone_and_changes(sheepctl: Any) -> None:
    assert sheepctl("apply", "-f", "-", stdin=WEB).out == (
        "deployment.apps/web created\nservice/web created\n"
    )
    assert sheepctl("apply", "-f", "-", stdin=WEB).out == (
        "deployment.apps/web unchanged\nservice/web unchanged\n"
    )
    changed = WEB.replace("demo:1", "demo:2").replace('{name: B, value: "2"}', "")
    result = sheepctl("apply", "-f", "-", stdin=changed.replace("labels: {team: a}", "labels: {}"))
    assert result.out.splitlines()[0] == "deployment.apps/web configured"
    web = json.loads(sheepctl("get", "deploy/web", "-o", "json").out)
    container = web["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "demo:2"
    assert container["env"] == [{"name": "A", "value": "1"}]
    assert "team" not in (web["metadata"].get("labels") or {})


def test_apply_keeps_what_others_set(sheepctl: Any) -> None:
    no_replicas = WEB.replace("  replicas: 3\n", "")
    sheepctl("apply", "-f", "-", stdin=no_replicas)
    assert sheepctl("scale", "deployment/web", "--replicas=5").out == "deployment.apps/web scaled\n"
    sheepctl("apply", "-f", "-", stdin=no_replicas.replace("demo:1", "demo:2"))
    assert sheepctl("get", "deploy", "--no-headers").rows[0][1] == "0/5"


def test_a_dry_run_changes_nothing(sheepctl: Any) -> None:
    result = sheepctl("apply", "--dry-run", "-f", "-", stdin=WEB)
    assert result.out.splitlines()[0] == "deployment.apps/web created (server dry run)"
    assert sheepctl("get", "deployments").out == ""


def test_apply_takes_directories_and_names_the_file_of_a_mistake(
    sheepctl: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n")
    (tmp_path / "notes.txt").write_text("not for apply")
    assert sheepctl("apply", "-f", str(tmp_path)).out == "configmap/a created\n"
    (tmp_path / "b.yaml").write_text("kind: ConfigMap\nkind: Secret\n")
    result = sheepctl("apply", "-f", str(tmp_path))
    assert result.code == 1
    assert 'b.yaml: the key "kind" is given twice' in result.err


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("kind: Pod\nmetadata: {name: a}", "Pod of None is not a kind that this cluster has"),
        ("apiVersion: v1\nkind: Pod\n", "a Pod has no metadata.name"),
        ("- 1", "a document is no object with apiVersion, kind and metadata"),
        ("{", "standard input: "),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndate: {}",
            'unknown field "date"',
        ),
    ],
)
def test_manifests_that_cannot_be_applied(sheepctl: Any, manifest: str, message: str) -> None:
    result = sheepctl("apply", "-f", "-", stdin=manifest)
    assert result.code == 1
    assert message in result.err
    assert result.err.count("\n") == 1


DNS = """
apiVersion: v1
kind: Service
metadata: {name: dns}
spec:
  ports:
  - {name: udp, port: 53, protocol: UDP}
  - {name: tcp, port: 53, protocol: TCP}
"""


def test_two_ports_of_one_number_survive_an_edit(sheepctl: Any) -> None:
    """kubernetes/kubernetes#62366, #108148."""
    sheepctl("apply", "-f", "-", stdin=DNS)
    sheepctl("apply", "-f", "-", stdin=DNS.replace("name: tcp", "name: stream"))
    assert "53/UDP,53/TCP" in sheepctl("get", "service", "dns").out
    assert sheepctl("apply", "-f", "-", stdin=DNS).out == "service/dns configured\n"
    assert sheepctl("apply", "-f", "-", stdin=DNS).out == "service/dns unchanged\n"


@pytest.mark.parametrize(
    "bad", ["spec: 5", "spec: {ports: [a]}", "spec: {ports: [{}]}", "spec: [{}]", "metadata: []"]
)
def test_senseless_manifests_over_sound_objects(sheepctl: Any, bad: str) -> None:
    sheepctl("apply", "-f", "-", stdin=DNS)
    manifest = f"apiVersion: v1\nkind: Service\nmetadata: {{name: dns}}\n{bad}"
    result = sheepctl("apply", "-f", "-", stdin=manifest)
    assert result.code == 1
    assert result.err.count("\n") == 1


def test_one_bad_manifest_is_named_and_does_not_keep_the_others_back(
    sheepctl: Any, tmp_path: Path
) -> None:
    head = "apiVersion: v1\nkind: ConfigMap\n"
    (tmp_path / "a.yaml").write_text(f"{head}metadata: {{name: A}}\n")
    (tmp_path / "b.yaml").write_text(f"{head}metadata: {{name: b}}\n")
    result = sheepctl("apply", "-f", str(tmp_path))
    assert (result.code, result.out) == (1, "configmap/b created\n")
    assert f'{tmp_path}/a.yaml: ConfigMap "A" is invalid: metadata.name: ' in result.err
    assert result.err.count("\n") == 1


def test_warnings_of_the_server_are_shown(sheepctl: Any) -> None:
    manifest = WEB.replace('image: "demo:1"', "image: a, resources: {limits: {memory: 400m}}")
    assert 'fractional byte value "400m"' in sheepctl("apply", "-f", "-", stdin=manifest).err


def test_scale_wants_something_that_scales(sheepctl: Any) -> None:
    assert sheepctl("scale", "service/web", "--replicas=1").code == 2
    assert sheepctl("scale", "deployment/web", "--replicas=1").code == 1
    assert sheepctl("scale", "deployment/web").code == 2


def test_delete_by_file_name_and_label(sheepctl: Any) -> None:
    sheepctl("apply", "-f", "-", stdin=WEB)
    for name in ("a", "b", "c"):
        sheepctl.given("ConfigMap", name, metadata={"labels": {"of": name}})
    result = sheepctl("delete", "-f", "-", stdin=WEB)
    assert result.out.splitlines() == [
        'deployment.apps "web" deleted from default namespace',
        'service "web" deleted from default namespace',
    ]
    assert sheepctl("delete", "cm", "a").out == 'configmap "a" deleted from default namespace\n'
    assert '"b" deleted' in sheepctl("delete", "cm", "-l", "of=b").out
    assert '"c" deleted' in sheepctl("delete", "cm/c", "--no-wait").out
    assert sheepctl("get", "cm,deploy", "-o", "name").out == ""


def test_delete_of_what_is_not_there(sheepctl: Any) -> None:
    assert sheepctl("delete", "pod", "gone").code == 1
    assert sheepctl("delete", "pod", "gone", "--ignore-not-found").code == 0
    sheepctl.given("ConfigMap", "a")
    result = sheepctl("delete", "cm", "gone", "a", "lost")
    assert (result.code, result.out) == (1, 'configmap "a" deleted from default namespace\n')
    assert result.err == 'sheepctl: configmaps "gone" not found; configmaps "lost" not found\n'
    assert sheepctl("delete", "pods").code == 2
    assert sheepctl("delete").code == 2


def test_delete_says_when_an_object_stays(sheepctl: Any) -> None:
    sheepctl.given("ConfigMap", "held", metadata={"finalizers": ["example.com/hold"]})
    result = sheepctl("delete", "cm", "held", "--timeout=0.05")
    assert result.code == 1
    assert "still there after 0.05 s: see `sheepctl why configmap/held`" in result.err


def deployment(generation: int = 1, **status: Any) -> dict[str, Any]:
    metadata = {"name": "web", "generation": generation}
    return {"metadata": metadata, "spec": {"replicas": 2}, "status": status}


WAITING = 'Waiting for deployment "web" rollout to finish: '


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (deployment(), "Waiting for deployment spec update to be observed..."),
        (
            deployment(observedGeneration=1, updatedReplicas=1),
            f"{WAITING}1 out of 2 new replicas have been updated...",
        ),
        (
            deployment(observedGeneration=1, updatedReplicas=2, replicas=3),
            f"{WAITING}1 old replicas are pending termination...",
        ),
        (
            deployment(observedGeneration=1, updatedReplicas=2, replicas=2, availableReplicas=1),
            f"{WAITING}1 of 2 updated replicas are available...",
        ),
        (
            deployment(observedGeneration=1, updatedReplicas=2, replicas=2, availableReplicas=2),
            'deployment "web" successfully rolled out',
        ),
    ],
)
def test_how_far_a_rollout_is(obj: dict[str, Any], text: str) -> None:
    assert progress(DEPLOYMENT, obj).text == text


def test_a_rollout_that_is_done_and_one_that_failed(sheepctl: Any) -> None:
    sheepctl("apply", "-f", "-", stdin=WEB)
    full = {"observedGeneration": 1, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}
    web = json.loads(sheepctl("get", "deploy/web", "-o", "json").out)
    sheepctl.set_status("Deployment", web, full | {"readyReplicas": 3})
    result = sheepctl("rollout", "status", "deployment/web")
    assert (result.code, result.out) == (0, 'deployment "web" successfully rolled out\n')
    condition = {
        "type": "Progressing",
        "status": "False",
        "reason": "ProgressDeadlineExceeded",
    }
    sheepctl.set_status("Deployment", web, full | {"conditions": [condition]})
    result = sheepctl("rollout", "status", "deployment/web")
    assert result.code == 1
    assert 'deployment "web" exceeded its progress deadline: see' in result.err


def test_waiting_ends_at_the_time_out(sheepctl: Any) -> None:
    result = sheepctl("apply", "-f", "-", "--wait", "--timeout=0.05", stdin=WEB)
    assert result.code == 1
    assert "not rolled out within 0.05 s: web" in result.err
    assert "Waiting for deployment spec update to be observed..." in result.out


def test_what_holds_a_pod_up() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                 "message": "0/1 nodes are available: 1 Insufficient cpu."}  # fmt: skip
    assert trouble({"status": {"conditions": [condition]}}).startswith("Unschedulable: 0/1 nodes")
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    assert trouble({"status": {"containerStatuses": [{"name": "a", "state": waiting}]}}) == (
        "ErrImagePull: no such image"
    )
    assert trouble({"status": {"phase": "Running"}}) == ""


def test_on_a_terminal_each_rollout_has_a_bar_and_its_troubles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bars = Bars()
    begun = progress(DEPLOYMENT, deployment(observedGeneration=1))
    bars.show("a", begun, ["ErrImagePull: no such image"])
    done = {"updatedReplicas": 2, "replicas": 2, "availableReplicas": 2, "readyReplicas": 2}
    bars.show("b", progress(DEPLOYMENT, deployment(observedGeneration=1, **done)), [])
    bars.close()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-2:] for line in lines if "ready" in line] == [
        ["0/2", "ready"], ["2/2", "ready"],
    ]  # fmt: skip
    assert "ErrImagePull: no such image" in " ".join(lines)
