"""`Agent`: one node of the cluster.

It reaches the API by its client alone and containers by its runtime alone. What it holds in memory
can be lost at any time: the truth about containers is in the runtime, all else in the API.
"""

import asyncio
import logging
import ssl as tls
from random import Random

from shepherd.agent.checks import Checks
from shepherd.agent.endpoints import Endpoints
from shepherd.agent.images import NodeImages
from shepherd.agent.node import AgentConfig, Node, NodeFacts, PodFiles
from shepherd.agent.node_status import NodeKeeper
from shepherd.agent.pods import Pods
from shepherd.agent.services import ServiceKeeper
from shepherd.agent.sources import Sources
from shepherd.agent.status_writer import StatusWriter
from shepherd.agent.tokens import Tokens
from shepherd.agent.volumes import Volumes
from shepherd.client.base import Client
from shepherd.client.recorder import Recorder
from shepherd.lib.clock import Clock
from shepherd.lib.httpd import HttpServer, serve
from shepherd.lib.machine import listen, own_address
from shepherd.runtime.base import Dataplane, Runtime, SheepError

_log = logging.getLogger("shepherd.agent")

_CLOSE_SECONDS = 1.0


class Agent:
    """Runs the pods that are bound to its node.

    `tls` is what its own endpoints are served with (None: plain HTTP, for --insecure). Containers
    go on running when `run` is cancelled.
    """

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        dataplane: Dataplane,
        *,
        config: AgentConfig,
        clock: Clock,
        random: Random,
        ssl: tls.SSLContext | None = None,
    ) -> None:
        name = config.node_name
        self._runtime = runtime
        self._dataplane = dataplane
        self._config = config
        self._ssl = ssl
        self._started = asyncio.Event()
        self._port = 0
        self._stopped = False
        network_ready = asyncio.Event()
        facts = NodeFacts(host_ip=config.node_ip or own_address(config.server_host))
        files = PodFiles(config.directory / "pods")
        self._pods = Pods(client, name, clock=clock, random=random)
        self._services = ServiceKeeper(client, dataplane, name, clock=clock, random=random)
        self._node = Node(
            config=config,
            client=client,
            runtime=runtime,
            clock=clock,
            random=random,
            recorder=Recorder(client, "kubelet", clock=clock, host=name),
            images=NodeImages(
                runtime,
                archives=config.data_dir / "images",
                record=config.directory / "imported.json",
                clock=clock,
            ),
            sources=Sources(client, clock=clock, random=random, changed=self._pods.sources_changed),
            tokens=Tokens(client, clock=clock, changed=self._pods.sources_changed),
            volumes=Volumes(files.pod, runtime),
            statuses=StatusWriter(client, clock=clock, random=random),
            checks=Checks(runtime),
            files=files,
            facts=facts,
            services=self._services.services.all,
            services_known=self._services.known,
            network_ready=network_ready,
            starts=asyncio.Semaphore(config.start_concurrency),
        )
        self._keeper = NodeKeeper(
            client,
            runtime,
            config=config,
            facts=facts,
            clock=clock,
            random=random,
            endpoint_port=lambda: self._port,
            network_ready=network_ready,
            recorder=self._node.recorder,
        )
        self.handle = Endpoints(self._node, self._pods, insecure=ssl is None).handle
        """The agent's own endpoints, as a `lib.http.Handler`."""

    async def run(self) -> None:
        """Never returns; raises SheepError if no container could run on this machine."""
        self._config.directory.mkdir(parents=True, exist_ok=True)
        self._node.images.on_import = self._images_changed
        listener = await self._listen()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keeper.run(self._started))
                group.create_task(self._services.run())
                group.create_task(self._node.recorder.run())
                group.create_task(self._node.sources.run())
                group.create_task(self._node.tokens.run())
                await self._runtime.start()
                for problem in self._runtime.describe().problems:
                    _log.warning("a runtime is passed over: %s", problem)
                self._started.set()
                group.create_task(self._node.images.import_archives())
                group.create_task(self._node.images.collect(self._config.data_dir))
                group.create_task(self._pods.run(self._node))
        except ExceptionGroup as errors:
            if isinstance(errors.exceptions[0], SheepError):
                raise errors.exceptions[0] from errors
            raise
        finally:
            await listener.close(grace_seconds=_CLOSE_SECONDS)
            # Before it has started, the runtime does not know what it holds.
            known = self._started.is_set()
            idle = known and (self._stopped or not await self._runtime.sandboxes())
            await self._dataplane.close(remove=idle)
            await self._runtime.close(remove=idle)

    async def _listen(self) -> HttpServer:
        """Open the agent's own endpoints. Raises OSError when the port is taken."""
        listener = await serve(
            self.handle,
            sock=listen(self._config.endpoint_host, self._config.endpoint_port),
            ssl=self._ssl,
            streamed=lambda method, path: path.startswith("/images/load"),
        )
        self._port = listener.port
        return listener

    @property
    def port(self) -> int:
        """Where its own endpoints are; 0 until it listens."""
        return self._port

    async def ready(self) -> None:
        """Return once the API has been told that the node is ready."""
        await self._keeper.ready.wait()

    async def stop_pods(self) -> None:
        """Stop all containers gracefully; the pods stay in the API and run again with the next
        agent. Call it while `run` runs."""
        await self._pods.stop_all()
        self._stopped = True

    def discard_pods(self) -> None:
        """Let all containers end with the agent, at once."""
        self._stopped = True

    def _images_changed(self) -> None:
        self._pods.images_changed()
        self._keeper.images_changed()
