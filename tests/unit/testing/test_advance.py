"""Time in an embedded cluster moves when it is told to, and everything happens in its order."""

from collections.abc import Iterator
from typing import Any

import pytest

from shepherd.api.meta import parse_time
from shepherd.testing import Cluster
from shepherd.testing.rest import Rest, is_gone, is_running, pod


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


@pytest.fixture
def rest(cluster: Cluster) -> Rest:
    return Rest(cluster.settings)


def ready(node: Any) -> str:
    return next(str(c["status"]) for c in node["status"]["conditions"] if c["type"] == "Ready")


def restarts(found: Any) -> int:
    return int(found["status"]["containerStatuses"][0]["restartCount"])


def test_leases_are_renewed_all_along(cluster: Cluster, rest: Rest) -> None:
    before = cluster.clock.now()
    cluster.clock.advance(3600.0)
    assert cluster.clock.now() >= before + 3600.0
    assert [ready(node) for node in rest.get("/api/v1/nodes")["items"]] == ["True", "True"]
    lease = rest.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1")
    assert parse_time(lease["spec"]["renewTime"]) >= before + 3585.0


def test_a_crash_loop_backs_off_to_five_minutes(cluster: Cluster, rest: Rest) -> None:
    rest.ask("POST", "pods", pod("bad", "sleep 1; exit 1"))
    rest.until("pods/bad", is_running)
    cluster.clock.advance(3600.0)
    first = restarts(rest.get("pods/bad"))
    assert 14 <= first <= 17  # 10, 20, 40, 80, 160 s, then each 300 s
    cluster.clock.advance(3600.0)
    assert 11 <= restarts(rest.get("pods/bad")) - first <= 13


def test_an_annotation_says_what_a_pod_does(cluster: Cluster, rest: Rest) -> None:
    body = pod("scripted")
    script = "echo begins; sleep 5; echo fails; exit 2"
    body["metadata"]["annotations"] = {
        "shepherd.dev/hollow-script": script,
        "shepherd.dev/hollow-start-seconds": "30",
    }
    rest.ask("POST", "pods", body)
    cluster.clock.advance(20.0)
    assert rest.get("pods/scripted")["status"]["phase"] == "Pending"
    cluster.clock.advance(12.0)
    assert is_running(rest.get("pods/scripted"))
    assert rest.text("pods/scripted/log") == "begins\n"
    cluster.clock.advance(10.0)
    assert rest.text("pods/scripted/log") == "begins\nfails\n"
    cluster.clock.advance(31.0)
    (state,) = rest.get("pods/scripted")["status"]["containerStatuses"]
    assert state["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert state["lastState"]["terminated"]["exitCode"] == 2


def test_a_deadline_passes(cluster: Cluster, rest: Rest) -> None:
    rest.ask("POST", "pods", pod("late", activeDeadlineSeconds=600))
    rest.until("pods/late", is_running)
    cluster.clock.advance(590.0)
    assert is_running(rest.get("pods/late"))
    cluster.clock.advance(20.0)
    status = rest.get("pods/late")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_probe_succeeds_when_its_pod_is_ready(cluster: Cluster, rest: Rest) -> None:
    body = pod("slow")
    body["metadata"]["annotations"] = {"shepherd.dev/hollow-ready-seconds": "120"}
    probe = {"httpGet": {"port": 80}, "periodSeconds": 10}
    body["spec"]["containers"][0]["readinessProbe"] = probe
    rest.ask("POST", "pods", body)
    rest.until("pods/slow", is_running)

    def is_ready() -> str:
        return ready(rest.get("pods/slow"))

    cluster.clock.advance(100.0)
    assert is_ready() == "False"
    cluster.clock.advance(40.0)
    assert is_ready() == "True"


def test_pods_of_a_lost_node_are_evicted_after_their_toleration(
    cluster: Cluster, rest: Rest
) -> None:
    rest.ask("POST", "pods", pod("web", nodeSelector={"kubernetes.io/hostname": "n1"}))
    rest.until("pods/web", is_running)
    cluster.nodes.lose("n1")
    assert cluster.nodes.names == ["n2"]
    cluster.clock.advance(60.0)
    assert ready(rest.get("/api/v1/nodes/n1")) == "Unknown"
    assert "deletionTimestamp" not in rest.get("pods/web")["metadata"]
    cluster.clock.advance(300.0)
    assert "deletionTimestamp" in rest.get("pods/web")["metadata"]


def test_a_node_that_was_cut_off_returns(cluster: Cluster, rest: Rest) -> None:
    cluster.nodes.cut_off("n1")
    cluster.clock.advance(60.0)
    assert ready(rest.get("/api/v1/nodes/n1")) == "Unknown"
    cluster.nodes.reconnect("n1")
    cluster.clock.advance(30.0)
    assert ready(rest.get("/api/v1/nodes/n1")) == "True"


def test_a_stopped_agent_finds_its_containers_again(cluster: Cluster, rest: Rest) -> None:
    rest.ask("POST", "pods", pod("web", nodeName="n1"))
    before = rest.until("pods/web", is_running)["status"]["containerStatuses"]
    cluster.nodes.stop("n1")
    cluster.nodes.add("n1")
    cluster.clock.advance(60.0)
    assert rest.get("pods/web")["status"]["containerStatuses"] == before


def test_a_node_s_clock_can_be_wrong(cluster: Cluster, rest: Rest) -> None:
    """A lease from the past is as good as any: what counts is that it changes."""
    cluster.nodes.skew_clock("n1", -7200.0)
    cluster.clock.advance(120.0)
    lease = rest.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1")
    assert parse_time(lease["spec"]["renewTime"]) < cluster.clock.now() - 7000.0
    assert ready(rest.get("/api/v1/nodes/n1")) == "True"


def test_a_token_comes_to_its_end(cluster: Cluster, rest: Rest) -> None:
    order = {"spec": {"expirationSeconds": 600}}
    answer = rest.ask("POST", "serviceaccounts/default/token", order)
    holder = Rest(cluster.settings, token=answer["status"]["token"])

    def name() -> Any:
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        return holder.ask("POST", path, {})["status"]["userInfo"]["username"]

    assert name() == "system:serviceaccount:default:default"
    cluster.clock.advance(590.0)
    assert name() == "system:serviceaccount:default:default"
    cluster.clock.advance(20.0)
    assert holder.get("pods")["code"] == 401


def test_events_are_forgotten_after_an_hour(cluster: Cluster, rest: Rest) -> None:
    rest.ask("POST", "pods", pod("web"))
    rest.until("pods/web", is_running)
    cluster.clock.advance(10.0)
    names = [event["metadata"]["name"] for event in rest.get("events")["items"]]
    assert names
    cluster.clock.advance(2 * 3600.0)
    assert all(is_gone(rest.get(f"events/{name}")) for name in names)
