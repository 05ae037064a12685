"""A user gives running containers other resources, and the program is killed meanwhile."""

import json
from pathlib import Path
from typing import Any

from shepherd.testing.program import Program, eventually


def container(name: str, cpu: str, memory: str) -> Any:
    amounts = {"cpu": cpu, "memory": memory}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}}


def resize(cluster: Program, *containers: Any) -> None:
    patch = json.dumps({"spec": {"containers": containers}})
    cluster.kubectl("patch", "pod", "two", "-n", "scratch", "--subresource", "resize", "-p", patch)


def holds(cluster: Program, *containers: Any) -> Any:
    """The container statuses, once all have what is wanted and the conditions say no more."""

    def look() -> Any:
        status = cluster.get("pod", "two", "-n", "scratch")["status"]
        if any(c["type"].startswith("PodResize") for c in status["conditions"]):
            return None
        found = status["containerStatuses"]
        have = [{"name": c["name"], "resources": c["resources"]} for c in found]
        return found if have == list(containers) else None

    return eventually(look, what="the new resources")


def quota(cluster: Program, name: str) -> str:
    """The CPU quota that the container reads of its own control group."""
    script = (
        "cut -d' ' -f1 /sys/fs/cgroup/cpu.max 2>/dev/null || "
        "P=$(grep :memory: /proc/self/cgroup | cut -d: -f3); "
        "cat /sys/fs/cgroup/cpu$P/cpu.cfs_quota_us 2>/dev/null || "
        "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us"
    )
    return cluster.kubectl(
        "exec", "two", "-n", "scratch", "-c", name, "--", "sh", "-c", script
    ).strip()


def test_containers_get_more_and_less_and_stay(scratch: Program, tmp_path: Path) -> None:
    more = {"image": "shepherd.local/demo:1", "command": ["sleep", "3600"]}
    begin = [container("a", "500m", "64Mi"), container("b", "500m", "64Mi")]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "two", "namespace": "scratch"},
        "spec": {"containers": [c | more for c in begin], "terminationGracePeriodSeconds": 1},
    }
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(pod))
    scratch.kubectl("apply", "-f", str(path))
    scratch.kubectl("wait", "pod/two", "-n", "scratch", "--for=condition=Ready", "--timeout=60s")
    before = holds(scratch, *begin)

    for cpus in (("100m", "100m"), ("600m", "100m"), ("100m", "600m")):
        wanted = [container(name, cpu, "96Mi") for name, cpu in zip("ab", cpus, strict=True)]
        resize(scratch, *wanted)
        after = holds(scratch, *wanted)
        assert [c["containerID"] for c in after] == [c["containerID"] for c in before]

    wanted = [container("a", "200m", "128Mi"), container("b", "300m", "96Mi")]
    resize(scratch, *wanted)
    scratch.kill()
    scratch.start().wait_ready()
    after = holds(scratch, *wanted)
    assert [(c["containerID"], c["restartCount"], c["state"]) for c in after] == [
        (c["containerID"], 0, c["state"]) for c in before
    ]
    assert [quota(scratch, name) for name in "ab"] == ["20000", "30000"]

    resize(scratch, container("a", "1000", "128Mi"))
    events = ["get", "events", "-n", "scratch", "-o", "jsonpath={.items[*].reason}"]
    eventually(lambda: "ResizeInfeasible" in scratch.kubectl(*events), what="the refusal")
    assert "PodResizePending" in scratch.kubectl("describe", "pod", "two", "-n", "scratch")
    assert quota(scratch, "a") == "20000"
