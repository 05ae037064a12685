"""cgroup v2 (and v1) by their interface files, in a directory that looks like the kernel's."""

from pathlib import Path

import pytest

from shepherd.runtime.base import Resources, Stats
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
    cgroups.prepare("/i/pod", Resources(500, 1 << 20, 1000))
    pod = unified / "i" / "pod"
    assert (pod / "cpu.max").read_text() == "50000 100000"
    assert (pod / "memory.max").read_text() == str(1 << 20)
    assert (pod / "cpu.weight").read_text() == "39"
    for folder in (unified, unified / "i", pod):
        assert (folder / "cgroup.subtree_control").read_text() == "+cpu +io +memory +pids"


def test_v2_limits_change(unified: Path) -> None:
    cgroups = Cgroups(unified / "shadow", unified)
    pod = unified / "i" / "pod"
    cgroups.prepare("/i/pod", Resources(500, 1 << 20, 1000))
    cgroups.limit("/i/pod", Resources(250, 2 << 20, 2000))
    assert (pod / "cpu.max").read_text() == "25000 100000"
    assert (pod / "memory.max").read_text() == str(2 << 20)
    assert (pod / "cpu.weight").read_text() == "79"
    cgroups.limit("/i/pod", Resources(None, None, 1000))
    assert (pod / "cpu.max").read_text() == "25000 100000"


@pytest.mark.parametrize("swap", [1 << 20, 1 << 62])
def test_v1_limits_change_and_swap_with_memory(tmp_path: Path, swap: int) -> None:
    memory = tmp_path / "memory" / "pod"
    cgroups = Cgroups(tmp_path / "shadow", tmp_path)
    cgroups.prepare("/pod", Resources(500, 1 << 20))
    (memory / "memory.memsw.limit_in_bytes").write_text(str(swap))
    for limit in (2 << 20, 1 << 19):
        cgroups.limit("/pod", Resources(250, limit))
        assert (memory / "memory.limit_in_bytes").read_text() == str(limit)
        counted = limit if swap == 1 << 20 else swap
        assert (memory / "memory.memsw.limit_in_bytes").read_text() == str(counted)
    assert (tmp_path / "cpu" / "pod" / "cpu.cfs_quota_us").read_text() == "25000"
    assert (tmp_path / "cpu" / "pod" / "cpu.shares").read_text() == "256"


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
