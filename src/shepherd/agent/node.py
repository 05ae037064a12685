"""What the workers of a node share: its parts, its facts, and how it is configured."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from shepherd.agent.checks import Checks
from shepherd.agent.images import NodeImages
from shepherd.agent.pod_state import BoundPod
from shepherd.agent.references import Lookup
from shepherd.agent.sources import Sources
from shepherd.agent.status_writer import StatusWriter
from shepherd.agent.tokens import Tokens
from shepherd.agent.volumes import Facts, Volumes
from shepherd.api.objects import Service
from shepherd.api.references import references
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.recorder import Recorder
from shepherd.lib.clock import Clock
from shepherd.runtime.base import Runtime


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """How an agent is run."""

    node_name: str
    data_dir: Path
    """The agent's own files lie under `agent/`, archives to import under `images/`."""
    node_ip: str = ""
    """The node's address; empty: the one from which it reaches the server or other networks."""
    server_host: str = ""
    """The API server's host name or address."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that the Node gets when it is registered."""
    capacity: dict[str, str] = field(default_factory=dict)
    """What the node is said to have, as quantities (memory in Ki); empty: what the machine has.
    With it the machine's own shortages are none of the node's."""
    max_pods: int = 110
    max_pids: int | None = None
    """Processes and threads that a container may have; None: as many as the machine can."""
    cluster_dns: str = ""
    """The address of the cluster's DNS; empty: pods use the node's own resolvers."""
    cluster_domain: str = "cluster.local"
    endpoint_host: str = ""
    endpoint_port: int = 0
    """Where the agent's own endpoints listen; empty: at every address, 0: at any free port."""
    start_concurrency: int = 4
    """Containers started at the same time: more gain nothing, and make each slower."""

    @property
    def directory(self) -> Path:
        return self.data_dir / "agent"


class PodFiles:
    """Where a pod's files lie on the node."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def pod(self, uid: str) -> Path:
        return self.root / uid

    def logs(self, uid: str) -> Path:
        return self.root / uid / "logs"

    def log(self, uid: str, container: str, attempt: int) -> Path:
        return self.root / uid / "logs" / container / f"{attempt}.log"

    def etc(self, uid: str) -> Path:
        return self.root / uid / "etc"

    def termination(self, uid: str, container: str, attempt: int) -> Path:
        return self.root / uid / "termination" / f"{container}-{attempt}"


@dataclass(slots=True)
class NodeFacts:
    """What the node is, as soon as it is known."""

    host_ip: str = ""
    memory_bytes: int = 0
    allocatable: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    pressures: frozenset[str] = frozenset()
    """The conditions that say what it runs out of: `DiskPressure`, ..."""


@dataclass(slots=True)
class Node:
    """The parts that pod workers use."""

    config: AgentConfig
    client: Client
    runtime: Runtime
    clock: Clock
    random: Random
    recorder: Recorder
    images: NodeImages
    sources: Sources
    tokens: Tokens
    volumes: Volumes
    statuses: StatusWriter
    checks: Checks
    files: PodFiles
    facts: NodeFacts
    services: Callable[[], Iterable[Service]]
    services_known: asyncio.Event
    """Set once `services` tells of all there are: the environment of containers needs them."""
    network_ready: asyncio.Event
    """Set once the runtime can give pods addresses."""
    starts: asyncio.Semaphore

    async def lookup(self, pod: BoundPod) -> Lookup:
        """What the pod refers to, as it is now."""
        return await self.sources.lookup(pod.metadata.uid, references(pod))

    async def volume_facts(self, pod: BoundPod, status: Object) -> Facts:
        """What the pod's volumes are made from, as it is now. Raises UnresolvedError."""
        lookup, tokens = await self.lookup(pod), await self.tokens.lookup(pod)
        return Facts(pod, status, lookup, self.facts.allocatable, tokens)
