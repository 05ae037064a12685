"""What only real containers can show: limits, rights, mounts, signals, survival of the agent."""

# ruff: noqa: ASYNC240 (the tests look at small files; nothing else waits for the loop)

import asyncio
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shepherd.runtime.base import (
    ContainerInfo,
    ContainerState,
    Mount,
    Resources,
    SandboxConfig,
    SheepError,
)
from shepherd.runtime.oci import kernel
from shepherd.testing.runtime_suite import (
    FOREVER,
    Harness,
    exited,
    log_lines,
    look,
    prepare,
    sandbox_config,
    start,
)

MIB = 1 << 20


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


async def run(harness: Harness, script: str, **changes: object) -> ContainerInfo:
    """Run a script with a changed config to its end."""
    config = replace(await prepare(harness, script), **changes)  # type: ignore[arg-type]
    return await exited(harness, await harness.runtime.start_container(config))


def printed(container: ContainerInfo) -> list[str]:
    return [line.split(" ", 3)[3] for line in log_lines(container)]


async def in_sandbox(harness: Harness, script: str, sandbox: SandboxConfig) -> ContainerInfo:
    """Start a script in a sandbox of a given config."""
    await harness.runtime.run_sandbox(sandbox)
    config = await prepare(harness, script)
    return await harness.runtime.start_container(replace(config, sandbox_id=sandbox.id))


# Limits


async def test_memory_over_the_limit_is_told_as_oom(runtime_harness: Harness) -> None:
    """kubernetes/kubernetes#117793, #126096; gardener/gardener#13966: the whole container goes."""
    ended = await run(runtime_harness, "tail /dev/zero", memory_bytes=16 * MIB)
    assert (ended.exit_code, ended.reason) == (137, "OOMKilled")


async def test_a_kill_from_within_is_no_oom(runtime_harness: Harness) -> None:
    ended = await run(runtime_harness, "sh -c 'kill -9 $$'; exit 137", memory_bytes=64 * MIB)
    assert (ended.exit_code, ended.reason) == (137, "Error")


async def test_processes_over_the_limit_do_not_start(runtime_harness: Harness) -> None:
    ended = await run(
        runtime_harness, "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done; exit 0", pids=4
    )
    assert ended.exit_code != 0
    assert any("can't fork" in line for line in printed(ended))


