"""What containers are given, and what their pods may, in virtual time."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shepherd.agent import machine
from shepherd.api.kinds import CONFIG_MAP, ENDPOINT_SLICE, NODE, POD, SECRET, SERVICE
from shepherd.runtime.base import ContainerConfig, ContainerInfo, ContainerState
from shepherd.testing.virtual import eventually

OnNode = Any
Scene = Any


def sh(script: str, name: str = "web", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "web:1", "command": ["sh", "-c", script], **more}


def web(**more: Any) -> dict[str, Any]:
    return {"name": "web", "image": "web:1", **more}


def watch_starts(node: Scene) -> list[ContainerConfig]:
    """What the runtime is asked to start from now on."""
    started: list[ContainerConfig] = []
    start = node.runtime.start_container

    async def start_container(config: ContainerConfig) -> ContainerInfo:
        started.append(config)
        found: ContainerInfo = await start(config)
        return found

    node.runtime.start_container = start_container
    return started


# Images


def test_pull_failures_back_off(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[{"name": "web", "image": "registry.invalid/web:1"}])
        await node.waiting("ErrImagePull")
        await node.waiting("ImagePullBackOff")
        reasons = [reason for reason, _ in await node.events()]
        assert {"Pulling", "Failed", "BackOff"} <= set(reasons)
        await node.client.delete(POD, "web", "default")
        await node.gone()

    on_node(scenario)


def test_never_pull(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[web(imagePullPolicy="Never")])
        await node.waiting("ErrImageNeverPull")

    on_node(scenario)


def test_an_archive_that_appears_helps_a_waiting_pod(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        image = "registry.invalid/web:1"
        await node.create_pod(containers=[{"name": "web", "image": image}])
        await node.waiting("ImagePullBackOff")
        archives = node.directory / "images"
        archives.mkdir()
        write_archive(archives / "web.tar", image)
        await node.ready(within_seconds=10)
        await node.restart_agent()
        await node.agent.ready()
        found = await node.client.get(NODE, "n1")
        assert any(image in listed["names"] for listed in found["status"]["images"])

    on_node(scenario)


def write_archive(path: Path, tag: str) -> None:
    import io
    import json
    import tarfile

    data = json.dumps([{"Config": "c.json", "RepoTags": [tag], "Layers": []}]).encode()
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))


def test_another_image_restarts_that_container_alone(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[web(), {"name": "other", "image": "other:1"}])
        await node.ready()
        change = {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}
        await node.client.patch(POD, "web", "default", change, type="strategic")
        await node.restarted(1)
        assert (await node.container(container="web"))["image"] == "web:2"
        assert (await node.container(container="other"))["restartCount"] == 0

    on_node(scenario)


# Environment and volumes


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_the_environment(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        started = watch_starts(node)
        await node.client.create(CONFIG_MAP, config_map("settings", A="1", B="$(A)"), "default")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}}
        await node.client.create(SECRET, secret | {"data": {"k": "czNjcjN0"}}, "default")
        env = [
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
            {"name": "BOTH", "value": "$(NAME)-$(A)-$$(A)-$(NONE)"},
        ]
        await node.create_pod(
            containers=[
                web(env=env, envFrom=[{"configMapRef": {"name": "settings"}}], args=["$(BOTH)"])
            ]
        )
        await node.ready()
        (config,) = started
        found = dict(config.env)
        assert (found["NAME"], found["IP"], found["KEY"]) == ("web", "10.42.0.2", "s3cr3t")
        assert found["BOTH"] == "web-1-$(A)-$(NONE)"
        assert found["B"] == "$(A)"  # 42
        assert config.args == ("web-1-$(A)-$(NONE)",)
        assert found["KUBERNETES_SERVICE_HOST"] == "10.43.0.1"

    on_node(scenario)


def test_a_missing_reference_waits_for_it(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[web(envFrom=[{"configMapRef": {"name": "late"}}])])
        await node.waiting("CreateContainerConfigError")
        container = await node.container()
        assert container["state"]["waiting"]["message"] == 'configmap "late" not found'
        await node.client.create(CONFIG_MAP, config_map("late", A="1"), "default")
        await node.ready(within_seconds=2)

    on_node(scenario)


def test_volumes_follow_their_source(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        started = watch_starts(node)
        await node.create_pod(
            volumes=[{"name": "v", "configMap": {"name": "files"}}, {"name": "e", "emptyDir": {}}],
            containers=[
                web(
                    volumeMounts=[
                        {"name": "v", "mountPath": "/etc/v"},
                        {"name": "e", "mountPath": "/cache", "subPath": "a/b"},
                    ]
                )
            ],
        )
        await asyncio.sleep(3)
        assert "FailedMount" in [reason for reason, _ in await node.events()]
        await node.client.create(CONFIG_MAP, config_map("files", a="one", b="two"), "default")
        await node.ready(within_seconds=2)
        volume, cache = (Path(mount.source) for mount in started[0].mounts)
        assert (volume / "a").read_text() == "one"
        assert cache.is_dir()
        change = {"data": {"a": "three", "b": None}}
        await node.client.patch(CONFIG_MAP, "files", "default", change)
        await eventually(lambda: (volume / "a").read_text() == "three")
        assert sorted(p.name for p in volume.iterdir() if not p.name.startswith("..")) == ["a"]
        await node.client.delete(POD, "web", "default")
        await node.gone()
        await eventually(lambda: not volume.exists())

    on_node(scenario)


# Hooks, limits, deadlines


def test_a_post_start_hook_that_fails(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        hook = {"postStart": {"exec": {"command": ["sh", "-c", "exit 1"]}}}
        await node.create_pod(containers=[web(lifecycle=hook)])
        await node.restarted(1)
        assert "FailedPostStartHook" in [reason for reason, _ in await node.events()]

    on_node(scenario)


def test_a_post_start_hook_holds_up_the_next_container(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        hook = {"postStart": {"exec": {"command": ["sh", "-c", "sleep 20"]}}}
        await node.create_pod(containers=[web(lifecycle=hook), {"name": "b", "image": "b:1"}])
        await asyncio.sleep(10)
        assert (await node.container())["started"] is False
        assert "waiting" in (await node.container(container="b"))["state"]
        await node.ready()

    on_node(scenario)


def test_start_errors_are_told(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(annotations={"shepherd.dev/hollow-start-error": "no such file"})
        status = await node.waiting("RunContainerError")
        assert status["containerStatuses"][0]["state"]["waiting"]["message"] == "no such file"
        await asyncio.sleep(100)
        assert (await node.container())["restartCount"] == 0

    on_node(scenario)


def test_what_one_pod_breaks_is_its_own_affair(
    on_node: OnNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Scene) -> None:
        start = node.runtime.start_container

        async def broken(config: ContainerConfig) -> ContainerInfo:
            if config.command == ("break",):
                raise AssertionError("a case that nobody thought of")
            info: ContainerInfo = await start(config)
            return info

        monkeypatch.setattr(node.runtime, "start_container", broken)
        await node.create_pod("odd", containers=[web(command=["break"])])
        await node.create_pod()
        await node.ready()
        await asyncio.sleep(35)
        told = [text for reason, text in await node.events("odd") if reason == "InternalError"]
        assert "a case that nobody thought of" in told[0]
        monkeypatch.undo()
        await node.ready("odd")
        await node.client.delete(POD, "odd", "default")
        await node.gone("odd")

    on_node(scenario)


def test_the_active_deadline(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(activeDeadlineSeconds=20)
        await node.ready()
        status = await node.phase("Failed")
        assert status["reason"] == "DeadlineExceeded"

    on_node(scenario)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"containers": [web(resources={"requests": {"cpu": "10k"}})]}, "OutOfcpu"),
        ({"containers": [web(resources={"requests": {"memory": "1Pi"}})]}, "OutOfmemory"),
        (
            {"containers": [web(ports=[{"containerPort": 80, "hostPort": 8080}])]},
            "NodePorts",
        ),
    ],
)
def test_a_pod_that_does_not_fit_is_refused(
    on_node: OnNode, spec: dict[str, Any], reason: str
) -> None:
    async def scenario(node: Scene) -> None:
        ports = [{"containerPort": 80, "hostPort": 8080}]
        await node.create_pod("holder", containers=[web(ports=ports)])
        await node.ready("holder")
        await node.create_pod(**spec)
        status = await node.phase("Failed")
        assert status["reason"] == reason
        await node.client.delete(POD, "web", "default")
        await node.gone()

    on_node(scenario)


def test_under_disk_pressure_pods_are_refused_until_it_is_over(
    on_node: OnNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubernetes/kubernetes#94245: pods that name their node come whatever its taints."""

    async def scenario(node: Scene) -> None:
        full = replace(machine.PLENTY, disk_free_share=0.01)
        monkeypatch.setattr(machine, "use", lambda directory: full)
        await asyncio.sleep(20)
        await node.create_pod()
        status = await node.phase("Failed")
        assert status["reason"] == "Evicted"
        assert "The node had condition: [DiskPressure]" in status["message"]
        monkeypatch.setattr(machine, "use", lambda directory: machine.PLENTY)
        await asyncio.sleep(20)
        await node.create_pod("later")
        await node.ready("later")

    on_node(scenario)


