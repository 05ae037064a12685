"""End-to-end tests run real containers, as root.

Each module has a network namespace of its own, without a way out: the test process moves into it,
and all it starts are born in it. (`ip netns exec` would mount /sys anew and hide the cgroups.)
"""

import os
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
def network_namespace() -> Iterator[None]:
    """The module's own network, loopback up, left again at its end."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        kernel.unshare(kernel.CLONE_NEWNET)
        with Netlink() as netlink:
            netlink.run(link_up("lo"))
        yield
        kernel.setns(home, kernel.CLONE_NEWNET)
    finally:
        os.close(home)


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
    cgroups = Cgroups()
    for group in cgroups.below(f"/{instance}"):
        cgroups.kill(group)
    for point in kernel.mount_points(folder):
        kernel.unmount(point)
    with Netlink() as netlink:
        netlink.run(link_delete(instance), ignore=MISSING)
