"""`Cluster`: a real API server, scheduler, controllers and nodes inside a test's process.

    with Cluster(nodes=3) as cluster:
        api = kr8s.api(**cluster.settings.kr8s)
        ...
        cluster.clock.advance(3600)
        cluster.nodes.lose("n1")

It runs in a thread of its own, so that nothing a test does holds it up, in memory, on a free port
of the loopback interface. `AsyncCluster` is the same for code in an event loop: what blocks here
is awaited there.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Generic, TypeVar

from shepherd.testing.embedded import ClusterConfig
from shepherd.testing.faults import Injector
from shepherd.testing.settings import Settings
from shepherd.testing.thread import ClusterThread
from shepherd.testing.wire import NO_FAULTS, Faults

Done = TypeVar("Done")
"""What a method gives that has something done: None once it is, or what is to be awaited."""
_Do = Callable[[Coroutine[Any, Any, None]], Done]


class ClusterClock(Generic[Done]):
    """The time in a cluster: real time, and what it was advanced by."""

    def __init__(self, thread: ClusterThread, do: _Do[Done]) -> None:
        self._thread = thread
        self._do = do

    def now(self) -> float:
        """Seconds since the Unix epoch, as the cluster sees it."""
        return self._thread.cluster.clock.now()

    def advance(self, seconds: float) -> Done:
        """Move time forward, without waiting for it.

        All that was due meanwhile happens, in its order: back-off, probes, deadlines, leases,
        ends of tokens. Clients outside have only real time to react in.
        """
        return self._do(self._thread.cluster.clock.advance(seconds))


class ClusterNodes(Generic[Done]):
    """The nodes of a cluster, by name: `n1` and on."""

    def __init__(self, thread: ClusterThread, do: _Do[Done]) -> None:
        self._thread = thread
        self._do = do

    @property
    def names(self) -> list[str]:
        return list(self._thread.cluster.parts.nodes)

    def add(self, name: str) -> Done:
        """A new hollow node; done when it is ready. Also the agent of one that was stopped."""
        return self._do(self._thread.cluster.start_nodes([name]))

    def stop(self, name: str) -> Done:
        """The agent ends, its containers run on."""
        return self._do(self._thread.cluster.parts.stop_agent(name))

    def lose(self, name: str) -> Done:
        """The machine is gone, with all that ran on it."""
        return self._do(self._thread.cluster.parts.lose_node(name))

    def cut_off(self, name: str) -> Done:
        """The node goes on, without a way to the server."""
        return self._do(self._thread.cluster.cut_off(name, True))

    def reconnect(self, name: str) -> Done:
        return self._do(self._thread.cluster.cut_off(name, False))

    def skew_clock(self, name: str, seconds: float) -> None:
        """The node's clock is wrong by so much, from now on."""
        self._thread.cluster.parts.nodes[name].clock.skew_seconds = seconds


class _Face(ABC, Generic[Done]):
    """What both kinds of cluster offer."""

    def __init__(
        self,
        nodes: int = 1,
        *,
        runtime: str = "hollow",
        tls: bool = False,
        faults: Faults = NO_FAULTS,
        client_faults: Faults = NO_FAULTS,
        seed: int = 1,
    ) -> None:
        """See `ClusterConfig`. Raises ValueError."""
        config = ClusterConfig(nodes, runtime, tls, faults, client_faults, seed)
        self._thread = ClusterThread(config)
        self._random = Random(seed)
        self.clock: ClusterClock[Done] = ClusterClock(self._thread, self._do)
        self.nodes: ClusterNodes[Done] = ClusterNodes(self._thread, self._do)

    @property
    def settings(self) -> Settings:
        """How an administrator's clients reach it."""
        return self._thread.cluster.settings

    @property
    def kubeconfig(self) -> Path:
        return self.settings.kubeconfig

    @property
    def faults(self) -> Injector:
        """What can be done to clients."""
        return self._thread.cluster.faults

    @property
    def random(self) -> Random:
        """Chance for the test itself, the same for the same seed: which node is lost, and when."""
        return self._random

    def restart_server(self, *, down_seconds: float = 0.0) -> Done:
        """Every connection breaks; the store keeps what it holds."""
        return self._do(self._thread.cluster.parts.restart_server(down_seconds=down_seconds))

    @abstractmethod
    def _do(self, work: Coroutine[Any, Any, None]) -> Done:
        """Have it done in the cluster's loop."""


class Cluster(_Face[None]):
    """A context manager; its methods return when what they do is done."""

    def __enter__(self) -> "Cluster":
        self._thread.start().result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.stop().result()

    @contextmanager
    def namespace(self) -> Iterator[Settings]:
        """A namespace of a new name while the context lasts, and the way to it."""
        cluster = self._thread.cluster
        settings = self._thread.do(cluster.open_namespace()).result()
        try:
            yield settings
        finally:
            self._do(cluster.close_namespace(settings))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        self._thread.do(work).result()


class AsyncCluster(_Face[Awaitable[None]]):
    """An asynchronous context manager; what its methods return is to be awaited."""

    async def __aenter__(self) -> "AsyncCluster":
        await asyncio.wrap_future(self._thread.start())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.wrap_future(self._thread.stop())

    def _do(self, work: Coroutine[Any, Any, None]) -> Awaitable[None]:
        return asyncio.wrap_future(self._thread.do(work))