def test_stopping_all_pods_leaves_them_to_the_next_agent(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(annotations={"shepherd.dev/hollow-stop-seconds": "3"})
        await node.ready()
        began = node.clock.now()
        await node.agent.stop_pods()
        assert 3 <= node.clock.now() - began < 4
        assert (await node.pod())["metadata"].get("deletionTimestamp") is None
        await node.restart_agent()
        await node.restarted(1)
        await node.ready()

    on_node(scenario)


async def _running(node: Scene) -> list[bool]:
    every = [c for sandbox in await node.runtime.sandboxes() for c in sandbox.containers]
    return [c.state is ContainerState.RUNNING for c in every]


@pytest.mark.parametrize("cut", [False, True])
def test_all_are_stopped_though_the_agent_has_only_just_begun(on_node: OnNode, cut: bool) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod()
        await node.ready()
        await node.stop_agent()
        node.cut = cut
        node.start_agent()
        await node.agent.stop_pods()
        assert await _running(node) == [False]
        node.cut = False

    on_node(scenario)


def test_what_runs_is_not_taken_down_by_an_agent_that_ends_before_it_knows(
    on_node: OnNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Scene) -> None:
        closed: list[bool] = []

        async def never() -> None:
            await asyncio.Event().wait()

        async def close(*, remove: bool = False) -> None:
            closed.append(remove)

        await node.stop_agent()
        monkeypatch.setattr(node.runtime, "start", never)
        monkeypatch.setattr(node.runtime, "close", close)
        node.start_agent()
        await asyncio.sleep(1)
        await node.stop_agent()
        assert closed == [False]
        monkeypatch.undo()

    on_node(scenario)


# Logs and services


def test_logs(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod(containers=[sh("echo one; echo two; sleep 20; echo three; exit 1")])
        await node.ready()
        assert await node.logs() == (200, "one\ntwo\n")
        assert await node.logs(tailLines=1) == (200, "two\n")
        assert await node.logs(limitBytes=5) == (200, "one\nt")
        assert (await node.logs(previous="true"))[0] == 400
        assert (await node.logs(tailLines="x"))[0] == 400
        assert await node.logs(follow="true") == (200, "one\ntwo\nthree\n")
        await node.restarted(1)
        assert (await node.container())["lastState"]["terminated"]["exitCode"] == 1
        assert await node.logs(previous="true") == (200, "one\ntwo\nthree\n")
        code, text = await node.logs(timestamps="true", tailLines=1)
        assert code == 200
        assert text.startswith("2026-01-01T00:00:")

    on_node(scenario)


def test_services_reach_the_dataplane(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
        }
        created = await node.client.create(SERVICE, service, "default")
        piece = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "ports": [{"name": "", "port": 8080}],
            "endpoints": [{"addresses": ["10.42.0.9"]}],
        }
        await node.client.create(ENDPOINT_SLICE, piece, "default")

        def served() -> bool:
            found = [r for r in node.dataplane.rules if r.name == "default/web:80"]
            return [(r.addresses, [(b.address, b.port) for b in r.backends]) for r in found] == [
                ((created["spec"]["clusterIP"],), [("10.42.0.9", 8080)])
            ]

        await eventually(served)

    on_node(scenario)
