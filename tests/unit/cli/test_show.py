"""`sheepctl describe`, `events`, `nodes`, `info`, `logs` and `image`."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from shepherd.cli.logs import seconds_of
from shepherd.cli.main import COMMANDS, run
from shepherd.cli.output import table_lines
from shepherd.cli.sections import probe_text, state_text, why_pending
from shepherd.cli.session import Session, Usage
from shepherd.cli.targets import find_targets

POD: dict[str, Any] = {
    "containers": [
        {
            "name": "a",
            "image": "a:1",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "A", "value": "1"}],
            "readinessProbe": {"httpGet": {"port": 80}},
            "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
        },
        {"name": "b", "image": "b:1"},
    ]
}
NODE_STATUS: dict[str, Any] = {
    "capacity": {"cpu": "2", "memory": "1Gi", "pods": "110"},
    "conditions": [{"type": "Ready", "status": "True", "reason": "AgentReady"}],
    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
    "nodeInfo": {"kubeletVersion": "v1", "containerRuntimeVersion": "crun://1.8"},
}


@pytest.fixture
def cluster(sheepctl: Any) -> Any:
    """A node with one pod, and a pod that waits."""
    sheepctl.given("Node", "n1", status=NODE_STATUS)
    pod = sheepctl.given("Pod", "web-1", metadata={"labels": {"app": "web"}}, spec=POD)
    sheepctl.bind(pod, "n1")
    sheepctl.given("Pod", "web-2", metadata={"labels": {"app": "web"}}, spec=POD)
    return sheepctl


UNFIT = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were not ready.",
}


def test_describe_a_pod_that_runs(cluster: Any) -> None:
    out = cluster("describe", "pod", "web-1").out
    for text in ("Name:", "web-1", "Containers:", "a:1", "80/TCP", "cpu=250m,memory=64Mi", "n1"):
        assert text in out
    assert "Why pending" not in out
    assert out.rstrip().endswith("Events:  <none>")


def test_describe_says_why_a_pod_waits_ground_by_ground(cluster: Any) -> None:
    pod = {"spec": {}, "status": {"conditions": [UNFIT]}}
    assert why_pending(pod) == [
        "0/3 nodes are available", "- 1 Insufficient cpu", "- 2 node(s) were not ready",
    ]  # fmt: skip
    assert "the scheduler has not looked at it yet" in cluster("describe", "pod/web-2").out


def test_describe_shows_what_belongs_to_an_object(cluster: Any) -> None:
    assert "web-1" in cluster("describe", "node", "n1").out
    selector = {"matchLabels": {"app": "web"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
    spec = {"selector": selector, "template": template}
    cluster.given("Deployment", "web", spec=spec)
    out = cluster("describe", "deployment", "web").out
    assert "RollingUpdate (25% maxSurge, 25% maxUnavailable)" in out
    assert "Replica sets:  <none>" in out
    cluster.given("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
    slice_ = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.42.0.7"]}]}
    cluster.given(
        "EndpointSlice", "web-x", metadata={"labels": {"kubernetes.io/service-name": "web"}},
        ports=[{"port": 8080}], **slice_,
    )  # fmt: skip
    out = cluster("describe", "service", "web").out
    assert "10.42.0.7   8080    Ready" in out


def test_describe_keeps_secrets_secret(sheepctl: Any) -> None:
    sheepctl.given("Secret", "s", stringData={"password": "geheim"})
    out = sheepctl("describe", "secret", "s").out
    assert "password:  6 bytes" in out
    assert "geheim" not in out


def test_describe_any_kind(sheepctl: Any) -> None:
    sheepctl.given("ConfigMap", "c", data={"a": "one\ntwo"})
    sheepctl.given("Lease", "l", spec={"holderIdentity": "n1"})
    assert "  a:\n    one\n    two" in sheepctl("describe", "cm", "c").out
    assert "Spec:\n  holderIdentity: n1" in sheepctl("describe", "lease", "l").out


def event(sheepctl: Any, name: str, pod: dict[str, Any], **fields: Any) -> None:
    metadata = pod["metadata"]
    involved = {"kind": "Pod", "namespace": "default", "name": metadata["name"]}
    sheepctl.given(
        "Event", name, involvedObject=involved | {"uid": metadata["uid"]}, **fields,
    )  # fmt: skip


def test_events_oldest_first(sheepctl: Any) -> None:
    one = sheepctl.given("Pod", "one", spec=POD)
    two = sheepctl.given("Pod", "two", spec=POD)
    late = {"type": "Warning", "reason": "BackOff", "message": "again",
            "lastTimestamp": "2026-01-02T00:00:00Z"}  # fmt: skip
    early = {"type": "Normal", "reason": "Scheduled", "message": "placed",
             "lastTimestamp": "2026-01-01T00:00:00Z"}  # fmt: skip
    event(sheepctl, "a", one, **late)
    event(sheepctl, "b", two, **early)
    rows = sheepctl("events").rows
    assert rows[0] == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert [row[2:4] for row in rows[1:]] == [["Scheduled", "pod/two"], ["BackOff", "pod/one"]]
    assert len(sheepctl("events", "--for", "pod/one").rows) == 2
    assert len(sheepctl("events", "--types=warning").rows) == 2
    assert "BackOff   again" in sheepctl("describe", "pod", "one").out


def test_nodes_say_how_much_is_spoken_for(cluster: Any) -> None:
    head, row = cluster("nodes").rows
    cells = dict(zip(head, row, strict=True))
    assert cells["STATUS"] == "Ready"
    assert (cells["PODS"], cells["CPU"], cells["MEMORY"]) == ("1/110", "0.25/2", "64/1024Mi")
    assert cells["RUNTIME"] == "crun://1.8"


@pytest.mark.parametrize(
    ("command", "kind"), [("nodes", "Node"), ("events -A", "Event"), ("get nodes", "Node")]
)
def test_lists_for_programs(cluster: Any, command: str, kind: str) -> None:
    cluster.given("Event", "one", involvedObject={"namespace": "default"}, reason="Pulled")
    document = json.loads(cluster(*command.split(), "-o", "json").out)
    assert document["kind"] == "List"
    assert [item["kind"] for item in document["items"]] == [kind]
    assert yaml.safe_load(cluster(*command.split(), "-o", "yaml").out) == document
    assert cluster("nodes", "-o", "name").out == "node/n1\n"


def test_facts_and_images_for_programs(cluster: Any) -> None:
    facts = json.loads(cluster("info", "-o", "json").out)
    assert (facts["podCIDR"], facts["nodes"]) == ("10.42.0.0/16", "1 of 1 ready")
    [image] = yaml.safe_load(cluster("image", "list", "-o", "yaml").out)["images"]
    assert (image["node"], image["sizeBytes"]) == ("n1", 2_500_000)


def test_info(cluster: Any) -> None:
    out = cluster("info").out
    for text in ("10.42.0.0/16", "1 of 1 ready", "2 (2 Pending)", "https://in.process"):
        assert text in out


def test_logs_of_one_pod_come_as_they_are(cluster: Any) -> None:
    cluster.agent.logs = {"web-1": b"one\ntwo"}
    assert cluster("logs", "web-1", "--tail=5", "--since=1m", "--previous").out == "one\ntwo"
    asked = dict(cluster.agent.asked[0].query)
    assert asked["tailLines"] == "5"
    assert asked["sinceSeconds"] == "60"
    assert asked["previous"] == "true"
    assert cluster.agent.asked[0].path.endswith("/web-1/a")


def test_logs_of_several_containers_name_theirs(cluster: Any) -> None:
    cluster.agent.logs = {"web-1": b"one\ntwo\n"}
    out = cluster("logs", "web-1", "--all-containers", "-f").out
    assert sorted(out.splitlines()) == [
        "[web-1/a] one", "[web-1/a] two", "[web-1/b] one", "[web-1/b] two",
    ]  # fmt: skip


@pytest.mark.parametrize("more", [[], ["-f"]])
def test_a_log_that_cannot_be_had_does_not_end_the_others(cluster: Any, more: list[str]) -> None:
    pod = cluster.given("Pod", "web-3", metadata={"labels": {"app": "web"}}, spec=POD)
    cluster.bind(pod, "n1")
    cluster.agent.logs = {"web-1": b"here\n"}
    result = cluster("logs", "-l", "app=web", *more)
    assert (result.code, result.out) == (0, "[web-1/a] here\n")
    assert result.err == "Warning: web-3/a: the container is waiting to start\n"
    alone = cluster("logs", "web-3", *more)
    assert (alone.code, alone.err) == (1, "sheepctl: the container is waiting to start\n")


def test_logs_of_a_deployment_are_those_of_its_pods(cluster: Any) -> None:
    cluster("delete", "pod", "web-2")
    cluster.agent.logs = {"web-1": b"here\n"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    cluster.given("Deployment", "web", spec=spec)
    cluster.given("DaemonSet", "web", spec=spec)
    cluster.given("StatefulSet", "web", spec=spec | {"serviceName": "web"})
    cluster.given("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
    for kind in ("deployment", "ds", "sts", "svc"):
        assert cluster("logs", f"{kind}/web").out == "here\n"
    assert cluster("logs", "-l", "app=web").out == "here\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["logs"], 2, "name a pod, or something that has pods"),
        (["logs", "gone"], 1, 'pods "gone" not found'),
        (["logs", "web-1", "-c", "x"], 1, 'pod web-1 has no container "x": it has a, b'),
        (["logs", "-l", "app=none"], 1, "there are no pods with labels app=none"),
        (["logs", "cm/x"], 2, "configmaps have no pods: name a pod or a deployment"),
        (["exec", "cm/x", "--", "sh"], 2, "configmaps have no pods: name a pod or a deployment"),
        (["exec", "sts/x", "--", "sh"], 1, 'statefulsets.apps "x" not found'),
        (["port-forward", "cm/x", "80"], 2, "configmaps have no pods: name a pod"),
        (["logs", "web-1", "--since=soon"], 2, '"soon" is no duration such as 90s'),
        (["image", "list", "--node=n9"], 1, 'there is no node "n9": there are n1'),
        (["image", "load", "gone.tar"], 2, "does not exist"),
    ],
)
def test_mistakes(cluster: Any, arguments: list[str], code: int, message: str) -> None:
    result = cluster(*arguments)
    assert result.code == code
    assert message in result.err
    assert result.err.count("\n") == 1


def test_images(cluster: Any, tmp_path: Path) -> None:
    archive = tmp_path / "demo.tar"
    archive.write_bytes(b"x" * 3_000_000)
    assert cluster("image", "load", str(archive)).out == "n1: loaded demo:1\n"
    assert len(cluster.agent.loaded) == 3_000_000
    archive.write_bytes(b"garbage")
    assert cluster("image", "load", str(archive)).err == (
        f"sheepctl: n1: {archive}: cannot import the archive: it is no image archive\n"
    )
    assert cluster("image", "list").rows == [
        ["NODE", "IMAGE", "ID", "SIZE"], ["n1", "demo:1", "0123456789ab", "2.5 MB"],
    ]  # fmt: skip


def test_small_texts() -> None:
    assert seconds_of("1h30m") == 5400
    with pytest.raises(Usage):
        seconds_of("5")
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "1970-01-01T00:00:00Z"}}
    assert state_text(ended, 60) == "Terminated (Error), exit code 1, 60s ago"
    assert state_text({"waiting": {"reason": "ErrImagePull"}}, 0) == "Waiting (ErrImagePull)"
    assert probe_text({"exec": {"command": ["true"]}, "periodSeconds": 3}).startswith("exec true")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("po",), ["pods/"]),
        (("Pod", "a"), ["pods/a"]),
        (("deployments.apps", "a"), ["deployments/a"]),
        (("deploy/a", "svc/b"), ["deployments/a", "services/b"]),
        (("ep,ns",), ["endpoints/", "namespaces/"]),
    ],
)
def test_how_resources_may_be_named(arguments: tuple[str, ...], names: list[str]) -> None:
    found = [f"{target.resource.plural}/{target.name}" for target in find_targets(arguments)]
    assert found == names


def test_columns_are_aligned_and_trailing_space_is_cut() -> None:
    assert table_lines(("A", "LONG"), [["abc", 1], [None, True]]) == [
        "A        LONG",
        "abc      1",
        "<none>   true",
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(sheepctl: Any, name: str) -> None:
    result = sheepctl(name, "--help")
    assert result.code == 0
    assert f"Usage: sheepctl {name}" in result.out
    assert name in sheepctl("--help").out


def test_a_server_that_is_away_and_a_missing_file_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "current-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {}}]\n"
    )
    assert run(["get", "pods", "--kubeconfig", str(config)], Session()) == 1
    line = "sheepctl: cannot reach http://127.0.0.1:1: Connect call failed"
    assert capsys.readouterr().err.startswith(line[:43])
    missing = str(tmp_path / "none")
    assert run(["--kubeconfig", missing, "get", "pods"], Session()) == 1
    assert f"no kubeconfig at {missing}" in capsys.readouterr().err