def limits(path: str) -> tuple[str, str, str]:
    """What the kernel says: the CPU quota and share, and the memory limit of a group."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        group = root / path
        quota = (group / "cpu.max").read_text().split()[0]
        return quota, (group / "cpu.weight").read_text(), (group / "memory.max").read_text()
    cpu, memory = root / "cpu" / path, root / "memory" / path
    return (
        (cpu / "cpu.cfs_quota_us").read_text().strip(),
        (cpu / "cpu.shares").read_text(),
        (memory / "memory.limit_in_bytes").read_text(),
    )


async def test_the_kernel_holds_the_new_limits(runtime_harness: Harness, instance: str) -> None:
    sandbox = replace(sandbox_config(), cpu_millis=100, memory_bytes=32 * MIB)
    await runtime_harness.runtime.run_sandbox(sandbox)
    config = replace(
        await prepare(runtime_harness, FOREVER),
        sandbox_id=sandbox.id, cpu_millis=100, memory_bytes=32 * MIB,
    )  # fmt: skip
    container = await runtime_harness.runtime.start_container(config)
    pod, own = f"{instance}/{sandbox.id}", f"{instance}/{sandbox.id}/{container.id}"
    before = limits(own)
    assert (before[0], int(before[2])) == ("10000", 32 * MIB)
    for millis, memory in ((500, 64 * MIB), (200, 48 * MIB)):
        resources = Resources(millis, memory, millis)
        room = Resources(500, 64 * MIB, 500)
        await runtime_harness.runtime.resize_sandbox(sandbox.id, room)
        await runtime_harness.runtime.resize_container(container.id, resources)
        await runtime_harness.runtime.resize_sandbox(sandbox.id, resources)
        for group in (pod, own):
            quota, share, limit = limits(group)
            assert (quota, int(limit)) == (str(millis * 100), memory)
            assert share != before[1]
    with pytest.raises(SheepError) as refused:
        await runtime_harness.runtime.resize_container(container.id, Resources(200, 4096))
    assert "below current usage" in refused.value.message
    assert int(limits(own)[2]) == 48 * MIB


# Identity and rights


async def test_a_container_runs_as_whom_the_pod_says(runtime_harness: Harness) -> None:
    ended = await run(
        runtime_harness,
        "id -u; id -g; id -G; echo $HOME; pwd; grep CapEff /proc/self/status",
        run_as_user=1234,
        run_as_group=99,
        supplemental_groups=(7,),
        working_dir="/var",
    )
    uid, gid, groups, home, folder, rights = printed(ended)
    assert (uid, gid, set(groups.split()), home, folder) == ("1234", "99", {"99", "7"}, "/", "/var")
    assert int(rights.split()[1], 16) == 0


async def test_rights_are_the_default_changed_as_the_pod_says(runtime_harness: Harness) -> None:
    script = "grep CapEff /proc/self/status | cut -f2; grep NoNewPrivs /proc/self/status | cut -f2"
    ended = await run(
        runtime_harness,
        script,
        capabilities_drop=("ALL",),
        capabilities_add=("NET_ADMIN",),
        no_new_privileges=True,
    )
    assert printed(ended) == [f"{1 << 12:016x}", "1"]


async def test_a_read_only_root_and_the_hidden_paths_hold(runtime_harness: Harness) -> None:
    script = (
        "touch /x || echo no; cat /proc/kcore | wc -c; echo 1 >/proc/sys/vm/swappiness || echo no"
    )
    ended = await run(runtime_harness, script, read_only_rootfs=True)
    said = printed(ended)
    assert said.count("no") == 2
    assert "0" in said


async def test_the_default_seccomp_profile_forbids_new_namespaces(runtime_harness: Harness) -> None:
    script = "unshare -r true && echo allowed; unshare -n true && echo allowed; exit 0"
    ended = await run(runtime_harness, script, seccomp="RuntimeDefault", run_as_user=1000)
    assert "allowed" not in printed(ended)
    assert sum("Operation not permitted" in line for line in printed(ended)) == 2


async def test_root_is_refused_where_the_pod_forbids_it(runtime_harness: Harness) -> None:
    config = replace(await prepare(runtime_harness, "exit 0"), run_as_non_root=True)
    with pytest.raises(SheepError) as refused:
        await runtime_harness.runtime.start_container(config)
    assert refused.value.reason == "CreateContainerConfigError"


async def test_a_missing_program_is_told_and_leaves_nothing(
    runtime_harness: Harness, tmp_path: Path
) -> None:
    config = replace(await prepare(runtime_harness, ""), command=("no-such-program",))
    with pytest.raises(SheepError) as failed:
        await runtime_harness.runtime.start_container(config)
    assert failed.value.reason == "RunContainerError"
    assert "no-such-program" in failed.value.message
    assert list((tmp_path / "agent" / "containers").iterdir()) == []


# Mounts and surroundings


async def test_volumes_are_mounted_as_the_pod_says(
    runtime_harness: Harness, tmp_path: Path
) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("hello\n")
    mounts = (
        Mount(str(tmp_path / "given"), "/data/in", read_only=True),
        Mount(str(tmp_path / "given"), "/data/out"),
        Mount(str(tmp_path / "given" / "file"), "/etc/hosts", read_only=True),
    )
    script = (
        "cat /data/in/file /etc/hosts; touch /data/in/x || echo read-only; echo hi >/data/out/y"
    )
    ended = await run(runtime_harness, script, mounts=mounts)
    assert [line for line in printed(ended) if "touch" not in line] == [
        "hello",
        "hello",
        "read-only",
    ]
    assert (tmp_path / "given" / "y").read_text() == "hi\n"


async def test_a_volume_that_is_mounted_after_the_start_reaches_the_container(
    runtime_harness: Harness, tmp_path: Path
) -> None:
    late = tmp_path / "late"
    late.mkdir()
    kernel.mount("late", late, "tmpfs")
    (late / "file").write_text("fresh\n")
    ended = await run(runtime_harness, "cat /late/file", mounts=(Mount(str(late), "/late"),))
    assert printed(ended) == ["fresh"]


async def test_containers_of_a_pod_share_network_and_memory(runtime_harness: Harness) -> None:
    first = await start(runtime_harness, f"echo shared >/dev/shm/x; hostname; {FOREVER}")
    await until(lambda: len(log_lines(first)) == 1)
    config = replace(
        await prepare(runtime_harness, "cat /dev/shm/x; hostname; ip -o -4 addr show eth0; exit 0"),
        sandbox_id=first.sandbox_id,
    )
    second = await exited(runtime_harness, await runtime_harness.runtime.start_container(config))
    sandbox = await runtime_harness.runtime.sandbox(first.sandbox_id)
    assert sandbox is not None
    memory, name, address = printed(second)
    assert (memory, name) == ("shared", sandbox.pod_name)
    assert f"{sandbox.addresses[0]}/24" in address


async def test_a_shared_pid_namespace_has_a_reaper_and_ends_with_the_pod(
    runtime_harness: Harness,
) -> None:
    sandbox = replace(sandbox_config(), share_pid=True)
    script = f"(sleep 0.1 &) ; sh -c 'sleep 3600 & exit 0'; ps -o pid,args; {FOREVER}"
    container = await in_sandbox(runtime_harness, script, sandbox)
    await until(lambda: any("sleep" in line for line in printed(container)))
    assert any(line.split() == ["1", "/pause"] for line in printed(container))
    again = await runtime_harness.reopen()
    found = await again.sandbox(sandbox.id)
    assert found is not None
    assert found.ready
    await again.stop_container(container.id, 0)
    await until(lambda: not living(container))


def living(container: ContainerInfo) -> list[int]:
    """The processes in a container's cgroup."""
    found = []
    for path in Path("/sys/fs/cgroup").glob(f"**/{container.id}/cgroup.procs"):
        found += [int(pid) for pid in path.read_text().split()]
    return found


