"""From a pod's spec to what the runtime is asked for, and whether the node takes it."""

from typing import Any

import msgspec
import pytest

from shepherd.agent.admission import admit, requests
from shepherd.agent.container_config import (
    Attempt,
    container_config,
    hosts_file,
    oom_score_adj,
    qos_class,
    resolv_conf,
    sandbox_config,
    spec_changed,
    spec_hash,
)
from shepherd.agent.pod_state import BoundPod
from shepherd.api.objects import Container
from shepherd.runtime.base import ImageInfo


def pod(*containers: dict[str, Any], name: str = "web", **spec: Any) -> BoundPod:
    body = {
        "metadata": {"name": name, "namespace": "d", "uid": "u"},
        "spec": {
            "containers": [{"name": "web", "image": "web:1", **c} for c in containers],
            **spec,
        },
    }
    return msgspec.convert(body, BoundPod)


def config(pod: BoundPod) -> Any:
    return container_config(
        pod,
        pod.spec.containers[0],
        Attempt("main", 2, "u-0", "/log"),
        image=ImageInfo("sha256:1", (), (), 0, stop_signal="SIGQUIT"),
        env={"A": "1"},
        mounts=[],
        node_memory_bytes=1000,
    )


def test_a_container() -> None:
    found = config(
        pod(
            {
                "command": ["run", "$(A)"],
                "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}},
                "securityContext": {"runAsUser": 5, "capabilities": {"add": ["NET_ADMIN"]}},
            },
            securityContext={
                "runAsUser": 1,
                "runAsGroup": 2,
                "fsGroup": 3,
                "supplementalGroups": [4],
            },
        )
    )
    assert (found.id, found.command) == ("u-web-2", ("run", "1"))
    assert (found.cpu_millis, found.memory_bytes) == (1500, 64 * 1024 * 1024)
    assert (found.run_as_user, found.run_as_group, found.supplemental_groups) == (5, 2, (4, 3))
    assert (found.stop_signal, found.capabilities_add) == ("SIGQUIT", ("NET_ADMIN",))


def test_68_the_hash_is_of_what_the_user_asked() -> None:
    """kubernetes/kubernetes#63814, #53644, #129385: an upgrade restarts nothing."""
    web = Container(name="web", image="web:1")
    assert not spec_changed(web, spec_hash(web))
    assert not spec_changed(Container(name="web", image="web:1", tty=True), spec_hash(web))
    assert spec_changed(Container(name="web", image="web:2"), spec_hash(web))
    assert not spec_changed(web, "0:written-by-another-version")
    assert not spec_changed(web, "")


@pytest.mark.parametrize(
    ("resources", "expected", "score"),
    [
        ({}, "BestEffort", 1000),
        ({"limits": {"cpu": "1", "memory": "500"}}, "Guaranteed", -997),
        ({"requests": {"memory": "500"}}, "Burstable", 500),
    ],
)
def test_quality_of_service(resources: dict[str, Any], expected: str, score: int) -> None:
    found = pod({"resources": resources})
    assert qos_class(found) == expected
    assert oom_score_adj(found, found.spec.containers[0], 1000) == score


def test_a_sandbox() -> None:
    found = sandbox_config(
        pod({"ports": [{"containerPort": 80, "hostPort": 8080}],
             "resources": {"limits": {"cpu": "1"}}}),
        3, node_name="n1", log_directory="/logs",
    )  # fmt: skip
    assert (found.id, found.hostname, found.cpu_millis, found.memory_bytes) == (
        "u-3", "web", 1000, None,
    )  # fmt: skip
    assert [(p.host_port, p.container_port) for p in found.host_ports] == [(8080, 80)]
    host = sandbox_config(pod({}, hostNetwork=True), 0, node_name="n1", log_directory="")
    assert (host.hostname, host.host_network, host.host_ports) == ("n1", True, ())


def test_etc() -> None:
    aliases = [{"ip": "192.0.2.1", "hostnames": ["a", "b"]}]
    hosts = hosts_file(pod({}, subdomain="sub", hostAliases=aliases), "web", "10.0.0.1", "c.local")
    assert "10.0.0.1\tweb.sub.d.svc.c.local\tweb\n" in hosts
    assert hosts.endswith("192.0.2.1\ta\tb\n")
    node = "nameserver 192.0.2.53\nsearch lan\n"

    def resolv(dns: str = "10.43.0.10", **spec: Any) -> str:
        return resolv_conf(pod({}, **spec), cluster_dns=dns, domain="c.local", host=node)

    assert resolv() == (
        "nameserver 10.43.0.10\nsearch d.svc.c.local svc.c.local c.local lan\noptions ndots:5\n"
    )
    assert resolv("") == resolv(dnsPolicy="Default") == node
    assert resolv(hostNetwork=True) == node
    own = {"nameservers": ["192.0.2.9"], "options": [{"name": "ndots", "value": "2"}]}
    assert resolv(dnsPolicy="None", dnsConfig=own) == "nameserver 192.0.2.9\noptions ndots:2\n"


