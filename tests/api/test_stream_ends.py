"""Followed logs and watches end, cleanly and at once, whoever goes away; nothing stays open."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.testing.program import BIN, Program, eventually

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "annotations": {"shepherd.dev/hollow-script": "echo one; sleep 900"}},
    "spec": {"containers": [{"name": "main", "image": "b"}]},
}
END_SECONDS = 20.0
"""Beyond all doubt, and far below what a stream lives by itself."""


class Streams:
    """kubectl processes that read streams."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._open: list[subprocess.Popen[str]] = []

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start one; returns when it has shown its first line."""
        program = self._program
        environment = os.environ | {
            "KUBECONFIG": str(program.kubeconfig),
            "HOME": str(program.data_dir / "home"),
        }
        process = subprocess.Popen(
            [str(BIN / "kubectl"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._open.append(process)
        assert process.stdout
        assert process.stdout.readline()
        return process

    def close(self) -> None:
        for process in self._open:
            process.kill()
            process.communicate()


def run_pod(program: Program) -> None:
    file = program.data_dir / "pod.json"
    file.write_text(json.dumps(POD))
    program.kubectl("apply", "-f", str(file))
    eventually(
        lambda: program.get("pod", "p").get("status", {}).get("phase") == "Running", what="it runs"
    )


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    flags = ["--mode", "standalone", "--runtime", "hollow", "--addr", "127.0.0.1:0"]
    program = Program(tmp_path_factory.mktemp("standalone"), flags).start()
    program.wait_ready()
    run_pod(program)
    yield program
    program.kill()


@pytest.fixture
def streams(standalone: Program) -> Iterator[Streams]:
    streams = Streams(standalone)
    yield streams
    streams.close()


def connections(program: Program) -> int:
    assert program.process
    folder = Path(f"/proc/{program.process.pid}/fd")
    return sum(os.readlink(fd).startswith("socket:") for fd in folder.iterdir())


def test_they_end_as_if_read_whole_when_the_server_stops(
    standalone: Program, streams: Streams
) -> None:
    log = streams.begin("logs", "-f", "p")
    watch = streams.begin("get", "pods", "-w")
    assert standalone.stop(END_SECONDS) == 0
    for process in (log, watch):
        _, error = process.communicate(timeout=END_SECONDS)
        assert (process.returncode, error) == (0, "")
    standalone.start().wait_ready()


def test_nothing_is_left_of_readers_that_vanished(standalone: Program, streams: Streams) -> None:
    def read_and_vanish() -> None:
        readers = [streams.begin("logs", "-f", "p") for _ in range(3)]
        readers += [streams.begin("get", "pods", "-w") for _ in range(3)]
        for process in readers:
            process.kill()

    read_and_vanish()  # what is kept for later comes into being
    before = connections(standalone)
    read_and_vanish()
    eventually(lambda: connections(standalone) <= before, what="all is closed")


def test_a_log_ends_as_if_read_whole_when_its_agent_stops(tmp_path: Path) -> None:
    server = Program(tmp_path / "s", ["--mode", "server", "--addr", "127.0.0.1:0"]).start()
    server.wait_ready()
    address = server.kubeconfig.read_text().partition("server: https://")[2].split()[0]
    token = (server.data_dir / "join-token").read_text().strip()
    flags = ["--mode", "agent", "--runtime", "hollow", "--api-addr", address, "--token", token]
    agent = Program(tmp_path / "a", flags).start()
    streams = Streams(server)

    def schedulable() -> bool:
        nodes = server.get("nodes")["items"]
        return bool(nodes) and not nodes[0]["spec"].get("taints")

    try:
        eventually(schedulable, what="a node for pods")
        run_pod(server)
        log = streams.begin("logs", "-f", "p")
        assert agent.stop(END_SECONDS) == 0
        _, error = log.communicate(timeout=END_SECONDS)
        assert (log.returncode, error) == (0, "")
    finally:
        streams.close()
        agent.kill()
        server.kill()
