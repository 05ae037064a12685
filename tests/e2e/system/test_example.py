"""The main job: apply the example, see real containers, reach them, scale, read logs, delete."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.testing.program import Program, eventually

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "web.yaml")


def running(cluster: Program, selector: str = "app=web") -> list[dict[str, str]]:
    """Name, address and container of each Ready pod."""
    pods = cluster.get("pods", "-l", selector)["items"]
    return [
        {
            "name": pod["metadata"]["name"],
            "ip": pod["status"]["podIP"],
            "container": pod["status"]["containerStatuses"][0]["containerID"],
        }
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp")
        and "containerStatuses" in pod["status"]
        and all(status["ready"] for status in pod["status"]["containerStatuses"])
    ]


@pytest.fixture
def web(cluster: Program) -> Iterator[Program]:
    cluster.kubectl("apply", "-f", EXAMPLE)
    eventually(lambda: len(running(cluster)) == 3, what="three pods ready")
    yield cluster
    cluster.kubectl("delete", "-f", EXAMPLE, "--ignore-not-found", "--grace-period=1")
    eventually(lambda: not cluster.get("pods", "-l", "app=web")["items"], what="pods gone")


def answers(cluster: Program, address: str, port: int, times: int = 30) -> set[str]:
    return {
        cluster.run("curl", "-s", "-m", "5", f"http://{address}:{port}/").strip()
        for _ in range(times)
    }


def test_each_pod_is_a_real_container_with_its_own_address(web: Program) -> None:
    pods = running(web)
    assert len({pod["ip"] for pod in pods}) == 3
    for pod in pods:
        assert answers(web, pod["ip"], 8080, times=1) == {pod["name"]}


def test_the_service_address_spreads_over_the_pods_from_node_and_pod(web: Program) -> None:
    service = web.get("service", "web")
    names = {pod["name"] for pod in running(web)}
    address = service["spec"]["clusterIP"]
    eventually(lambda: answers(web, address, 80) == names, what="every pod answers on the node")


def test_scaling_up_and_down(web: Program) -> None:
    web.kubectl("scale", "deployment/web", "--replicas=5")
    eventually(lambda: len(running(web)) == 5, what="five pods")
    web.sheepctl("scale", "deployment/web", "--replicas=2")
    eventually(lambda: len(web.get("pods", "-l", "app=web")["items"]) == 2, what="two pods")


def test_logs_of_the_deployment(web: Program) -> None:
    assert "serving web-" in web.kubectl("logs", "deployment/web")
    assert "serving web-" in web.sheepctl("logs", "deployment/web")


def test_rolling_update_keeps_the_service_answering_and_can_be_undone(web: Program) -> None:
    """kubernetes/kubernetes#43576, #86280, #123116: requests failed as old pods stopped."""
    service = web.get("service", "web")["spec"]["clusterIP"]
    before = {pod["name"] for pod in running(web)}
    web.kubectl("set", "env", "deployment/web", "PORT=8080", "COLOUR=blue")
    with subprocess.Popen(
        [
            "sh",
            "-c",
            f"for i in $(seq 60); do curl -sf -m 2 {service} || echo FAIL; sleep 0.05; done",
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as load:
        web.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        output, _ = load.communicate()
    assert "FAIL" not in output
    assert not before & {pod["name"] for pod in running(web)}
    web.kubectl("rollout", "undo", "deployment/web")
    web.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    template = web.get("deployment", "web")["spec"]["template"]
    assert "COLOUR" not in str(template)


def test_kill_9_loses_no_container_and_starts_no_second_copy(web: Program) -> None:
    before = sorted((pod["name"], pod["ip"], pod["container"]) for pod in running(web))
    web.kill()
    for name, ip, _ in before:
        assert answers(web, ip, 8080, times=1) == {name}
    web.start().wait_ready()
    eventually(lambda: len(running(web)) == 3, what="the same three pods")
    after = sorted((pod["name"], pod["ip"], pod["container"]) for pod in running(web))
    assert after == before
    for pod in web.get("pods", "-l", "app=web")["items"]:
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert "serving web-" in web.kubectl("logs", "deployment/web")


def test_a_crashing_container_is_restarted_and_its_last_log_is_kept(cluster: Program) -> None:
    cluster.kubectl(
        "run", "crash", "--image=shepherd.local/demo:1", "--restart=Always",
        "--command", "--", "sh", "-c", "echo first words; exit 3",
    )  # fmt: skip
    try:
        status = eventually(
            lambda: next(
                (
                    found
                    for found in cluster.get("pod", "crash")["status"].get("containerStatuses", [])
                    if found["restartCount"] >= 1
                ),
                None,
            ),
            what="a restart",
        )
        assert status is not None
        assert status["lastState"]["terminated"]["exitCode"] == 3
        assert "first words" in cluster.kubectl("logs", "crash", "--previous")
    finally:
        cluster.kubectl("delete", "pod", "crash", "--grace-period=0", "--force")


def test_memory_beyond_the_limit_is_reported_as_oom_killed(cluster: Program) -> None:
    overrides = (
        '{"spec":{"containers":[{"name":"hog","image":"shepherd.local/demo:1",'
        '"command":["sh","-c","a=x; while true; do a=$a$a; done"],'
        '"resources":{"limits":{"memory":"16Mi"}}}]}}'
    )
    cluster.kubectl(
        "run", "hog", "--image=shepherd.local/demo:1", "--restart=Never", f"--overrides={overrides}"
    )
    try:
        eventually(
            lambda: cluster.get("pod", "hog")["status"]["phase"] == "Failed", what="it fails"
        )
        state = cluster.get("pod", "hog")["status"]["containerStatuses"][0]["state"]
        assert state["terminated"]["reason"] == "OOMKilled"
        assert state["terminated"]["exitCode"] == 137
    finally:
        cluster.kubectl("delete", "pod", "hog", "--grace-period=0", "--force")
