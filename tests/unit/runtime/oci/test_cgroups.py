"""cgroup v2 (and v1) by their interface files, in a directory that looks like the kernel's."""

from pathlib import Path

import pytest

from shepherd.runtime.base import Stats
from shepherd.runtime.oci.cgroups import Cgroups, cpu_quota, cpu_shares, cpu_weight


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    for folder in (tmp_path, tmp_path / "i", tmp_path / "i" / "pod"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpu io memory pids rdma")
    return tmp_path


def test_v2_limits_a_pod_and_hands_the_controllers_down(unified: Path) -> None:
    cgroups = Cgroups(unified / "shadow", unified)
    assert cgroups.mode == "v2"
    cgroups.prepare("/i/pod", cpu_millis=500, memory_bytes=1 << 20, request_millis=1000)
    pod = unified / "i" / "pod"
    assert (pod / "cpu.max").read_text() == "50000 100000"
    assert (pod / "memory.max").read_text() == str(1 << 20)
    assert (pod / "cpu.weight").read_text() == "39"
    for folder in (unified, unified / "i", pod):
        assert (folder / "cgroup.subtree_control").read_text() == "+cpu +io +memory +pids"


def test_v2_tells_use_and_memory_kills(unified: Path) -> None:
    pod = unified / "i" / "pod"
    (pod / "cpu.stat").write_text("usage_usec 7\nuser_usec 5\n")
    (pod / "memory.current").write_text("1000\n")
    (pod / "memory.stat").write_text("anon 5\ninactive_file 300\n")
    (pod / "memory.events").write_text("oom 1\noom_kill 1\n")
    cgroups = Cgroups(unified / "shadow", unified)
    assert cgroups.stats("/i/pod") == Stats(cpu_nanos=7000, memory_bytes=700)
    assert cgroups.oom_kills("/i/pod") == 1
    assert cgroups.stats("/i/gone") is None


def test_v2_kills_by_the_kernels_own_file(unified: Path) -> None:
    Cgroups(unified / "shadow", unified).kill("/i/pod")
    assert (unified / "i" / "pod" / "cgroup.kill").read_text() == "1"


@pytest.mark.parametrize(("hybrid", "mode"), [(True, "hybrid"), (False, "v1")])
def test_v1_and_hybrid_are_told_apart(tmp_path: Path, hybrid: bool, mode: str) -> None:
    for name in ("cpu", "memory", "unified"):
        (tmp_path / name).mkdir()
    if hybrid:
        (tmp_path / "unified" / "cgroup.controllers").touch()
    assert Cgroups(tmp_path / "shadow", tmp_path).mode == mode


def test_kubelets_conversions() -> None:
    assert [cpu_shares(millis) for millis in (0, 1, 1000)] == [2, 2, 1024]
    assert [cpu_quota(millis) for millis in (5, 1500)] == [1000, 150_000]
    assert [cpu_weight(shares) for shares in (2, 1024, 262_144)] == [1, 39, 10_000]
