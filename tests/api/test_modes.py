"""The program from the outside: its modes, what it says when it cannot start, how it stops."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.testing.program import BIN, Program, eventually

Start = Callable[..., Program]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start programs with the hollow runtime, each in a data directory of its own."""
    programs: list[Program] = []

    def start(*flags: str, data_dir: str = "a") -> Program:
        program = Program(tmp_path / data_dir, [*flags, "--runtime", "hollow"])
        programs.append(program)
        return program.start()

    yield start
    for program in programs:
        program.kill()


def failure(*flags: str) -> tuple[int, str]:
    result = subprocess.run(
        [BIN / "shepherd", *flags], capture_output=True, text=True, check=False, timeout=30
    )
    return result.returncode, result.stderr


def test_an_unknown_mode_is_a_usage_error() -> None:
    code, text = failure("--mode", "serevr")
    assert code == 2
    assert text == "shepherd: --mode 'serevr' is unknown: use server, agent, standalone\n"


def test_a_port_in_use_is_said_in_one_line(start: Start, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, text = failure("--addr", address, "--data-dir", str(tmp_path / "x"))
    assert code == 1
    line = text.strip().splitlines()[-1]
    assert line.startswith("shepherd: ")
    assert address in line
    assert "Traceback" not in text


def test_a_data_directory_in_use_is_said_in_one_line(start: Start) -> None:
    first = start("--mode", "server", "--addr", f"127.0.0.1:{free_port()}")
    first.wait_ready()
    code, text = failure("--addr", "127.0.0.1:0", "--data-dir", str(first.data_dir))
    assert code == 1
    assert str(first.data_dir) in text
    assert "Traceback" not in text


def test_standalone_serves_and_stops_on_sigterm(start: Start) -> None:
    program = start("--mode", "standalone", "--addr", f"127.0.0.1:{free_port()}")
    program.wait_ready()
    assert oct((program.kubeconfig).stat().st_mode)[-3:] == "600"
    assert "default" in program.kubectl("get", "namespaces")
    assert program.stop() == 0
    assert "Traceback" not in program.log.read_text()


def test_an_agent_may_start_before_its_server_and_joins_by_token(
    start: Start, tmp_path: Path
) -> None:
    port = free_port()
    server = start("--mode", "server", "--addr", f"127.0.0.1:{port}")
    server.wait_ready()
    token = server.data_dir / "join-token"
    server.stop()
    agent = start(
        "--mode", "agent", "--api-addr", f"127.0.0.1:{port}", "--token-file", str(token),
        "--node-name", "worker-1", data_dir="b",
    )  # fmt: skip
    eventually(lambda: "waiting for the server" in agent.log.read_text(), what="it says so")
    server.start()
    server.wait_ready()
    eventually(lambda: "worker-1" in server.kubectl("get", "nodes"), what="it registers")
    eventually(lambda: " Ready" in server.kubectl("get", "nodes"), what="it gets Ready")
    server.kubectl("delete", "node", "worker-1")
    eventually(lambda: " Ready" in server.kubectl("get", "nodes"), what="it registers again")
    assert agent.stop() == 0


def test_a_second_agent_of_one_name_is_told_how_to_replace_the_first(start: Start) -> None:
    """k3s-io/k3s#6054, #802: a machine that was reinstalled was refused for a stored password."""
    server = start("--mode", "server", "--addr", f"127.0.0.1:{free_port()}")
    server.wait_ready()
    flags = (
        "--mode", "agent", "--api-addr", server.flags[3], "--node-name", "worker-1",
        "--token-file", str(server.data_dir / "join-token"),
    )  # fmt: skip
    first = start(*flags, data_dir="first")
    eventually(lambda: " Ready" in server.kubectl("get", "nodes"), what="it gets Ready")
    reinstalled = str(server.data_dir.parent / "second")
    code, text = failure(*flags, "--runtime", "hollow", "--data-dir", reinstalled)
    assert code == 1
    assert "kubectl delete node worker-1" in text.strip().splitlines()[-1]
    first.kill()
    server.kubectl("delete", "node", "worker-1")
    start(*flags, data_dir="second")
    eventually(lambda: " Ready" in server.kubectl("get", "nodes"), what="the second one is in")


def test_a_wrong_token_is_refused_with_the_cause(start: Start) -> None:
    server = start("--mode", "server", "--addr", f"127.0.0.1:{free_port()}")
    server.wait_ready()
    address = server.flags[3]
    token = (server.data_dir / "join-token").read_text().strip()
    code, text = failure(
        "--mode", "agent", "--runtime", "hollow", "--api-addr", address,
        "--token", token[:-1] + "x",
        "--data-dir", str(server.data_dir.parent / "agent"),
    )  # fmt: skip
    assert code == 1
    assert "token" in text.strip().splitlines()[-1]
    assert "Traceback" not in text


def test_two_standalones_run_side_by_side(start: Start) -> None:
    one = start("--mode", "standalone", "--addr", f"127.0.0.1:{free_port()}")
    two = start(
        "--mode", "standalone", "--addr", f"127.0.0.1:{free_port()}",
        "--pod-cidr", "10.52.0.0/16", "--service-cidr", "10.53.0.0/16", data_dir="b",
    )  # fmt: skip
    one.wait_ready()
    two.wait_ready()
    one.kubectl("create", "configmap", "mine")
    assert "mine" not in two.kubectl("get", "configmaps")


def test_a_second_signal_ends_at_once(start: Start) -> None:
    program = start("--mode", "server", "--addr", f"127.0.0.1:{free_port()}")
    program.wait_ready()
    assert program.process is not None
    process = program.process
    os.kill(process.pid, signal.SIGTERM)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(10) in (0, 128 + signal.SIGTERM)


def test_insecure_serves_plain_http_on_loopback_and_reaches_its_agents(start: Start) -> None:
    program = start(
        "--mode", "standalone", "--insecure", "--addr", f"127.0.0.1:{free_port()}",
    )  # fmt: skip
    program.wait_ready()
    assert "server: http://127.0.0.1:" in program.kubeconfig.read_text()
    program.kubectl("run", "talker", "--image=any", "--command", "--", "sh", "-c", "echo hello")
    eventually(lambda: "hello" in program.kubectl("logs", "talker"), what="its log")


def test_a_static_token_is_a_user(start: Start, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,alice,1,"system:masters"\nother,bob,2\n')
    program = start(
        "--mode", "server", "--addr", f"127.0.0.1:{free_port()}", "--token-auth-file", str(tokens)
    )
    program.wait_ready()
    kubeconfig = program.data_dir / "alice"
    as_user = ("--kubeconfig", str(kubeconfig), "--insecure-skip-tls-verify")
    kubeconfig.write_text("")
    server = ("--server", f"https://{program.flags[3]}")
    assert "default" in program.kubectl(*as_user, *server, "--token=secret", "get", "namespaces")
    denied = ("get", "secrets", "--token=other")
    with pytest.raises(AssertionError, match='User "bob" cannot list resource "secrets"'):
        program.kubectl(*as_user, *server, *denied)
