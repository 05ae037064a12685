"""exec, attach, port-forward, cp, run -i and debug, by kubectl and as the Python clients do it."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from shepherd.client.kubeconfig import read_kubeconfig
from shepherd.testing.program import BIN, Program, eventually

IMAGE = "shepherd.local/demo:1"
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
"""What makes kubectl speak as version 1.29 and older do."""
both = pytest.mark.parametrize("extra", [{}, SPDY], ids=["websocket", "spdy"])
Extra = dict[str, str]


def environment(cluster: Program, extra: Extra) -> dict[str, str]:
    home = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.data_dir / "home")}
    return os.environ | home | extra


def kubectl(
    cluster: Program, *arguments: str, text: str = "", extra: Extra | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run kubectl with `text` as its input, whatever its exit code."""
    return subprocess.run(
        [BIN / "kubectl", *arguments], env=environment(cluster, extra or {}), input=text,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@contextmanager
def begun(cluster: Program, *arguments: str, extra: Extra) -> "Iterator[subprocess.Popen[bytes]]":
    """kubectl, running beside the test."""
    process = subprocess.Popen(
        [BIN / "kubectl", *arguments], env=environment(cluster, extra),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def web(cluster: Program) -> Iterator[Program]:
    cluster.kubectl("run", "web", f"--image={IMAGE}")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=30s")
    yield cluster
    cluster.kubectl("delete", "pod", "web", "--now")


def runs(cluster: Program, words: str) -> bool:
    return words in cluster.kubectl("exec", "web", "--", "ps", "-o", "args")


@both
def test_streams_and_exit_codes_are_the_commands_own(web: Program, extra: Extra) -> None:
    script = "echo out; echo err >&2; exit 42"
    done = kubectl(web, "exec", "web", "--", "sh", "-c", script, extra=extra)
    assert (done.stdout, done.returncode) == ("out\n", 42)
    assert done.stderr == "err\ncommand terminated with exit code 42\n"
    killed = kubectl(web, "exec", "web", "--", "sh", "-c", "kill -9 $$", extra=extra)
    assert killed.returncode == 137


@both
def test_input_ends_when_the_client_has_no_more(web: Program, extra: Extra) -> None:
    text = "one\ntwo\n"
    done = kubectl(web, "exec", "-i", "web", "--", "sh", "-c", "cat; wc -l", text=text, extra=extra)
    assert (done.stdout, done.returncode) == (f"{text}0\n", 0)


def test_a_program_that_cannot_be_run_has_the_shells_exit_codes(web: Program) -> None:
    missing = kubectl(web, "exec", "web", "--", "nosuch")
    assert missing.returncode == 127
    assert "executable file `nosuch` not found in $PATH" in missing.stderr
    assert kubectl(web, "exec", "web", "--", "/etc/passwd").returncode == 126
    wrong = kubectl(web, "exec", "web", "-c", "nobody", "--", "true")
    assert "container nobody is not valid for pod web" in wrong.stderr
    assert 'pods "nobody" not found' in kubectl(web, "exec", "nobody", "--", "true").stderr


def test_what_a_command_leaves_behind_does_not_hold_up_its_end(web: Program) -> None:
    done = kubectl(web, "exec", "web", "--", "sh", "-c", "sleep 4321 & echo started")
    assert (done.stdout, done.returncode) == ("started\n", 0)


@both
def test_a_terminal_has_the_size_of_the_clients(web: Program, extra: Extra) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 77, 0, 0))
    command = [str(BIN / "kubectl"), "exec", "-it", "web", "--", "sh"]
    process = subprocess.Popen(
        command, env=environment(web, extra), stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    seen = b""
    try:
        while b"# " not in seen:
            seen += os.read(master, 4096)
        os.write(master, b"until [ \"$(stty size)\" = '31 77' ]; do :; done; tty; exit 5\n")
        assert process.wait(30) == 5
        seen += os.read(master, 65536)
        assert b"/dev/pts/0" in seen
    finally:
        process.kill()
        process.wait()
        os.close(master)


@both
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_client_that_is_cut_off_ends_its_command(web: Program, extra: Extra, number: int) -> None:
    script = "echo begun; exec sleep 9876"
    with begun(web, "exec", "-i", "web", "--", "sh", "-c", script, extra=extra) as process:
        assert process.stdout
        assert process.stdout.readline() == b"begun\n"
        assert runs(web, "sleep 9876")
        process.send_signal(number)
        process.wait()
        eventually(lambda: not runs(web, "sleep 9876"), what="the command is ended")


def test_a_command_that_reads_no_input_ends_with_its_client(web: Program) -> None:
    """Nothing is read from a connection while its data have nowhere to go."""
    with begun(web, "exec", "-i", "web", "--", "sleep", "8765", extra={}) as process:
        assert process.stdin
        eventually(lambda: runs(web, "sleep 8765"), what="it runs")
        os.set_blocking(process.stdin.fileno(), False)
        full = 0
        while full < 20:  # no progress any more: every buffer on the way is full
            full = 0 if process.stdin.write(bytes(65536)) else full + 1
            time.sleep(0.02)
        process.kill()
        eventually(lambda: not runs(web, "sleep 8765"), what="it is ended")


@both
def test_large_files_are_copied_both_ways(web: Program, extra: Extra, tmp_path: Path) -> None:
    block = os.urandom(1 << 20)
    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(block * 100)
    for source, target in ((str(there), "web:/tmp/big"), ("web:/tmp/big", str(back))):
        done = kubectl(web, "cp", source, target, extra=extra)
        assert done.returncode == 0, done.stderr
    assert back.read_bytes() == there.read_bytes()
    assert web.process
    status = Path(f"/proc/{web.process.pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(peak.split()[1]) < 150 * 1024
    web.kubectl("exec", "web", "--", "rm", "/tmp/big")


@both
def test_ports_are_forwarded(web: Program, extra: Extra) -> None:
    with begun(web, "port-forward", "pod/web", ":8080", extra=extra) as process:
        assert process.stdout
        line = process.stdout.readline().decode()
        port = int(line.split("127.0.0.1:")[1].split()[0])
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                assert answer.read().strip() == b"web"


@both
def test_a_port_where_nobody_listens_is_told_of(web: Program, extra: Extra) -> None:
    with begun(web, "port-forward", "pod/web", ":9", extra=extra) as process:
        assert process.stdout
        port = int(process.stdout.readline().decode().split("127.0.0.1:")[1].split()[0])
        with pytest.raises(OSError, match=r".*"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)
        process.wait(10)
        assert b"Connection refused" in process.stdout.read()


@both
def test_a_pod_is_run_with_the_clients_input(cluster: Program, extra: Extra) -> None:
    run = ("run", "visitor", "-i", "--rm", f"--image={IMAGE}", "--restart=Never", "--")
    done = kubectl(cluster, *run, "sh", "-c", "cat; exit 3", text="piped\n", extra=extra)
    assert done.stdout.startswith("piped\n")
    assert done.returncode == 3
    assert cluster.get("pods", "--field-selector=metadata.name=visitor")["items"] == []


@both
def test_attaching_gives_the_containers_own_output(cluster: Program, extra: Extra) -> None:
    script = "while read line; do echo got $line; done"
    cluster.kubectl(
        "run", "listener", "-i", "--attach=false", "--leave-stdin-open", f"--image={IMAGE}",
        "--restart=Never", "--command", "--", "sh", "-c", script,
    )  # fmt: skip
    try:
        cluster.kubectl("wait", "--for=condition=Ready", "pod/listener", "--timeout=30s")
        with begun(cluster, "attach", "-i", "-q", "listener", extra=extra) as process:
            assert process.stdin
            assert process.stdout
            process.stdin.write(b"this\n")
            assert process.stdout.readline() == b"got this\n"
        assert cluster.get("pod", "listener")["status"]["phase"] == "Running"
    finally:
        cluster.kubectl("delete", "pod", "listener", "--now")


def test_a_debugger_sees_the_processes_of_its_target(web: Program) -> None:
    debug = ("debug", "-i", "web", "-c", "look", f"--image={IMAGE}", "--target=web", "--", "sh")
    done = kubectl(web, *debug, text="cat /proc/1/cmdline; exit 6\n")
    assert "/bin/serve" in done.stdout
    pod = web.get("pod", "web")
    (status,) = pod["status"]["ephemeralContainerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 6
    assert pod["status"]["containerStatuses"][0]["ready"]
    assert "/bin/serve" in web.kubectl("logs", "web", "-c", "look")
    change = '{"spec":{"ephemeralContainers":[{"name":"look","image":"another"}]}}'
    refused = kubectl(web, "patch", "pod", "web", "--subresource=ephemeralcontainers", "-p", change)
    assert "may not be changed" in refused.stderr


def test_sheepctl_runs_commands_too(web: Program) -> None:
    done = subprocess.run(
        [BIN / "sheepctl", "exec", "-i", "web", "--", "sh", "-c", "cat; echo err >&2; exit 42"],
        env=environment(web, {}), input=b"text" * 100_000, capture_output=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (b"text" * 100_000, b"err\n")
    assert done.returncode == 42


def test_sheepctl_forwards_ports_too(web: Program) -> None:
    process = subprocess.Popen(
        [BIN / "sheepctl", "port-forward", "web", ":8080", ":9"],
        env=environment(web, {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(2)]
        good, bad = (line.split("127.0.0.1:")[1].split()[0] for line in lines)
        with pytest.raises(OSError, match=r".*"):
            urllib.request.urlopen(f"http://127.0.0.1:{bad}/", timeout=10)
        for _ in range(3):  # one that fails does not end the others
            with urllib.request.urlopen(f"http://127.0.0.1:{good}/", timeout=10) as answer:
                assert answer.read().strip() == b"web"
    finally:
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Connection refused" in told


def test_pods_and_services_are_reached_by_proxy(web: Program) -> None:
    web.kubectl("expose", "pod", "web", "--port=80", "--target-port=8080", "--name=proxied")
    try:
        base = "/api/v1/namespaces/default"
        for path in ("services/proxied", "services/proxied:80", "pods/web:8080"):
            ask = partial(web.kubectl, "get", "--raw", f"{base}/{path}/proxy/")
            page = eventually(ask, what=path)
            assert page.strip() == "web"
    finally:
        web.kubectl("delete", "service", "proxied")


# As the Python clients do it


@asynccontextmanager
async def socket(
    cluster: Program, path: str, *protocols: str
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    config = read_kubeconfig([cluster.kubeconfig])
    context = config.ssl_context()
    assert context
    url = f"{config.server}/api/v1/namespaces/default/pods/{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, ssl=context, protocols=protocols) as connection,
    ):
        yield connection


async def channels(connection: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """All that comes, until the server says goodbye."""
    found: dict[int, bytes] = {}
    async for message in connection:
        found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    assert connection.close_code == 1000
    return found


async def test_v4_is_spoken(web: Program) -> None:
    query = "exec?command=sh&command=-c&command=echo+o;+echo+e+>%262;+exit+9&stdout=1&stderr=1"
    async with socket(web, f"web/{query}", "v4.channel.k8s.io") as connection:
        assert connection.protocol == "v4.channel.k8s.io"
        said = await channels(connection)
    assert (said[1], said[2]) == (b"o\n", b"e\n")
    assert json.loads(said[3])["details"]["causes"][0]["message"] == "9"


async def test_v5_ends_input_alone(web: Program) -> None:
    offers = ("v5.channel.k8s.io", "v4.channel.k8s.io")
    async with socket(web, "web/exec?command=cat&stdin=1&stdout=1", *offers) as connection:
        assert connection.protocol == "v5.channel.k8s.io"
        await connection.send_bytes(b"\x00hello")
        await connection.send_bytes(b"\xff\x00")
        said = await channels(connection)
    assert said[1] == b"hello"
    assert json.loads(said[3])["status"] == "Success"


@pytest.mark.parametrize("offers", [(), ("v5.channel.k8s.io", "v4.channel.k8s.io")])
async def test_ports_are_forwarded_by_channels(web: Program, offers: tuple[str, ...]) -> None:
    async with socket(web, "web/portforward?ports=8080", *offers) as connection:
        assert connection.protocol == ("v4.channel.k8s.io" if offers else None)
        number = (8080).to_bytes(2, "little")
        assert (await connection.receive_bytes(), await connection.receive_bytes()) == (
            b"\x00" + number,
            b"\x01" + number,
        )
        await connection.send_bytes(b"\x00GET / HTTP/1.0\r\n\r\n")
        said = await channels(connection)
    assert said[0].endswith(b"web\n")


async def test_an_idle_connection_lives_and_is_asked(web: Program) -> None:
    async with socket(web, "web/exec?command=cat&stdin=1&stdout=1", "v5.channel.k8s.io") as one:
        assert await one.receive_bytes() == b"\x01"
        await one.ping(b"there?")
        await one.send_bytes(b"\x00still")
        assert await one.receive_bytes() == b"\x01still"
