"""Sandboxes and containers as the running agent holds them: the record on disk and what is known of
it now."""

import asyncio
import os
import signal
from dataclasses import dataclass, field

from shepherd.runtime.base import ContainerInfo, SandboxInfo
from shepherd.runtime.oci.containers import ContainerRecord
from shepherd.runtime.oci.sandboxes import SandboxRecord
from shepherd.runtime.oci.workers import readable


@dataclass(slots=True)
class HeldContainer:
    record: ContainerRecord
    info: ContainerInfo
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when `info` tells of its end."""

    async def monitor_ended(self) -> None:
        """Wait until its conmon has ended."""
        descriptor = self.record.monitor.open()
        if descriptor is None:
            return
        try:
            await readable(descriptor)
        finally:
            os.close(descriptor)


@dataclass(slots=True)
class HeldSandbox:
    record: SandboxRecord
    ready: bool
    containers: dict[str, HeldContainer] = field(default_factory=dict)

    def info(self) -> SandboxInfo:
        config, address = self.record.config, self.record.address
        return SandboxInfo(
            id=config.id, pod_uid=config.pod_uid, pod_name=config.pod_name,
            pod_namespace=config.pod_namespace, attempt=config.attempt, ready=self.ready,
            addresses=(address,) if address else (), created_at=self.record.created_at,
            resources=config.resources,
            containers=tuple(container.info for container in self.containers.values()),
        )  # fmt: skip


def signal_number(name: str) -> int:
    """A stop signal as images and pods name it (`SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`); SIGTERM for
    none, and for one that this machine does not know."""
    text = name.strip().upper()
    if text.isdigit():
        return int(text)
    base, _, offset = text.removeprefix("SIG").partition("+")
    number = getattr(signal, f"SIG{base}", signal.SIGTERM) if base else signal.SIGTERM
    return int(number) + (int(offset) if offset.isdigit() else 0)
