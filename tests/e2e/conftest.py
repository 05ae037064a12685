"""End-to-end tests run real containers, as root.

Each module has a network namespace of its own, without a way out: the test process moves into it,
and all it starts are born in it. (`ip netns exec` would mount /sys anew and hide the cgroups.)
"""

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.runtime.oci import kernel
from shepherd.runtime.oci.cgroups import Cgroups
from shepherd.runtime.oci.rtnetlink import MISSING, Netlink, link_delete, link_up

ROOT = Path(__file__).parents[2]
DEMO_IMAGE = ROOT / "build" / "demo-image.tar"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="module", autouse=True)
def network_namespace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The module's own network, loopback up, left again at its end. Whatever then still runs in it,
    and is still mounted in the tests' directories, was left by a test that failed: it is ended."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        kernel.unshare(kernel.CLONE_NEWNET)
        with Netlink() as netlink:
            netlink.run(link_up("lo"))
        yield
        end_processes(os.readlink("/proc/thread-self/ns/net"))
        kernel.setns(home, kernel.CLONE_NEWNET)
        for point in kernel.mount_points(tmp_path_factory.getbasetemp()):
            kernel.unmount(point)
    finally:
        os.close(home)


def end_processes(namespace: str) -> None:
    """SIGKILL to all but us in a network namespace, and to the containers of the monitors in it
    (a container lives in its pod's)."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if int(folder.name) == os.getpid() or os.readlink(folder / "ns" / "net") != namespace:
                continue
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            if "--container-pidfile" in words:
                pid_file = Path(words[words.index("--container-pidfile") + 1])
                os.kill(int(pid_file.read_text()), signal.SIGKILL)
            os.kill(int(folder.name), signal.SIGKILL)


@pytest.fixture(scope="session")
def demo_image() -> Path:
    """The archive of the image `shepherd.local/demo:1`."""
    assert DEMO_IMAGE.exists(), "run `make setup` first"
    return DEMO_IMAGE


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[str]:
    """A name for what a runtime owns in the kernel. Whatever a failed test left of it, and of
    mounts in the test's directory, is removed."""
    name = f"sheept{socket.htons(os.getpid() & 0xFFFF):x}"
    yield name
    clean_up(tmp_path, name)


def clean_up(folder: Path, instance: str) -> None:
    """End the processes in the instance's cgroups, the mounts in a directory, and its bridge."""
    cgroups = Cgroups(folder)
    for group in cgroups.below(f"/{instance}"):
        cgroups.kill(group)
    cgroups.remove(f"/{instance}")
    for point in kernel.mount_points(folder):
        kernel.unmount(point)
    with Netlink() as netlink:
        netlink.run(link_delete(instance), ignore=MISSING)
