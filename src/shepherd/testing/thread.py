"""`ClusterThread`: an embedded cluster in a thread and an event loop of its own."""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

from shepherd.testing.clock import IdleLoop
from shepherd.testing.embedded import ClusterConfig, Embedded
from shepherd.testing.ranges import claim

T = TypeVar("T")


class ClusterThread:
    """Runs one cluster, once, from `start` to `stop`."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._thread = threading.Thread(target=self._run, name="shepherd", daemon=True)
        self._ready: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._stop = asyncio.Event()
        self._loop: IdleLoop
        self.cluster: Embedded

    def start(self) -> Future[None]:
        """Done once the cluster is ready, or with the error why it is not."""
        self._thread.start()
        return self._ready

    def stop(self) -> Future[None]:
        """Done once nothing of the cluster is left; with its error, if a part had failed."""
        if not self._ended.done():
            self._loop.call_soon_threadsafe(self._stop.set)
        return self._ended

    def do(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Do something in the cluster's loop. Raises RuntimeError when that has ended."""
        if self._ended.done():
            work.close()
            raise RuntimeError("the cluster has stopped")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _run(self) -> None:
        failure: BaseException | None = None
        directory = Path(tempfile.mkdtemp(prefix="shepherd-"))
        try:
            with asyncio.Runner(loop_factory=IdleLoop) as runner:
                runner.run(self._live(directory))
        except BaseException as error:
            failure = error
        shutil.rmtree(directory, ignore_errors=True)
        if failure and not self._ready.done():
            self._ready.set_exception(failure)
        self._ended.set_exception(failure) if failure else self._ended.set_result(None)

    async def _live(self, directory: Path) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, IdleLoop)
        self._loop = loop
        with claim() if self._config.real else nullcontext() as ranges:
            async with asyncio.TaskGroup() as group:
                self.cluster = Embedded(group, directory, loop, self._config, ranges)
                await self.cluster.start()
                self._ready.set_result(None)
                await self._stop.wait()
                await self.cluster.stop()
