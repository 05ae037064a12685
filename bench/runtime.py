"""Container work on the node, image present, as root: from a pod's config to its running process.

In the same rounds `podman run -d` and `docker run -d` do the
same work, where they are installed and usable.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

from bench.peers import Peer, peers
from bench.report import Row
from shepherd.lib.clock import SystemClock
from shepherd.runtime.base import ContainerConfig, SandboxConfig
from shepherd.runtime.oci import NetworkConfig, OciRuntime, kernel
from shepherd.runtime.oci.rtnetlink import MISSING, Netlink, link_delete

ARCHIVE = Path(__file__).parents[1] / "build" / "demo-image.tar"
IMAGE = "shepherd.local/demo:1"
INSTANCE = "shepbench"
ROUNDS = 30
MANY = 50
MS = 1000.0


def measure() -> list[Row]:
    if os.geteuid():
        raise PermissionError("real containers need root")
    with (
        tempfile.TemporaryDirectory(prefix="shepherd-bench-") as folder,
        peers(Path(folder) / "peers", ARCHIVE, IMAGE) as others,
    ):
        root = Path(folder) / "agent"
        try:
            return asyncio.run(_measure(root, others))
        finally:
            for point in kernel.mount_points(root):
                kernel.unmount(point)


@asynccontextmanager
async def _runtime(root: Path) -> AsyncIterator[OciRuntime]:
    runtime = OciRuntime(
        root,
        network=NetworkConfig(INSTANCE, pod_cidr="10.42.0.0/24"),
        clock=SystemClock(),
        instance=INSTANCE,
    )
    await runtime.start()
    try:
        yield runtime
    finally:
        for sandbox in await runtime.sandboxes():
            await runtime.remove_sandbox(sandbox.id)
        await runtime.close()
        with Netlink() as netlink:
            netlink.run(link_delete(INSTANCE), ignore=MISSING)


async def _measure(root: Path, others: list[Peer]) -> list[Row]:
    async with _runtime(root) as runtime:
        name = runtime.describe().name
        [image] = await runtime.images.load(str(ARCHIVE))
        await _start(runtime, image.id, "warm")
        await runtime.remove_sandbox("warm")
        starts, stops, theirs = await _one_by_one(runtime, image.id, others)
        rows = [
            Row(f"pod start on the node ({name}), p50", median(starts) * MS, "ms", "<= 45"),
            Row("pod start on the node, p99", _p99(starts) * MS, "ms", "<= 120"),
            Row("stop without grace, p50", median(stops) * MS, "ms", "<= 15"),
        ]
        for peer, times in theirs.items():
            ratio = median(times) / median(starts)
            note = f"{median(times) * MS:.0f} ms p50"
            rows.append(Row(f"{peer} run -d / pod start", ratio, "x", ">= 4", note))
        return rows + await _many(runtime, image.id)


async def _one_by_one(
    runtime: OciRuntime, image: str, others: list[Peer]
) -> tuple[list[float], list[float], dict[str, list[float]]]:
    """Seconds of our starts, our stops, and of each peer's starts."""
    starts, stops = [], []
    theirs: dict[str, list[float]] = {peer.name: [] for peer in others}
    for number in range(ROUNDS):
        began = time.perf_counter()
        container = await _start(runtime, image, f"one{number}")
        starts.append(time.perf_counter() - began)
        for peer in others:
            theirs[peer.name].append(await asyncio.to_thread(peer.start))
        began = time.perf_counter()
        await runtime.stop_container(container, 0)
        stops.append(time.perf_counter() - began)
        await runtime.remove_sandbox(f"one{number}")
    return starts, stops, theirs


async def _many(runtime: OciRuntime, image: str) -> list[Row]:
    began = time.perf_counter()
    await asyncio.gather(*(_start(runtime, image, f"many{number}") for number in range(MANY)))
    seconds = time.perf_counter() - began
    kept = [_proportional_bytes(pid) for pid in _monitors(runtime.root)]
    return [
        Row(f"{MANY} pods at once, on the node", seconds, "s", "<= 1.0"),
        Row("PSS per idle pod beside its process", sum(kept) / len(kept) / 1e6, "MB", "<= 0.6"),
    ]


async def _start(runtime: OciRuntime, image: str, name: str) -> str:
    sandbox = SandboxConfig(
        name, pod_uid=name, pod_name=name, pod_namespace="bench", hostname=name
    )  # fmt: skip
    await runtime.run_sandbox(sandbox)
    container = ContainerConfig(
        f"{name}-c", name, "c", 0, image, command=("sleep", "3600"),
        log_path=str(runtime.root / "logs" / f"{name}.log"),
    )  # fmt: skip
    await runtime.start_container(container)
    return container.id


def _monitors(root: Path) -> list[int]:
    """The monitor processes of our containers."""
    return [int(file.read_text()) for file in root.glob("containers/*/conmon.pid")]


def _proportional_bytes(pid: int) -> int:
    """What a process holds in memory, with its share of what it shares (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(pid)


def _p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]
