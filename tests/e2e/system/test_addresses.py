"""Where programs listen and are reached: single interfaces, IPv6, loopback only, and side by side.
The image is there, the containers are real."""

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shepherd.testing.program import Program, eventually

IMAGE = "shepherd.local/demo:1"
EXAMPLE = str(Path(__file__).parents[3] / "examples" / "web.yaml")
NewStandalone = Callable[..., Program]
RANGES = ("--pod-cidr", "10.72.0.0/16", "--service-cidr", "10.73.0.0/16")


@pytest.fixture(scope="module", autouse=True)
def interface(network_namespace: None) -> None:
    """An interface with 10.77.0.1 and fd77::1, by which nobody else can be reached."""
    for command in (
        "link add lan type bridge",
        "addr add 10.77.0.1/24 dev lan",
        "addr add fd77::1/64 dev lan nodad",
        "link set lan up",
    ):
        subprocess.run(["ip", *command.split()], check=True)


def listen_at(program: Program, address: str, *flags: str) -> None:
    """Start (again) at this address."""
    program.stop()
    program.kubeconfig.unlink(missing_ok=True)
    program.flags = ["--mode", "standalone", "--addr", address, *RANGES, *flags]
    program.start().wait_ready()


def said(program: Program, script: str) -> str:
    """What a pod prints that runs `script`; also proves that the server reaches the agent."""
    run = ("run", "p", f"--image={IMAGE}", "--restart=Never", "--command", "--", "sh", "-c")
    program.kubectl(*run, script)
    over = ("Succeeded", "Failed")
    eventually(lambda: program.get("pod", "p")["status"]["phase"] in over, what="it ends")
    log = program.kubectl("logs", "p")
    program.kubectl("delete", "pod", "p")
    return log


def test_the_api_at_one_address_at_a_time(new_standalone: NewStandalone) -> None:
    program = new_standalone("one", 9880)
    ask = "nc -w 2 $KUBERNETES_SERVICE_HOST 443 </dev/null && echo reached || echo refused"
    listen_at(program, "10.77.0.1:9880")
    assert "https://10.77.0.1:9880" in program.kubeconfig.read_text()
    assert "reached" in said(program, ask)
    listen_at(program, "[fd77::1]:9880")
    assert program.get("nodes")["items"][0]["status"]["addresses"][0]["address"] == "fd77::1"
    assert "refused" in said(program, ask)
    listen_at(program, "127.0.0.1:9880", "--insecure")
    assert "http://127.0.0.1:9880" in program.kubeconfig.read_text()
    assert "refused" in said(program, ask)


def serves_its_own(program: Program) -> bool:
    """The service's address leads to this cluster's pods."""
    names = {pod["metadata"]["name"] for pod in program.get("pods")["items"]}
    address = program.get("service", "web")["spec"]["clusterIP"]
    return program.run("curl", "-sS", "-m", "5", f"http://{address}/").strip() in names


def test_two_standalones_side_by_side(new_standalone: NewStandalone) -> None:
    one = new_standalone("one", 9876)
    two = new_standalone("two", 9877, "--node-name", "two", *RANGES)
    for program in (one, two):
        program.start()
    for program in (one, two):
        program.wait_ready()
        program.kubectl("apply", "-f", EXAMPLE)
    for program in (one, two):
        program.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        eventually(partial(serves_its_own, program), what="its own pods answer")
    two.kubectl("delete", "-f", EXAMPLE)
    assert serves_its_own(one)
    assert len(one.get("pods", "-l", "app=web")["items"]) == 3