async def test_the_host_network_is_the_nodes_own(runtime_harness: Harness) -> None:
    sandbox = sandbox_config(host_network=True)
    container = await in_sandbox(runtime_harness, "readlink /proc/self/ns/net; exit 0", sandbox)
    await exited(runtime_harness, container)
    assert printed(container) == [os.readlink("/proc/thread-self/ns/net")]


async def test_sysctls_are_set_in_the_pods_own_namespace(runtime_harness: Harness) -> None:
    name = "net.ipv4.ip_unprivileged_port_start"
    sandbox = replace(sandbox_config(), sysctls=((name, "80"),))
    container = await in_sandbox(runtime_harness, f"sysctl -n {name}; exit 0", sandbox)
    await exited(runtime_harness, container)
    assert printed(container) == ["80"]


async def test_an_impossible_sandbox_leaves_nothing(
    runtime_harness: Harness, tmp_path: Path
) -> None:
    sandbox = replace(sandbox_config(), sysctls=(("net.no.such", "1"),))
    with pytest.raises(SheepError) as failed:
        await runtime_harness.runtime.run_sandbox(sandbox)
    assert failed.value.reason == "FailedCreatePodSandBox"
    assert await runtime_harness.runtime.sandboxes() == []
    assert list((tmp_path / "agent" / "sandboxes").iterdir()) == []


# Signals


@pytest.mark.parametrize(("stop_signal", "code"), [("", 7), ("SIGINT", 8)])
async def test_the_stop_signal_ends_it_in_its_own_way(
    runtime_harness: Harness, stop_signal: str, code: int
) -> None:
    script = "trap 'exit 7' TERM; trap 'exit 8' INT; echo up; while :; do sleep 0.02; done"
    config = replace(await prepare(runtime_harness, script), stop_signal=stop_signal)
    container = await runtime_harness.runtime.start_container(config)
    await until(lambda: len(log_lines(container)) == 1)
    await runtime_harness.runtime.stop_container(container.id, 20)
    assert (await look(runtime_harness, container)).exit_code == code