def test_requests_of_a_pod() -> None:
    def asks(cpu: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}}

    inits = [{"name": "s", "restartPolicy": "Always", **asks("1")}, {"name": "i", **asks("4")}]
    found = pod(asks("500m"), asks("500m"), initContainers=inits, overhead={"cpu": "100m"})
    assert requests(found) == {"cpu": 5100}
    assert requests(pod({"resources": {"limits": {"memory": "1Ki"}}})) == {"memory": 1024}


def test_admission() -> None:
    allocatable = {"cpu": "1", "memory": "1Gi", "pods": "3"}
    half = pod({"resources": {"requests": {"cpu": "600m"}}})
    assert admit(half, [], allocatable, {}) is None
    verdict = admit(half, [half], allocatable, {})
    assert verdict is not None
    assert verdict.reason == "OutOfcpu"
    assert verdict.message.endswith("requested: 600, used: 600, capacity: 1000")
    assert (admit(pod({}), [pod({})] * 3, allocatable, {}) or half).reason == "OutOfpods"  # type: ignore[union-attr]
    picky = pod({}, nodeSelector={"disk": "fast"})
    assert admit(picky, [], allocatable, {"disk": "fast"}) is None
    assert admit(picky, [], allocatable, {}) is not None


@pytest.mark.parametrize(
    ("pressures", "container", "spec", "fits"),
    [
        ((), {}, {}, True),
        (("DiskPressure",), {}, {}, False),
        (("DiskPressure",), {}, {"priority": 2_000_001_000}, True),
        (("MemoryPressure",), {}, {}, False),
        (("MemoryPressure",), {"resources": {"requests": {"memory": "1Mi"}}}, {}, True),
        (("MemoryPressure",), {}, {"tolerations": [{"operator": "Exists"}]}, True),
        (("MemoryPressure", "PIDPressure"), {}, {"tolerations": [{"operator": "Exists"}]}, False),
    ],
)
def test_a_node_that_runs_out_of_something_takes_no_pod_that_makes_it_worse(
    pressures: tuple[str, ...], container: dict[str, Any], spec: dict[str, Any], fits: bool
) -> None:
    verdict = admit(pod(container, **spec), [], {"memory": "1Gi"}, {}, pressures)
    assert (verdict is None) is fits
    if verdict:
        assert verdict.reason == "Evicted"
        assert f"The node had condition: [{' '.join(sorted(pressures))}]" in verdict.message


@pytest.mark.parametrize(
    ("name", "more", "fits"),
    [
        ("net.ipv4.tcp_syncookies", {}, True),
        ("net/ipv4/tcp_syncookies", {}, True),
        ("kernel.shm_rmid_forced", {}, True),
        ("net.ipv4.tcp_syncookies", {"hostNetwork": True}, False),
        ("kernel.shm_rmid_forced", {"hostIPC": True}, False),
        ("kernel.panic", {}, False),
        ("net.ipv4.ip_forward", {}, False),
    ],
)
def test_kernel_settings_of_the_whole_machine_are_no_pods_business(
    name: str, more: dict[str, Any], fits: bool
) -> None:
    asked = pod({}, securityContext={"sysctls": [{"name": name, "value": "1"}]}, **more)
    verdict = admit(asked, [], {}, {})
    assert (verdict is None) == fits
    assert verdict is None or verdict.reason == "SysctlForbidden"


def test_host_ports_meet_only_where_they_overlap() -> None:
    def port(**more: Any) -> BoundPod:
        return pod({"ports": [{"containerPort": 80, "hostPort": 8080, **more}]})

    assert admit(port(), [port()], {}, {}) is not None
    assert admit(port(protocol="UDP"), [port()], {}, {}) is None
    one, two = port(hostIP="192.0.2.1"), port(hostIP="192.0.2.2")
    assert admit(one, [two], {}, {}) is None
    assert admit(one, [port()], {}, {}) is not None
