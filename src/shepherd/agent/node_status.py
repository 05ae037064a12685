"""The Node object: what it says of this machine, and the heartbeats that prove it lives.

`NodeKeeper` registers the node, keeps its status true and renews its Lease. Labels, taints and
annotations that others set are never touched. Source: kubernetes pkg/kubelet/kubelet_node_status.go
and nodestatus/setters.go; "Node status" in the Kubernetes documentation.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random

from shepherd.agent import machine
from shepherd.agent.node import AgentConfig, NodeFacts
from shepherd.api.errors import ApiError
from shepherd.api.kinds import LEASE, NODE
from shepherd.api.meta import format_micro_time, format_time, owner_reference
from shepherd.api.objects import Node
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.informer import Informer
from shepherd.client.recorder import Recorder, reference
from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock
from shepherd.runtime.base import ImageInfo, Runtime, SheepError

_log = logging.getLogger("shepherd.agent.node")

KUBELET_VERSION = "v1.37.0-shepherd"
LEASE_NAMESPACE = "kube-node-lease"
_LEASE_SECONDS = 40
_HEARTBEAT_SECONDS = 10.0
_REPORT_SECONDS = 300.0
_BACKOFF = Backoff(initial=0.1, cap=10.0, jitter=0.5)

_IMAGES_LIMIT = 50
_RESERVED_MEMORY_BYTES = 100 * 1024 * 1024
"""Kept back from pods, and the mark of memory pressure (kubelet's hard eviction threshold)."""
_LEAST_DISK_SHARE = 0.05
_LEAST_PROCESSES_SHARE = 0.05


def labels(config: AgentConfig) -> dict[str, str]:
    """The labels that the agent owns on its Node."""
    return {
        "kubernetes.io/hostname": config.node_name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture(),
        **config.labels,
    }


def capacity(config: AgentConfig) -> dict[str, str]:
    """What the node has, as quantities."""
    if config.capacity:
        return config.capacity
    cpus = machine.cpus()
    return {
        "cpu": str(int(cpus)) if cpus == int(cpus) else f"{int(cpus * 1000)}m",
        "memory": f"{machine.memory_bytes() // 1024}Ki",
        "ephemeral-storage": f"{machine.disk_bytes(config.data_dir) // 1024}Ki",
        "pods": str(config.max_pods),
    }


def allocatable(capacity: dict[str, str]) -> dict[str, str]:
    """What pods may ask for."""
    memory_kib = int(capacity["memory"].removesuffix("Ki")) - _RESERVED_MEMORY_BYTES // 1024
    return capacity | {"memory": f"{max(0, memory_kib)}Ki"}


def conditions(use: machine.Use, not_ready: str) -> list[Object]:
    """The node's conditions; `not_ready` says why it cannot run pods, or is empty."""
    memory = use.memory_available_bytes < _RESERVED_MEMORY_BYTES
    disk = min(use.disk_free_share, use.disk_inodes_free_share) < _LEAST_DISK_SHARE
    processes = use.processes_free_share < _LEAST_PROCESSES_SHARE
    return [
        _pressure("MemoryPressure", memory, "InsufficientMemory", "SufficientMemory"),
        _pressure("DiskPressure", disk, "DiskPressure", "NoDiskPressure"),
        _pressure("PIDPressure", processes, "InsufficientPID", "SufficientPID"),
        {
            "type": "Ready",
            "status": "False" if not_ready else "True",
            "reason": "KubeletNotReady" if not_ready else "KubeletReady",
            "message": not_ready or "the agent is posting ready status",
        },
    ]


def pressures(conditions: list[Object]) -> frozenset[str]:
    """The types of those that say what the node runs out of."""
    held = {c["type"] for c in conditions if c["status"] == "True"}
    return frozenset(held - {"Ready"})


_WORDS = {
    "InsufficientMemory": "insufficient memory available",
    "SufficientMemory": "sufficient memory available",
    "DiskPressure": "disk pressure",
    "NoDiskPressure": "no disk pressure",
    "InsufficientPID": "insufficient PID available",
    "SufficientPID": "sufficient PID available",
}


def _pressure(type: str, holds: bool, pressed: str, healthy: str) -> Object:
    reason = pressed if holds else healthy
    return {
        "type": type,
        "status": "True" if holds else "False",
        "reason": f"KubeletHas{reason}",
        "message": f"kubelet has {_WORDS[reason]}",
    }


def with_times(fresh: list[Object], before: list[Object], now: float) -> list[Object]:
    """Conditions with their times; a transition time changes only with the status."""
    known = {c["type"]: c for c in before}
    stamp = format_time(now)
    return [
        c
        | {
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": known[c["type"]]["lastTransitionTime"]
            if known.get(c["type"], {}).get("status") == c["status"]
            else stamp,
        }
        for c in fresh
    ]


def transitions(fresh: list[Object], before: list[Object]) -> list[str]:
    """The reasons of the events that tell what has changed, in kubelet's words: `NodeReady`,
    `NodeHasDiskPressure`. What a new node is spared is no news."""
    known = {c["type"]: c["status"] for c in before}
    return [
        c["reason"].replace("Kubelet", "Node", 1)
        for c in fresh
        if known.get(c["type"], "False" if c["type"] != "Ready" else "") != c["status"]
    ]


def image_list(images: list[ImageInfo]) -> list[Object]:
    """The node's images, largest first, for the scheduler's image locality."""
    largest = sorted(images, key=lambda image: -image.size_bytes)[:_IMAGES_LIMIT]
    return [
        {"names": [*image.digests, *image.tags], "sizeBytes": image.size_bytes} for image in largest
    ]


class NodeKeeper:
    """Keeps the Node object and its Lease."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        *,
        config: AgentConfig,
        facts: NodeFacts,
        clock: Clock,
        random: Random,
        endpoint_port: Callable[[], int],
        network_ready: asyncio.Event,
        recorder: Recorder,
    ) -> None:
        """`network_ready` is set once the runtime can give pods addresses."""
        self._client = client
        self._runtime = runtime
        self._config = config
        self._facts = facts
        self._clock = clock
        self._random = random
        self._endpoint_port = endpoint_port
        self._network_ready = network_ready
        self._recorder = recorder
        self._informer = Informer(
            client,
            NODE,
            Node,
            clock=clock,
            field_selector=f"metadata.name={config.node_name}",
            random=random,
        )
        self._informer.on_change(self._changed)
        self._missing = asyncio.Event()
        self._missing.set()
        self._told = asyncio.Event()
        """The Node as the API has it may call for something."""
        self._pod_cidr = ""
        """The range that the runtime gives addresses out of."""
        self._network_problem = (
            "the node has no pod range yet (spec.podCIDR, which a controller of the server gives)"
        )
        self._conditions: list[Object] = []
        self._reported: Object = {}
        self._reported_at = 0.0
        self.ready = asyncio.Event()
        """Set when the API has been told that the node is ready."""

    async def run(self, runtime_started: asyncio.Event) -> None:
        """Never returns."""
        self._machine = machine.node_info()
        self._capacity = await asyncio.to_thread(capacity, self._config)
        self._facts.memory_bytes = machine.memory_bytes()
        self._facts.allocatable = allocatable(self._capacity)
        self._facts.labels = labels(self._config)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_registered())
            group.create_task(self._informer.run())
            group.create_task(self._keep_lease())
            await runtime_started.wait()
            group.create_task(self._keep_status())

    def images_changed(self) -> None:
        self._told.set()

    def _changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            _log.warning("the server has forgotten node %s", self._config.node_name)
            self._missing.set()
            return
        if old is None or old.spec.pod_cidr != new.spec.pod_cidr:
            self._told.set()
        if old and old.ready and not new.ready:
            self._reported_at = 0.0  # the server gave the node up; it lives
            self._reported = {}
            self._told.set()
        self._facts.labels = new.metadata.labels

    # Registration

    async def _keep_registered(self) -> None:
        """Make the Node where there is none, at the start and whenever it is gone."""
        while True:
            await self._missing.wait()
            self._missing.clear()
            await self._retry(self._register)
            self._reported = {}
            self._told.set()

    async def _register(self) -> None:
        name, own = self._config.node_name, labels(self._config)
        node = {
            "apiVersion": NODE.api_version,
            "kind": NODE.kind,
            "metadata": {"name": name, "labels": own},
        }
        try:
            created = await self._client.create(NODE, node)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            created = await self._client.patch(NODE, name, None, {"metadata": {"labels": own}})
        self._informer.observe(created)
        _log.info("node %s is registered", name)

    async def _retry(self, attempt: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            try:
                await attempt()
                return
            except (ConnectionError, ApiError) as error:
                failures += 1
                if failures == 3:
                    _log.warning("node %s: %s; retrying", self._config.node_name, error)
                await self._clock.sleep(_BACKOFF.delay(failures, self._random))

    # Status

    async def _keep_status(self) -> None:
        """Report when something changed, and every five minutes."""
        while True:
            await self._configure_network()
            await self._retry(self._report)
            await self._told_or_tick()

    async def _told_or_tick(self) -> None:
        timer = asyncio.ensure_future(self._clock.sleep(_HEARTBEAT_SECONDS))
        told = asyncio.ensure_future(self._told.wait())
        try:
            await asyncio.wait((timer, told), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (timer, told):
                task.cancel()
        self._told.clear()

    async def _configure_network(self) -> None:
        node = self._informer.get(self._config.node_name)
        if node is None or node.spec.pod_cidr in ("", self._pod_cidr):
            return
        try:
            await self._runtime.configure_network(node.spec.pod_cidr)
        except SheepError as error:
            _log.error("pod network %s: %s", node.spec.pod_cidr, error.message)
            self._network_problem = error.message
        else:
            self._pod_cidr = node.spec.pod_cidr
            self._network_ready.set()

    def _not_ready(self) -> str:
        if self._network_ready.is_set():
            return ""
        return f"container runtime network not ready: {self._network_problem}"

    async def _report(self) -> None:
        status = self._status(self._not_ready())
        status["images"] = image_list(await self._runtime.images.list())
        self._facts.pressures = pressures(status["conditions"])
        now = self._clock.monotonic()
        if status == self._reported and now - self._reported_at < _REPORT_SECONDS:
            return
        known = self._conditions or self._earlier_conditions()
        self._conditions = with_times(status["conditions"], known, self._clock.now())
        body = status | {
            "conditions": self._conditions,
            "addresses": [*status["addresses"], {"$patch": "replace"}],
        }
        try:
            await self._client.patch(
                NODE, self._config.node_name, None, {"status": body}, type="strategic", sub="status"
            )
        except ApiError as error:
            if error.code != 404:
                raise
            self._missing.set()
            return
        self._reported, self._reported_at = status, now
        self._tell(transitions(self._conditions, known))
        if self._network_ready.is_set() and not self.ready.is_set():
            _log.info("node %s is ready", self._config.node_name)
            self.ready.set()

    def _tell(self, reasons: list[str]) -> None:
        name = self._config.node_name
        if node := self._informer.get(name):
            for reason in reasons:
                text = f"Node {name} status is now: {reason}"
                self._recorder.event(reference(NODE, node.metadata), "Normal", reason, text)

    def _earlier_conditions(self) -> list[Object]:
        """Those that an earlier agent reported."""
        node = self._informer.get(self._config.node_name)
        return [
            {"type": c.type, "status": c.status, "lastTransitionTime": c.last_transition_time}
            for c in (node.status.conditions if node else ())
        ]

    def _use(self) -> machine.Use:
        return machine.PLENTY if self._config.capacity else machine.use(self._config.data_dir)

    def _status(self, not_ready: str) -> Object:
        """The status without times and images."""
        runtime = self._runtime.describe()
        return {
            "capacity": self._capacity,
            "allocatable": self._facts.allocatable,
            "conditions": conditions(self._use(), not_ready),
            "addresses": [
                {"type": "InternalIP", "address": self._facts.host_ip},
                {"type": "Hostname", "address": self._config.node_name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._endpoint_port()}},
            "nodeInfo": {
                **self._machine,
                "containerRuntimeVersion": f"{runtime.name}://{runtime.version}",
                "kubeletVersion": KUBELET_VERSION,
                "kubeProxyVersion": "",
            },
        }

    # Lease

    async def _keep_lease(self) -> None:
        while True:
            await self._retry(self._renew)
            await self._clock.sleep(_HEARTBEAT_SECONDS)

    async def _renew(self) -> None:
        name, now = self._config.node_name, format_micro_time(self._clock.now())
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": now,
        }
        try:
            await self._client.patch(LEASE, name, LEASE_NAMESPACE, {"spec": spec})
        except ApiError as error:
            if error.code != 404:
                raise
            metadata: Object = {"name": name, "namespace": LEASE_NAMESPACE}
            if node := self._informer.get(name):
                owner: Object = {"apiVersion": NODE.api_version, "kind": NODE.kind}
                owner["metadata"] = {"name": name, "uid": node.metadata.uid}
                metadata["ownerReferences"] = [owner_reference(owner, controller=False)]
            lease = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata}
            await self._client.create(LEASE, lease | {"spec": spec})