async def test_an_ignored_signal_is_followed_by_a_kill(runtime_harness: Harness) -> None:
    container = await start(runtime_harness, f"trap '' TERM; echo up; {FOREVER}")
    await until(lambda: len(log_lines(container)) == 1)
    await runtime_harness.runtime.stop_container(container.id, 0.1)
    assert (await look(runtime_harness, container)).exit_code == 137


# Logs


async def test_a_rotated_log_loses_no_line(runtime_harness: Harness) -> None:
    script = "i=0; while [ $i -lt 400 ]; do echo $i; i=$((i+1)); sleep 0.002; done; exit 0"
    container = await start(runtime_harness, script)
    log = Path(container.log_path)
    await until(lambda: len(log_lines(container)) > 20)
    log.rename(f"{log}.1")
    await runtime_harness.runtime.reopen_log(container.id)
    await exited(runtime_harness, container)
    lines = Path(f"{log}.1").read_text().splitlines() + log.read_text().splitlines()
    assert [int(line.split()[3]) for line in lines] == list(range(400))
    await runtime_harness.runtime.reopen_log(container.id)


# The agent, the monitor, and their ends

_AGENT = """
import asyncio, sys
from pathlib import Path
from shepherd.lib.clock import SystemClock
from shepherd.runtime.base import ContainerConfig, SandboxConfig
from shepherd.runtime.oci import NetworkConfig, OciRuntime

async def main(root, instance, archive):
    network = NetworkConfig(bridge=instance, pod_cidr="10.42.7.0/24")
    runtime = OciRuntime(Path(root), network=network, clock=SystemClock(), instance=instance)
    await runtime.start()
    [image] = await runtime.images.load(archive)
    for name in ("a", "b"):
        await runtime.run_sandbox(SandboxConfig(f"{name}-0", name, name, "d", name))
        await runtime.start_container(ContainerConfig(
            f"{name}-main-0", f"{name}-0", "main", 0, image.id,
            command=("sh", "-c", "while [ ! -e /go ]; do sleep 0.02; done; exit 9"),
            log_path=f"{root}/logs/{name}.log"))
    print("up", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_killed_agent_loses_nothing(
    tmp_path: Path, instance: str, demo_image: Path, open_runtime: Callable[[], object]
) -> None:
    root = tmp_path / "agent"
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _AGENT, str(root), instance, str(demo_image),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert agent.stdout is not None
    assert await agent.stdout.readline() == b"up\n"
    agent.kill()
    await agent.wait()
    (root / "containers" / "b-main-0" / "rootfs" / "go").touch()
    await until((root / "containers" / "b-main-0" / "exits" / "b-main-0").exists)

    runtime = await open_runtime()  # type: ignore[misc]
    states = {
        sandbox.pod_uid: (
            sandbox.ready,
            sandbox.containers[0].state,
            sandbox.containers[0].exit_code,
        )
        for sandbox in await runtime.sandboxes()
    }
    assert states == {
        "a": (True, ContainerState.RUNNING, 0),
        "b": (True, ContainerState.EXITED, 9),
    }
    changes = runtime.changes()
    assert (await runtime.exec("a-main-0", ["touch", "/go"], timeout_seconds=10)).exit_code == 0
    async with asyncio.timeout(20):
        assert await anext(changes) == "a"
    sandbox = await runtime.sandbox("a-0")
    assert sandbox.containers[0].exit_code == 9


async def test_a_container_that_was_being_made_when_the_agent_died_is_made_again(
    runtime_harness: Harness, tmp_path: Path
) -> None:
    container = await start(runtime_harness, FOREVER)
    (tmp_path / "agent" / "containers" / container.id / "record.json").unlink()
    runtime_harness.runtime = await runtime_harness.reopen()
    sandbox = await runtime_harness.runtime.sandbox(container.sandbox_id)
    assert sandbox is not None
    assert sandbox.containers == ()
    assert not Path(f"/proc/{container.pid}").exists()


async def test_a_container_ends_with_its_monitor_and_can_be_removed(
    runtime_harness: Harness, tmp_path: Path
) -> None:
    container = await start(runtime_harness, FOREVER)
    changes = runtime_harness.runtime.changes()
    bundle = tmp_path / "agent" / "containers" / container.id
    os.kill(int((bundle / "conmon.pid").read_text()), signal.SIGKILL)
    async with asyncio.timeout(20):
        await anext(changes)
    seen = await look(runtime_harness, container)
    assert seen.state is ContainerState.UNKNOWN
    assert "its exit code is lost" in seen.message
    await until(lambda: not living(container))
    await runtime_harness.runtime.remove_container(container.id)
    assert not bundle.exists()


async def test_a_container_whose_monitor_died_with_the_agent_is_ended_at_the_next_start(
    runtime_harness: Harness, tmp_path: Path
) -> None:
    container = await start(runtime_harness, FOREVER)
    bundle = tmp_path / "agent" / "containers" / container.id
    await runtime_harness.runtime.close()
    monitor = int((bundle / "conmon.pid").read_text())
    end = os.pidfd_open(monitor)
    os.kill(monitor, signal.SIGKILL)
    await until(lambda: bool(select.select([end], [], [], 0)[0]))
    os.close(end)
    runtime_harness.runtime = await runtime_harness.reopen()
    assert (await look(runtime_harness, container)).state is ContainerState.UNKNOWN
    await until(lambda: not living(container))


async def test_a_start_that_was_cancelled_is_removed_with_its_sandbox(
    runtime_harness: Harness, tmp_path: Path
) -> None:
    runtime = runtime_harness.runtime
    config = await prepare(runtime_harness, FOREVER)
    start_task = asyncio.create_task(runtime.start_container(config))
    fresh = sandbox_config()
    run_task = asyncio.create_task(runtime.run_sandbox(fresh))
    await asyncio.sleep(0)
    for task in (start_task, run_task):
        task.cancel()
    await asyncio.gather(start_task, run_task, return_exceptions=True)
    await runtime.remove_sandbox(config.sandbox_id)
    await runtime.remove_sandbox(fresh.id)
    assert await runtime.sandboxes() == []
    for name in ("containers", "sandboxes"):
        assert list((tmp_path / "agent" / name).iterdir()) == []


async def test_removal_leaves_no_mount_cgroup_link_or_file(
    runtime_harness: Harness, tmp_path: Path, instance: str
) -> None:
    container = await start(runtime_harness, FOREVER)
    await runtime_harness.runtime.remove_sandbox(container.sandbox_id)
    root = tmp_path / "agent"
    assert list((root / "containers").iterdir()) == list((root / "sandboxes").iterdir()) == []
    mounts = Path("/proc/self/mountinfo").read_text()
    assert f"{root}/containers" not in mounts
    assert f"{root}/sandboxes" not in mounts
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{instance}/*{container.id[:36]}*"))
    await until(lambda: not any(name.startswith("veth") for _, name in socket.if_nameindex()))


# The end of an agent whose containers were stopped


async def test_nothing_is_left_in_the_kernel_and_the_ends_are_still_known(
    runtime_harness: Harness, tmp_path: Path, instance: str
) -> None:
    ended = await run(runtime_harness, "exit 7")
    await runtime_harness.runtime.close(remove=True)
    assert kernel.mount_points(tmp_path) == []
    assert not [*Path("/sys/fs/cgroup").glob(f"**/{instance}")]
    assert instance not in [name for _, name in socket.if_nameindex()]
    runtime_harness.runtime = await runtime_harness.reopen()
    sandbox = await runtime_harness.runtime.sandbox(ended.sandbox_id)
    assert sandbox is not None
    assert not sandbox.ready
    assert [c.exit_code for c in sandbox.containers] == [7]
